"""JSON of the pages: a query's results, and the metrics of a stream's queries with a point per minute."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
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
    from sluice.clients.lake.results.table import Editor, Results, Window

# Range of the charts.
PROGRESS_WINDOW_SECONDS = 3 * 3600.0
MAX_EDITORS = 10
# A wiki allows 255 bytes; a longer name is an attack.
MAX_CHARACTERS = 255


class EditorFilter(StrEnum):
    """Filter of the edits that are shown."""

    ALL = "all"
    PEOPLE = "people"
    BOTS = "bots"


def results_view(results: Results, start: float | None, whose: EditorFilter) -> dict[str, Any]:
    """The results, with details of the window that begins at ``start`` (None: the newest).

    ``window`` is None if there is no such window. Times: seconds since 1970.
    """
    return {
        "at": results.at,
        "source_at": results.source_at,
        "watermark": results.watermark,
        "late": results.late,
        "early": results.early,
        "windows": [_line(window) for window in results.windows],
        "window": _in_full(_find(results, start), results.watermark, whose),
    }


def top(window: Window, whose: EditorFilter = EditorFilter.ALL) -> list[Editor]:
    """The MAX_EDITORS users with the most edits, by name if equal."""
    chosen = (editor for editor in window.editors if _is_of(editor, whose))
    return nsmallest(MAX_EDITORS, chosen, key=lambda editor: (-editor.edits, editor.user, editor.bot))


def _find(results: Results, start: float | None) -> Window | None:
    if start is None:
        return results.windows[0] if results.windows else None
    return next((window for window in results.windows if window.start == start), None)


def _line(window: Window) -> dict[str, Any]:
    bots = sum(editor.edits for editor in window.editors if editor.bot)
    people = sum(editor.edits for editor in window.editors) - bots
    return {"start": window.start, "end": window.end, "people": people, "bots": bots}


def _in_full(window: Window | None, watermark: float | None, whose: EditorFilter) -> dict[str, Any] | None:
    if window is None:
        return None
    counted = [editor for editor in window.editors if _is_of(editor, whose)]
    return {
        "start": window.start,
        "end": window.end,
        # Events are in time until the watermark passes its end.
        "open": watermark is None or watermark < window.end,
        "edits": sum(editor.edits for editor in counted),
        "editors": len(counted),
        "top": [_row(editor) for editor in top(window, whose=whose)],
    }


def _is_of(editor: Editor, whose: EditorFilter) -> bool:
    return whose is EditorFilter.ALL or editor.bot == (whose is EditorFilter.BOTS)


def _row(editor: Editor) -> dict[str, Any]:
    name = editor.user
    if len(name) > MAX_CHARACTERS:
        name = f"{name[:MAX_CHARACTERS]}…"
    return {"user": name, "bot": editor.bot, "edits": editor.edits}


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
