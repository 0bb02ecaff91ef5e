"""Rows and events of a source against the table.

Rows of a source object against what became of them: published once, or quarantined, or the load is red.

What came onto a topic against what became of it: each event published once, or in quarantine.

Who a row is: the identity that travels from a source object through the topic into the lake.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sluice.model.verification.ranges import IntervalSet


@dataclass(frozen=True)
class RowReconciliation:
    """One object's rows (0-based numbers). ``missing``: nowhere; ``twice``: more than once, or in both."""

    source_rows: int
    published: int
    quarantined: int
    missing: IntervalSet
    twice: IntervalSet
    unknown: IntervalSet

    @property
    def is_ok(self) -> bool:
        return not (self.missing or self.twice or self.unknown)

    @property
    def missing_count(self) -> int:
        """How many rows are nowhere."""
        return self.missing.count

    @property
    def repeated(self) -> int:
        """How many rows are there more than once, or in both."""
        return self.twice.count

    def message(self) -> str:
        """One line for a task state."""
        if self.is_ok:
            kept = f"{self.published} published + {self.quarantined} quarantined"
            return f"passed: {self.source_rows} rows = {kept}"
        parts = [
            f"{bad.count} {name} (rows {str(bad)[:160]})"
            for name, bad in (
                ("missing", self.missing),
                ("more than once", self.twice),
                ("that the object does not have", self.unknown),
            )
            if bad
        ]
        return f"failed: {', '.join(parts)} of {self.source_rows} rows"


def reconcile(source_rows: int, published: Iterable[int], quarantined: Iterable[int]) -> RowReconciliation:
    """Hold an object's ``source_rows`` data rows against the row numbers found in table and quarantine.

    A row number in ``published`` counts as often as it is given; quarantine entries of one row count once
    (a producer that was killed between two attempts may name a row again, which loses nothing).
    """
    rows = sorted(published)
    aside = IntervalSet.of_values(quarantined)
    seen = IntervalSet.of_values(rows)
    repeated = IntervalSet.of_values(b for a, b in pairwise(rows) if a == b)
    every = IntervalSet.of([(0, source_rows)])
    return RowReconciliation(
        source_rows=source_rows,
        published=len(rows),
        quarantined=aside.count,
        missing=every.minus(seen).minus(aside),
        twice=repeated.union(seen.intersect(aside)),
        unknown=seen.union(aside).minus(every),
    )


NAMED = 5


def spans(moments: Sequence[int], most: int) -> list[tuple[int, int]]:
    """At most ``most`` half-open ranges that hold all ``moments``, which are sorted: parted where they are
    farthest from each other. Of moments that follow each other by 1, one."""
    gaps = sorted(((after - before, before) for before, after in pairwise(moments)), reverse=True)
    ends = sorted(before for gap, before in gaps[: most - 1] if gap > 1)
    begins = [moments[0], *(_next_after(moments, end) for end in ends)] if moments else []
    return [(begin, end + 1) for begin, end in zip(begins, [*ends, *moments[-1:]], strict=True)]


def _next_after(moments: Sequence[int], moment: int) -> int:
    """The first of the sorted ``moments`` that is later. Raises IndexError where none is."""
    return moments[bisect_right(moments, moment)]


@dataclass(frozen=True)
class EventReconciliation:
    """The events of one load. ``source_rows``: the offsets that it means; ``published``: rows of the table
    with one of these offsets, ``nameless`` of them without an event id; ``quarantined``: offsets there.

    ``twice``: event id -> how many rows of the whole table have it, where that is more than one.
    """

    source_rows: int
    published: int
    quarantined: int
    nameless: int = 0
    twice: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        return not (self.missing_count or self.extra or self.nameless or self.twice)

    @property
    def missing_count(self) -> int:
        """How many offsets are neither published nor in quarantine."""
        return max(self.source_rows - self.published - self.quarantined, 0)

    @property
    def extra(self) -> int:
        """How many rows there are beyond the offsets."""
        return max(self.published + self.quarantined - self.source_rows, 0)

    @property
    def repeated(self) -> int:
        """How many event ids are in the table more than once."""
        return len(self.twice)

    def message(self) -> str:
        """One line for a task state."""
        if self.is_ok:
            kept = f"{self.published} published + {self.quarantined} quarantined"
            return f"passed: {self.source_rows} events = {kept}, each event id once"
        shown = ", ".join(f"{name} {count} times" for name, count in sorted(self.twice.items())[:NAMED])
        parts = [
            text
            for number, text in (
                (self.missing_count, f"{self.missing_count} missing"),
                (self.extra, f"{self.extra} rows more than offsets"),
                (self.nameless, f"{self.nameless} rows without an event id"),
                (self.repeated, f"{self.repeated} event ids more than once ({shown})"),
            )
            if number
        ]
        return f"failed: {', '.join(parts)} of {self.source_rows} events"


# The record's key on the topic, as a regular expression that Spark (Java) and Python both understand.
KEY_PATTERN = r"^([0-9a-f]{16}):([0-9]{1,18}):([0-9]{1,18})$"


class RowIdentity(NamedTuple):
    """``row``: 0-based data row of the object; ``sequence``: its 0-based place among the rows sent to its
    lane."""

    source_id: str
    row: int
    sequence: int


def source_id(bucket: str, key: str, version: str) -> str:
    """The 16 hex digits that stand for one version of one object.

    ``version`` is the object's version id, or its ETag where the bucket keeps no versions, so that an
    object that was overwritten is another source and one that was only listed again is the same.
    """
    return hashlib.sha256(f"{bucket}\n{key}\n{version}".encode()).hexdigest()[:16]


def parse_key(key: bytes | None) -> RowIdentity | None:
    """The identity in a record's key, or None for a record that another producer wrote."""
    match = re.match(KEY_PATTERN, (key or b"").decode("ascii", "replace"))
    return RowIdentity(match[1], int(match[2]), int(match[3])) if match else None
