"""A query's results for a page, as JSON: ten editors of one window, and one line for each other window."""

from __future__ import annotations

from enum import StrEnum
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # PyIceberg takes a second to import, and the API server should not wait for it.
    from sluice.clients.lake.results_table import Editor, Results, Window

MOST_EDITORS = 10
# A wiki allows 255 bytes; what is longer is an attack on the reader's screen.
MOST_CHARACTERS = 255


class Whose(StrEnum):
    """Whose edits are shown."""

    ALL = "all"
    PEOPLE = "people"
    BOTS = "bots"


def shown(results: Results, start: float | None, whose: Whose) -> dict[str, Any]:
    """The results, with the window that begins at ``start`` (None: the newest) in full.

    ``window`` is None if there is no such window. Times are seconds since 1970. Never all users: a page is
    some kilobytes, however many edit.
    """
    return {
        "at": results.at,
        "source_at": results.source_at,
        "watermark": results.watermark,
        "late": results.late,
        "windows": [_line(window) for window in results.windows],
        "window": _in_full(_find(results, start), results.watermark, whose),
    }


def top(window: Window, count: int = MOST_EDITORS, whose: Whose = Whose.ALL) -> list[Editor]:
    """The ``count`` users with the most edits, by name if equal."""
    chosen = (editor for editor in window.editors if _is_of(editor, whose))
    return nsmallest(count, chosen, key=lambda editor: (-editor.edits, editor.user, editor.bot))


def _find(results: Results, start: float | None) -> Window | None:
    if start is None:
        return results.windows[0] if results.windows else None
    return next((window for window in results.windows if window.start == start), None)


def _line(window: Window) -> dict[str, Any]:
    bots = sum(editor.edits for editor in window.editors if editor.bot)
    people = sum(editor.edits for editor in window.editors) - bots
    return {"start": window.start, "end": window.end, "people": people, "bots": bots}


def _in_full(window: Window | None, watermark: float | None, whose: Whose) -> dict[str, Any] | None:
    if window is None:
        return None
    counted = [editor for editor in window.editors if _is_of(editor, whose)]
    return {
        "start": window.start,
        "end": window.end,
        # As long as the watermark is before its end, events of it are in time.
        "open": watermark is None or watermark < window.end,
        "edits": sum(editor.edits for editor in counted),
        "editors": len(counted),
        "top": [_row(editor) for editor in top(window, whose=whose)],
    }


def _is_of(editor: Editor, whose: Whose) -> bool:
    return whose is Whose.ALL or editor.bot == (whose is Whose.BOTS)


def _row(editor: Editor) -> dict[str, Any]:
    name = editor.user
    if len(name) > MOST_CHARACTERS:
        name = f"{name[:MOST_CHARACTERS]}…"
    return {"user": name, "bot": editor.bot, "edits": editor.edits}
