"""Columns of texts that are times, and the patterns by which all of a file's are read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sluice.core.csv.advice import known_patterns
from sluice.core.csv.columns.kinds import DATE, INSTANT, LOCAL_TIME, Kind
from sluice.core.csv.columns.values import Converter
from sluice.core.csv.form import Rules
from sluice.core.csv.records.quotes import Mask

if TYPE_CHECKING:
    from sluice.core.csv.inferred_types import Inferred

_KINDS = {
    DATE: ("a date", "DATE"),
    LOCAL_TIME: ("a time", "TIMESTAMP_NTZ"),
    INSTANT: ("a time with a zone", "TIMESTAMP"),
}
# Forms of a column's cells of which patterns are tried.
_MAX_SHAPES = 24
# Zones in words, which no pattern reads: to be declared as texts.
_ZONE = re.compile(" (UTC|GMT)")
# One column's patterns, in the order in which they are tried.
Patterns = tuple[str, ...]


@dataclass(frozen=True)
class ColumnOfTimes:
    """``kind``: of which; ``ddl``: its type; ``texts``: its cells; ``fitting``: choices of patterns, each of
    which reads every cell."""

    kind: str
    ddl: str
    texts: pa.StringArray
    fitting: list[Patterns]

    def read(self, chosen: Patterns) -> tuple[np.ndarray, Mask]:
        values, wrong = Converter(Rules(time_formats=chosen)).convert(self.texts, Kind(self.kind))
        return values.fill_null(0).to_numpy(zero_copy_only=False), wrong

    def is_same(self, own: Patterns, other: Patterns) -> bool:
        """Whether the other patterns, declared beside its own, change no value."""
        values, wrong = self.read(other)
        return own == other or not np.any(~wrong & (values != self.read(own)[0]))


def wrong_cells(texts: pa.StringArray, kind: Kind, rules: Rules) -> Mask:
    return Converter(rules).convert(texts, kind)[1]


def are(texts: pa.StringArray, kind: Kind, rules: Rules) -> bool:
    """Whether each text is a value of the kind."""
    return not np.any(wrong_cells(texts, kind, rules))


def times_of(texts: pa.StringArray, rules: Rules) -> ColumnOfTimes | None:
    """None if there is no pattern of which all texts are times."""
    shapes = _shapes(texts)
    for kind, (title, ddl) in _KINDS.items():
        fitting = [
            one for one in _choices(shapes, title) if are(texts, Kind(kind), replace(rules, time_formats=one))
        ]
        if fitting:
            return ColumnOfTimes(kind, ddl, texts, fitting)
    return None


def nearly_times(texts: pa.StringArray, rules: Rules) -> Mask:
    """Which texts are not of the form that most have, if that is one of times; else all."""
    usual = _shapes(texts)[:1]
    for kind, (title, _) in _KINDS.items():
        for one in _choices(usual, title):
            return wrong_cells(texts, Kind(kind), replace(rules, time_formats=one))
    return np.ones(len(texts), bool)


def _shapes(texts: pa.StringArray) -> list[str]:
    """The first text of each form, whatever its digits are; those of most texts first."""
    firsts, counts = dict[str, str](), Counter[str]()
    for text in texts.to_pylist():
        shape = re.sub("[0-9]", "9", text.strip())
        firsts.setdefault(shape, text.strip())
        counts[shape] += 1
        if len(counts) > 10 * _MAX_SHAPES:
            break
    return [firsts[shape] for shape, _ in counts.most_common(_MAX_SHAPES)]


def _choices(shapes: Sequence[str], title: str) -> list[Patterns]:
    """Single patterns of these texts; then those together that differ in seconds and their fraction alone,
    since these are often left out where they are zero."""
    known = list(dict.fromkeys(pattern for text in shapes for pattern in _known(text, title)))
    families = defaultdict[str, list[str]](list)
    for pattern in known:
        families[re.sub(r"(:ss)?(\.S+)?", "", pattern)].append(pattern)
    several = [_together(family) for family in families.values() if len(family) > 1]
    return [*((pattern,) for pattern in known), *several]


def _known(text: str, title: str) -> list[str]:
    zone = _ZONE.search(text)
    if zone is None or zone.end() != len(text):
        return known_patterns(text, title)
    return [f"{pattern} '{zone[1]}'" for pattern in known_patterns(text[: zone.start()], title)]


def _together(family: Sequence[str]) -> Patterns:
    """Patterns with and without one part as a single one."""
    longest = max(family, key=len)
    for part in (r"\.S+", ":ss"):
        shorter = re.sub(part, "", longest, count=1)
        if set(family) == {longest, shorter}:
            return (re.sub(f"({part})", r"[\1]", longest, count=1),)
    return tuple(sorted(family))


def formats(times: Mapping[str, ColumnOfTimes], found: Inferred) -> list[str]:
    """The patterns to declare. They are of all columns: so one that would change the values of another column
    is not taken, and its column is a text."""
    taken = dict[str, Patterns]()
    # Columns that only one order of day and month fits tell the file's.
    for name, column in sorted(times.items(), key=lambda one: len(_orders(one[1]))):
        orders = {_order(one) for one in taken.values()} - {""}
        ordered = sorted(column.fitting, key=lambda one: bool(orders) and _order(one) not in orders)
        chosen = next((one for one in ordered if _is_clear(column, one, taken, times)), None)
        first = column.texts[0].as_py()
        if chosen is None:
            found.columns[name] = "STRING"
            others = ", ".join(_unique(taken))
            found.doubts.append(
                f"{name}: {first!r} is {ordered[0][0]}, and other columns have {others}: a file's times have "
                "one order, so it is a text"
            )
            continue
        taken[name] = chosen
        if len(each := _orders(column)) > 1:
            found.doubts.append(f"{name}: {first!r} may be {' or '.join(each)}; taken for {chosen[0]}")
        if re.search("(?<!y)yy(?!y)", chosen[0]):
            found.doubts.append(f"{name}: {first!r} has a year of two digits, taken for one from 2000 on")
        if zone := _ZONE.search(first):
            found.doubts.append(f"{name}: {first!r} is stored as a time of {zone[1]}, without a zone")
    return _unique({name: taken[name] for name in times if name in taken})


def _unique(taken: Mapping[str, Patterns]) -> list[str]:
    return list(dict.fromkeys(pattern for chosen in taken.values() for pattern in chosen))


def _order(chosen: Patterns) -> str:
    """Which of day and month comes first; empty behind a year, which leaves no doubt."""
    return "" if chosen[0].startswith("y") else min("dM", key=chosen[0].index)


def _orders(column: ColumnOfTimes) -> list[str]:
    """A fitting pattern of each order of day and month."""
    return list({_order(one): one[0] for one in reversed(column.fitting)}.values())[::-1]


def _is_clear(
    column: ColumnOfTimes, chosen: Patterns, taken: Mapping[str, Patterns], times: Mapping[str, ColumnOfTimes]
) -> bool:
    """Whether a column's patterns and the others' give the same values, whichever are tried first."""
    if not all(column.is_same(chosen, other) for other in set(taken.values())):
        return False
    return chosen in taken.values() or all(
        times[name].is_same(other, chosen) for name, other in taken.items()
    )
