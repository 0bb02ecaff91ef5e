"""JSON of the pages: a query's results, and the metrics of a stream's queries with a point per minute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from sluice.clients.kafka.query_progress import (
    SILENT_SECONDS,
    ActivityEvent,
    ActivityKind,
    ProgressSnapshot,
    QueryHistory,
)
from sluice.queries.timeseries import SLOT_SECONDS, slots
from sluice.web.formats import public

if TYPE_CHECKING:
    # PyIceberg takes a second to import, and the API server should not wait for it.
    from sluice.clients.lake.results.table import Group, Results, Window
    from sluice.config.sections.page import Page

# Range of the charts.
PROGRESS_WINDOW_SECONDS = 3 * 3600.0
MAX_GROUPS = 10
# A longer name is an attack.
MAX_CHARACTERS = 255


def results_view(results: Results, page: Page, start: float | None, kind: bool | None) -> dict[str, Any]:
    """The results, with details of the window that begins at ``start`` (None: the newest) and of its groups
    of ``kind`` (None: all).

    ``window`` is None if there is no such window; ``values`` of a window: one per kind of the page, or one.
    Times: seconds since 1970.
    """
    return {
        "at": results.at,
        "source_at": results.source_at,
        "watermark": results.watermark,
        "late": results.late,
        "early": results.early,
        "windows": [_line(window, page) for window in results.windows],
        "window": _in_full(_find(results, start), results.watermark, kind),
    }


def top(groups: Iterable[Group]) -> list[Group]:
    """The MAX_GROUPS groups with the highest values, by name if equal."""
    return nsmallest(MAX_GROUPS, groups, key=lambda group: (-group.value, group.name, group.kind))


def _find(results: Results, start: float | None) -> Window | None:
    if start is None:
        return results.windows[0] if results.windows else None
    return next((window for window in results.windows if window.start == start), None)


def _line(window: Window, page: Page) -> dict[str, Any]:
    values = [0] * (len(page.kinds) or 1)
    for group in window.groups:
        values[group.kind] += group.value
    return {"start": window.start, "end": window.end, "values": values}


def _in_full(window: Window | None, watermark: float | None, kind: bool | None) -> dict[str, Any] | None:
    if window is None:
        return None
    groups = [group for group in window.groups if kind in (None, group.kind)]
    return {
        "start": window.start,
        "end": window.end,
        # Events are in time until the watermark passes its end.
        "open": watermark is None or watermark < window.end,
        "value": sum(group.value for group in groups),
        "groups": len(groups),
        "top": [_row(group) for group in top(groups)],
    }


def _row(group: Group) -> dict[str, Any]:
    name = group.name
    if len(name) > MAX_CHARACTERS:
        name = f"{name[:MAX_CHARACTERS]}…"
    return asdict(group) | {"name": name}


def queries_view(progress: ProgressSnapshot, stream: str, now: float) -> dict[str, Any]:
    """Times: seconds since 1970; durations: seconds; ``complete``, ``malformed``: of ProgressSnapshot."""
    return {
        "now": now,
        "since": now - PROGRESS_WINDOW_SECONDS,
        "slot_seconds": SLOT_SECONDS,
        "complete": progress.complete,
        "malformed": public(progress.malformed),
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
    """``state``: running, idle, working (on a long batch), ended, or silent (no activity for SILENT_SECONDS);
    ``at``: of its last activity; ``detail``: why it failed, without addresses."""
    newest = query.newest
    if newest is None or query.at is None:
        return {"state": "silent", "at": None, "detail": ""}
    event = {"at": query.at, "detail": public(newest.detail) if isinstance(newest, ActivityEvent) else ""}
    if query.is_ended:
        return {"state": "ended", **event}
    if now - query.at > SILENT_SECONDS:
        return {"state": "silent", **event}
    if isinstance(newest, ActivityEvent) and newest.kind in (ActivityKind.IDLE, ActivityKind.WORKING):
        return {"state": str(newest.kind), **event}
    return {"state": "running", **event}
