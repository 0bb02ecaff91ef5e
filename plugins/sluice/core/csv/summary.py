"""What rejected rows have in common: the most frequent reasons, each with what would accept its rows."""

from __future__ import annotations

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from sluice.core.csv.advice import CELL, KINDS, WIDTH, fix
from sluice.core.csv.columns.kinds import ddl_title
from sluice.core.csv.form import Declared
from sluice.core.csv.layout import BETWEEN, MORE_COLUMNS
from sluice.core.messages import counted

MAX_REASONS = 3
# Characters of a cell, of the texts of an enum, and of an object's address, in a summary.
_MAX_CELL = 40
_MAX_KIND = 60
_MAX_PLACE = 100
# Rows of one kind of reason of which each one's fix is looked for.
_MOST_FIXES = 200
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


_Found = tuple[Rejected, str]


@dataclass
class _Reasons:
    """Rows of one kind of reason: the ``first`` _MOST_FIXES, in order, and the ``count`` of all."""

    first: list[_Found] = field(default_factory=list)
    count: int = 0

    def add(self, found: _Found) -> None:
        self.count += 1
        if len(self.first) < _MOST_FIXES or _order(found) < _order(self.first[-1]):
            insort(self.first, found, key=_order)
            del self.first[_MOST_FIXES:]


def summary(rejected: Iterable[Rejected], declared: Declared, all_reasons: str = "") -> list[str]:
    """The most frequent reasons, a text each: how many rows have it and its fix, the first of them with its
    cell. Last, how many more reasons there are, and where a person sees them (``all_reasons``). A row counts
    for each of its columns that are wrong."""
    # A few are kept of millions of rows.
    kinds = defaultdict[str, _Reasons](_Reasons)
    for one in rejected:
        for kind, reason in _kinds(one.reason):
            kinds[kind].add((one, reason))
    groups = [group for found in kinds.values() for group in _by_fix(found, declared)]
    groups.sort(key=lambda group: (-group[2], _order(group[0])))
    texts = []
    for (first, reason), advised, count in groups[:MAX_REASONS]:
        rows = f"1 row ({first.place})" if count == 1 else f"{count} rows (first: {first.place})"
        texts.append(f"{rows}: {_short(reason, declared.is_ddl)}{f'; fix: {advised}' if advised else ''}")
    if more := len(groups) - len(texts):
        texts.append(f"and {counted(more, 'more reason')}{f': {all_reasons}' if all_reasons else ''}")
    return texts


def _by_fix(found: _Reasons, declared: Declared) -> Iterator[tuple[_Found, str, int]]:
    """For each fix its first row and how many have it: cells of one column may need several. To find one
    costs, so that of the first rows is taken for all that come behind _MOST_FIXES."""
    advised = [fix(reason, declared) for _, reason in found.first]
    counts = Counter(advised)
    counts[advised[0]] += found.count - len(advised)
    for text, count in counts.items():
        yield found.first[advised.index(text)], text, count


def _order(found: _Found) -> tuple[str, int]:
    return found[0].object, found[0].row


@lru_cache(maxsize=1000)
def _kinds(reason: str) -> list[tuple[str, str]]:
    """A row's reasons, each behind its kind: of millions of rows many have the same."""
    return [(_kind(one), one) for one in each_reason(reason)]


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
