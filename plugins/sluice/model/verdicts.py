"""The words of a stream's health: the verdicts, what each is followed by, and what a judgement says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluice.model.json_record import JsonRecord
from sluice.model.stream import Supervision


class Verdict(StrEnum):
    """How a stream is. Every verdict is in exactly one of CALM, RESTARTABLE, ASKING and ALARMING.

    *Patience* is the policy's ``stall_seconds``, or three times the longest of the last batches if that is
    more; each restart since the newest batch doubles it.
    """

    # It moves, and no more waits than arrives within the patience; or all that came is published.
    HEALTHY = "healthy"
    # Nothing waits and nothing came.
    IDLE = "idle"
    # It moves, and more waits than arrives within the patience.
    CATCHING_UP = "catching up"
    # The process runs, and has not taken over yet.
    STARTING = "starting"
    # Stopped on purpose, until somebody releases it.
    HELD = "held"
    # The process runs, records wait, and nothing was published for longer than the patience; or it did not
    # take over in time.
    STALLED = "stalled"
    # The process does not run.
    DEAD = "dead"
    # Dead or stalled, and restarted too often already.
    FLAPPING = "flapping"
    # It moves, and what waits grows and grows.
    FALLING_BEHIND = "falling behind"
    # It moves or is held, and retention is about to delete what waits.
    AT_RISK = "at risk"
    # Retention has deleted what waited.
    LOST = "lost"
    # The topic is not the one that was read.
    RECREATED = "recreated"
    # The process ended because another owner has taken over.
    SUPERSEDED = "superseded"
    # The process is alive, and what it reads from has not answered for too long.
    CUT_OFF = "cut off"
    # Something did not answer, or it was not watched for long enough to say whether it moves.
    UNOBSERVABLE = "unobservable"


WELL = frozenset({Verdict.HEALTHY, Verdict.IDLE, Verdict.CATCHING_UP, Verdict.STARTING})
# Nothing is to be done: it is well, or somebody stopped it on purpose.
CALM = WELL | {Verdict.HELD}
# A restart mends it.
RESTARTABLE = frozenset({Verdict.STALLED, Verdict.DEAD})
# Restarts did not mend it: a person decides.
ASKING = frozenset({Verdict.FLAPPING})
# No restart mends it: a person has to know.
ALARMING = frozenset(
    {
        Verdict.FALLING_BEHIND,
        Verdict.AT_RISK,
        Verdict.LOST,
        Verdict.RECREATED,
        Verdict.SUPERSEDED,
        Verdict.CUT_OFF,
        Verdict.UNOBSERVABLE,
    }
)


def unless_flapping(
    verdict: Verdict, sentence: str, restarts: int, policy: Supervision
) -> tuple[Verdict, str]:
    """What a restart mends, with its sentence; or FLAPPING, where ``restarts`` within the policy's window did
    not mend it."""
    if restarts < policy.most_restarts:
        return verdict, sentence
    return Verdict.FLAPPING, (
        f"{verdict.value}: {sentence}; it was restarted {restarts} times within "
        f"{policy.restart_window_seconds} s, and that does not mend it"
    )


@dataclass(frozen=True)
class Facts:
    """What the stream's history says: when it was restarted (seconds since 1970), and ``held``, where it is
    stopped on purpose: by whom, since when and why."""

    restarts: list[float] = field(default_factory=list)
    held: str | None = None


@dataclass(frozen=True)
class Diagnosis(JsonRecord):
    """A verdict, and what it rests on.

    ``sentence``: one line with names and values. ``lag``: records on the topic that are not published;
    ``rate`` and ``arrivals``: records per second published and arriving, over the time that was observed;
    each None where unknown. ``identity``: of the process that was judged. ``evidence``: JSON's types only.
    ``conclusive``: observing longer would not change it.
    """

    verdict: Verdict
    sentence: str
    lag: int | None = None
    rate: float | None = None
    arrivals: float | None = None
    token: int | None = None
    identity: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    conclusive: bool = False
