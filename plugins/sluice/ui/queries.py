"""What a page shows of a stream's queries, as JSON: the newest figures, and a point for each minute."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sluice.model.progress import SILENT_SECONDS, ActivityEvent, Kind, ProgressSnapshot, QueryHistory
from sluice.model.progress_slots import SLOT_SECONDS, slots

# How far back the pictures go.
PAST_SECONDS = 3 * 3600.0


def shown(progress: ProgressSnapshot, stream: str, now: float) -> dict[str, Any]:
    """Times are seconds since 1970, durations seconds, memory bytes. ``complete`` and ``malformed``: of
    ProgressSnapshot."""
    return {
        "now": now,
        "since": now - PAST_SECONDS,
        "slot_seconds": SLOT_SECONDS,
        "complete": progress.complete,
        "malformed": progress.malformed,
        "queries": [_query(query, now) for query in progress.queries.get(stream, ())],
    }


def _query(query: QueryHistory, now: float) -> dict[str, Any]:
    newest = query.progress
    return {
        "query": query.query,
        "life": life(query, now),
        "newest": None if newest is None else asdict(newest) | {"ended": newest.ended},
        "slots": [asdict(slot) for slot in slots(query.batches)],
    }


def life(query: QueryHistory, now: float) -> dict[str, Any]:
    """How the query is, as far as its own words go: ``state`` is running, idle, working (on a batch that has
    not ended), ended, or silent (for so long that its process must be thought dead); ``at`` is when it was
    heard of last, ``detail`` why it ended."""
    newest = query.newest
    if newest is None or query.at is None:
        return {"state": "silent", "at": None, "detail": ""}
    told = {"at": query.at, "detail": newest.detail if isinstance(newest, ActivityEvent) else ""}
    if query.is_ended:
        return {"state": "ended", **told}
    if now - query.at > SILENT_SECONDS:
        return {"state": "silent", **told}
    if isinstance(newest, ActivityEvent) and newest.kind in (Kind.IDLE, Kind.WORKING):
        return {"state": str(newest.kind), **told}
    return {"state": "running", **told}
