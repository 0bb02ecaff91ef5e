"""Messages in one line, and tables for a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from sluice.core.error_codes import CODE

MAX_PROBLEMS = 3
MAX_CHARACTERS = 500
# Longest text of another program that a message quotes.
MAX_QUOTED = 120
# In the place of a value that is not known.
UNKNOWN = "–"
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
# "LookupError: …", "sluice.config.reading.toml.ConfigError: …", "org.apache.kafka.…TimeoutException: …",
# "spark_jobs.common.producer.source_object.CorruptObject: …": a dotted path with a class name at its end, or
# a bare …Error.
_REASON = re.compile(r"(?:[A-Za-z_$][\w$]*\.)+[A-Z]\w*: .+|\b[A-Z]\w*(?:Error|Exception): .+")


def summarize(problems: Sequence[str], most: int = MAX_PROBLEMS) -> str:
    """The first ``most`` in one line, each of MAX_CHARACTERS at most, and how many more there are."""
    shown = [_shortened(" ".join(problem.split())) for problem in problems[:most]]
    more = len(problems) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def counted(number: int, noun: str) -> str:
    """As ``1 row``, ``2 rows``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(text: str, limit: int = MAX_QUOTED) -> str:
    """``limit`` characters of a text of others: in quotes, with what is not printable escaped."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}…"


def iso(at: float) -> str:
    """ISO 8601 in UTC, to the second; ``at``: seconds since 1970."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def age(seconds: float | None) -> str:
    """In at most two units: ``42 s``, ``3 min 5 s``, ``2 h 10 min``, ``3 d 4 h``."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    for index, (name, size) in enumerate(_UNITS):
        if whole >= size:
            rest = _UNITS[index + 1] if index + 1 < len(_UNITS) else None
            more = whole % size // rest[1] if rest else 0
            return f"{whole // size} {name}" + (f" {more} {rest[0]}" if rest and more else "")
    return "0 s"


def failure_reason(output: Sequence[str]) -> str:
    """Why a process failed: the last line with a code or an exception, from there on; else the last line."""
    lines = [line.strip() for line in output if line.strip()]
    reasons = [match for line in lines if (match := _reason(line))]
    return (reasons or lines or ["its log is empty"])[-1][:MAX_CHARACTERS]


def _reason(line: str) -> str:
    coded = CODE.search(line)
    match = coded or _REASON.search(line)
    return line[match.start() :] if match else ""


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def aligned(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns, numbers to the right; begins with a line break, for a log."""
    cells = [list(map(str, head)), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    numeric = [bool(rows) and all(isinstance(row[c], int | float) for row in rows) for c in range(len(head))]

    def line(row: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n" + "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
