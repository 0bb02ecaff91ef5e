"""How a query is, as a page tells it: by its own last words, and by its silence."""

from __future__ import annotations

import pytest

from sluice.clients.kafka.query_progress import (
    ACTIVITY_SECONDS,
    SILENT_SECONDS,
    ActivityEvent,
    ActivityKind,
    Progress,
    ProgressSnapshot,
    QueryHistory,
    Totals,
)
from sluice.web.query_json import life, queries_view

NOW = 1_795_302_000.0


def batch(ago: float) -> Progress:
    return Progress("q", "r", 1, NOW - ago - 2, 2.0, 5, Totals(0.0))


def sign(kind: str, ago: float, detail: str = "") -> ActivityEvent:
    return ActivityEvent("q", "r", NOW - ago, kind, detail)


@pytest.mark.parametrize(
    ("progress", "last", "state", "ago"),
    [
        (batch(5), None, "running", 5),
        (batch(5), sign(ActivityKind.STARTED, 400), "running", 5),
        (None, sign(ActivityKind.STARTED, 5), "running", 5),
        (batch(900), sign(ActivityKind.IDLE, 50), "idle", 50),
        # After its rest it works again.
        (batch(5), sign(ActivityKind.IDLE, 50), "running", 5),
        (batch(900), sign(ActivityKind.WORKING, 50), "working", 50),
        (batch(SILENT_SECONDS), None, "running", SILENT_SECONDS),
        (batch(SILENT_SECONDS + 1), None, "silent", SILENT_SECONDS + 1),
        (batch(900), sign(ActivityKind.IDLE, SILENT_SECONDS + 1), "silent", SILENT_SECONDS + 1),
        (None, sign(ActivityKind.STARTED, SILENT_SECONDS + 1), "silent", SILENT_SECONDS + 1),
        (batch(9000), sign(ActivityKind.ENDED, 8000, "reason"), "ended", 8000),
        (batch(5), sign(ActivityKind.ENDED, 8000, "reason"), "running", 5),
    ],
)
def test_its_state(progress: Progress | None, last: ActivityEvent | None, state: str, ago: float) -> None:
    found = life(QueryHistory("q", progress, last), NOW)
    assert (found["state"], found["at"]) == (state, NOW - ago)
    assert found["detail"] == ("reason" if state == "ended" else "")


def test_reasons_name_no_addresses() -> None:
    ended = QueryHistory("q", None, sign(ActivityKind.ENDED, 5, "PostgreSQL at db-1:5432 refused"))
    found = queries_view(ProgressSnapshot({"s": (ended,)}, malformed="see /srv/sluice/log"), "s", NOW)
    assert (found["queries"][0]["life"]["detail"], found["malformed"]) == ("PostgreSQL at … refused", "see …")


def test_nothing_is_known_of_it() -> None:
    assert life(QueryHistory("q", None, None), NOW) == {"state": "silent", "at": None, "detail": ""}


def test_a_live_process_is_never_silent_for_so_long() -> None:
    """An activity event may be late, but not by a minute."""
    assert SILENT_SECONDS >= ACTIVITY_SECONDS + 60
