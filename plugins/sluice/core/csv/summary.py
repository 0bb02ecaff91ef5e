"""What rejected rows have in common: the most frequent reasons, each with what would accept its rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.core.csv.advice import CELL, KINDS, WIDTH, fix
from sluice.core.csv.columns.kinds import ddl_title
from sluice.core.csv.form import Declared
from sluice.core.csv.layout import BETWEEN, MORE_COLUMNS

MAX_REASONS = 3
# Characters of a cell, of the texts of an enum, and of an object's address, in a summary.
_MAX_CELL = 40
_MAX_KIND = 60
_MAX_PLACE = 100
# One of a row's wrong columns, as ``layout.Layout`` says it.
_COLUMN = re.compile(
    rf"(column [^\s:]+(?:: '.*?' is not (?:{KINDS})| is empty))(?:{BETWEEN}|\Z)(?=column |{MORE_COLUMNS}|\Z)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Rejected:
    """A rejected ``row``, by its 0-based number in its file, and why. ``line``: the 1-based one at which it
    begins; ``object``: the address of its file, "" where that is said already."""

    row: int
    reason: str
    line: int
    object: str = ""

    @property
    def place(self) -> str:
        shown = self.object
        if len(shown) > _MAX_PLACE:
            shown = f"{shown[: _MAX_PLACE // 4]}…{shown[-_MAX_PLACE * 3 // 4 :]}"
        return f"{shown} row {self.row}, line {self.line}".lstrip()


def summary(rejected: Iterable[Rejected], declared: Declared) -> list[str]:
    """The most frequent reasons, a text each: how many rows have it, the first of them with its cell, and a
    fix. Last, how many more reasons there are. A row counts for each of its columns that are wrong."""
    kinds = defaultdict[str, list[tuple[Rejected, str]]](list)
    for one in rejected:
        for reason in each_reason(one.reason):
            kinds[_kind(reason)].append((one, reason))
    firsts = [(min(found, key=_order), len(found)) for found in kinds.values()]
    firsts.sort(key=lambda found: (-found[1], _order(found[0])))
    texts = []
    for (first, reason), count in firsts[:MAX_REASONS]:
        rows = f"1 row ({first.place})" if count == 1 else f"{count} rows (first: {first.place})"
        advised = fix(reason, declared)
        texts.append(f"{rows}: {_short(reason, declared.is_ddl)}{f'; fix: {advised}' if advised else ''}")
    if more := len(firsts) - len(texts):
        texts.append(f"and {more} more reasons")
    return texts


def _order(found: tuple[Rejected, str]) -> tuple[str, int]:
    return found[0].object, found[0].row


def each_reason(reason: str) -> list[str]:
    """A row's reason: that of each of its wrong columns, if they are what is wrong with it."""
    found, at = list[str](), 0
    while at < len(reason) and (match := _COLUMN.match(reason, at)):
        found.append(match[1])
        at = match.end()
    return found if found and reason[at:] in ("", MORE_COLUMNS) else [reason]


def _kind(reason: str) -> str:
    """What reasons have in common that one fix is for, whatever their numbers and cells are."""
    if match := WIDTH.fullmatch(reason):
        return f"width {match[1] == '1'} {'empty' in match[3]}"
    if reason.startswith("too large"):
        return "too large"
    return CELL.sub(r"column \1 is not \3", reason)


def _short(reason: str, is_ddl: bool) -> str:
    match = CELL.fullmatch(reason)
    if match is None:
        return reason
    name, cell, kind = match.groups()
    cell = cell if len(cell) <= _MAX_CELL else f"{cell[:_MAX_CELL]}…"
    kind = ddl_title(kind) if is_ddl else kind
    return f"column {name}: '{cell}' is not {kind if len(kind) <= _MAX_KIND else f'{kind[:_MAX_KIND]}…'}"
