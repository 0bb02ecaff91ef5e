"""docs/errors.md: cause and fix of each code, by its first digit."""

from __future__ import annotations

from collections.abc import Mapping

from local.reference.blocks import of_stream, table
from sluice.core.error_codes import ErrorCode
from sluice.notify.remedies import ERRORS

HEAD = ("code", "what failed", "cause", "fix")
# First digit of a code -> heading, and what is said of all of them.
_GROUPS = {
    "1": ("Configuration and set-up", ""),
    "2": ("Systems", ""),
    "3": ("Sources and records", ""),
    "4": ("Verification and reconciliation", ""),
    "5": ("Consumer, producer, queries", ""),
    "6": (
        "Supervision",
        "The code of a health status for which no restart helps. Each links to its section.",
    ),
    "7": ("Queries and sinks", ""),
    "8": ("The embedded stack", ""),
}


def blocks() -> Mapping[str, str]:
    sections = []
    for digit, (heading, note) in _GROUPS.items():
        rows = [_row(code) for code in ErrorCode if code.removeprefix("SLU-").startswith(digit)]
        sections += [f"## {digit}xx {heading}", *([note] if note else []), table(HEAD, rows)]
    return {"error codes": "\n\n".join(sections)}


def _row(code: ErrorCode) -> list[str]:
    guide = ERRORS[code]
    return [f"`{code}`", code.summary, guide.cause, of_stream(guide.fix)]
