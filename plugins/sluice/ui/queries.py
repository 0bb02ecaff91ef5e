"""What a page shows of a stream's queries, as JSON: the newest figures, and a point for each minute."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sluice.clients.progress import Past, StreamPast
from sluice.model.progress import SILENT_SECONDS, Kind, Latest, Sign
from sluice.model.progress_slots import SLOT_SECONDS, slots

# How far back the pictures go.
PAST_SECONDS = 3 * 3600.0


def shown(past: StreamPast, now: float) -> dict[str, Any]:
    """Times are seconds since 1970, durations seconds, memory bytes. ``complete`` is False while older
    batches are still being read."""
    return {
        "now": now,
        "since": now - PAST_SECONDS,
        "slot_seconds": SLOT_SECONDS,
        "complete": past.complete,
        "queries": [_query(query, now) for query in past.queries],
    }


def _query(past: Past, now: float) -> dict[str, Any]:
    newest = past.latest.progress
    return {
        "query": past.query,
        "life": life(past.latest, now),
        "newest": None if newest is None else asdict(newest) | {"ended": newest.ended},
        "slots": [asdict(slot) for slot in slots(past.batches)],
    }


def life(latest: Latest, now: float) -> dict[str, Any]:
    """How the query is, as far as its own words go: ``state`` is running, idle, working (on a batch that has
    not ended), ended, or silent (for so long that its process must be thought dead); ``at`` is when it was
    heard of last, ``detail`` why it ended."""
    newest = latest.newest
    if newest is None or latest.at is None:
        return {"state": "silent", "at": None, "detail": ""}
    told = {"at": latest.at, "detail": newest.detail if isinstance(newest, Sign) else ""}
    if latest.is_ended:
        return {"state": "ended", **told}
    if now - latest.at > SILENT_SECONDS:
        return {"state": "silent", **told}
    if isinstance(newest, Sign) and newest.kind in (Kind.IDLE, Kind.WORKING):
        return {"state": str(newest.kind), **told}
    return {"state": "running", **told}
