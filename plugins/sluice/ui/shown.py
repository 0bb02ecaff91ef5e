"""What a page shows of a report, as JSON: ten editors of one window, and one line for each other window."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sluice.model.report import Editor, Report, Window, top

MOST_EDITORS = 10
# A wiki allows 255 bytes; what is longer is an attack on the reader's screen.
MOST_CHARACTERS = 255


class Whose(StrEnum):
    """Whose edits are shown."""

    ALL = "all"
    PEOPLE = "people"
    BOTS = "bots"


def shown(report: Report, start: float | None, whose: Whose) -> dict[str, Any]:
    """The report as it stands, with the window that begins at ``start`` (None: the newest) in full.

    ``window`` is None where the report holds no such window. Times are seconds since 1970. Never all users:
    a page is some kilobytes, however many edit.
    """
    return {
        "at": report.at,
        "newest": report.newest,
        "watermark": report.watermark,
        "records": report.records,
        "late": report.late,
        "pace": report.pace,
        "windows": [_line(window) for window in report.windows],
        "window": _in_full(_find(report, start), report.watermark, whose),
    }


def _find(report: Report, start: float | None) -> Window | None:
    if start is None:
        return report.windows[0] if report.windows else None
    return next((window for window in report.windows if window.start == start), None)


def _line(window: Window) -> dict[str, Any]:
    people = bots = late = 0
    for editor in window.editors:
        late += editor.late
        if editor.bot:
            bots += editor.edits
        else:
            people += editor.edits
    return {"start": window.start, "end": window.end, "people": people, "bots": bots, "late": late}


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
        "late": sum(editor.late for editor in counted),
        "editors": sum(editor.edits > 0 for editor in counted),
        "top": [_row(editor) for editor in top(window, MOST_EDITORS, whose.value)],
    }


def _is_of(editor: Editor, whose: Whose) -> bool:
    return whose is Whose.ALL or editor.bot == (whose is Whose.BOTS)


def _row(editor: Editor) -> dict[str, Any]:
    name = editor.user
    if len(name) > MOST_CHARACTERS:
        name = f"{name[:MOST_CHARACTERS]}…"
    return {"user": name, "bot": editor.bot, "edits": editor.edits, "late": editor.late}
