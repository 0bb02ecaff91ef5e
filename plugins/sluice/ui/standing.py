"""How the stream stands, as a page tells it: a pure function of verdicts, supervision and the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

from sluice.clients.errors import ClientError
from sluice.model.health.verdicts import RESTARTABLE, Verdict, no_action
from sluice.model.spec.ledger import Document
from sluice.model.spec.stream import CONSUMER, Supervision


class Looks(Protocol):
    """What :class:`sluice.ui.supervised.Supervised` holds."""

    @property
    def dag(self) -> str: ...
    @property
    def paused(self) -> bool | None: ...
    @property
    def at(self) -> float | None: ...
    @property
    def passed(self) -> bool | None: ...


def standing(
    verdicts: Mapping[str, Document | ClientError | None],
    looks: Looks,
    policy: Supervision,
    now: float,
) -> dict[str, Any]:
    """JSON of each part's verdict and of the supervision that stands behind it. Times: seconds since 1970.

    ``current`` is False where nobody has looked for the policy's ``missed_seconds``, or supervision is paused
    or unknown: then a verdict is what was last known, not what is.
    """
    is_recent = looks.at is not None and now - looks.at <= policy.missed_seconds
    return {
        "parts": [{"part": part, **_told(part, found)} for part, found in verdicts.items()],
        "supervision": {
            "dag": looks.dag,
            "paused": looks.paused,
            "at": looks.at,
            "passed": looks.passed,
            "current": looks.paused is False and is_recent,
        },
    }


def _told(part: str, found: Document | ClientError | None) -> dict[str, Any]:
    if found is None:
        return {"verdict": None, "tone": "none", "sentence": "not looked at yet", "since": None}
    if isinstance(found, ClientError):
        # As a look that saw nothing: red, and with the reason.
        return {
            "verdict": Verdict.UNOBSERVABLE.value,
            "tone": "bad",
            "sentence": f"its verdict cannot be read: {found}",
            "since": None,
        }
    return {
        "verdict": str(found["verdict"]),
        "tone": tone(str(found["verdict"]), part),
        "sentence": str(found.get("sentence", "")),
        "since": datetime.fromisoformat(found["at"]).timestamp(),
    }


def tone(verdict: str, part: str = CONSUMER) -> str:
    """``well``, ``held``, ``mending`` (a restart follows) or ``bad``; what is not known here is bad.

    A part in whose place another one is at work is well; the consumer has no substitute.
    """
    if verdict == Verdict.HELD:
        return "held"
    if verdict in no_action(part):
        return "well"
    return "mending" if verdict in RESTARTABLE else "bad"
