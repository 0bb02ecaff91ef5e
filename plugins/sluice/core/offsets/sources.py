"""Check the rows or events of a source against table and quarantine."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sluice.core.offsets.ranges import IntervalSet

if TYPE_CHECKING:
    from sluice.core.offsets.bitmaps import Bitmap
    from sluice.core.offsets.counts import Counted

# A record's key on the topic, as a regular expression for Spark (Java) and Python:
# source id, 0-based row of the source, 0-based sequence number in its target partition. The source id of a
# record that is withheld is followed by WITHHELD_MARK. Nothing behind it: "$" would also match before a line
# break.
WITHHELD_MARK = "!"
KEY_PATTERN = rf"^([0-9a-f]{{16}})[:{WITHHELD_MARK}]([0-9]{{1,18}}):([0-9]{{1,18}})(?![\s\S])"
MAX_NAMED_IDS = 5


@dataclass(frozen=True)
class SourceCheck:
    """Result for one source. ``what``: "rows", "events" or "offsets"; ``total``: those of the source;
    ``problems``: a message per kind of failure; ``removed``: rows that a change took out singly.

    Numbers of these: ``published`` in the table, ``quarantined`` in the quarantine, ``missing`` from
    both, ``duplicated`` more than once.
    """

    what: str
    total: int
    published: int
    quarantined: int
    missing: int
    duplicated: int
    problems: tuple[str, ...]
    removed: int = 0

    @property
    def is_ok(self) -> bool:
        return not self.problems

    def message(self) -> str:
        if self.problems:
            return f"failed: {', '.join(self.problems)} of {self.total} {self.what}"
        kept = f"{self.published} published + {self.quarantined} quarantined"
        kept += f" + {self.removed} removed by changes" if self.removed else ""
        return f"passed: {self.total} {self.what} = {kept}"


def check_rows(
    total: int, published: Counted, quarantined: Bitmap, removed: Iterable[int] = ()
) -> SourceCheck:
    """Compare a source's ``total`` rows with the 0-based row numbers in table and quarantine, and with those
    that a change ``removed`` singly, of which copies may be there.

    Quarantine entries of one row count once: a producer that was killed between two attempts may write a row
    again, which loses nothing.
    """
    # Not at the top: the DAG processor imports this module.
    from sluice.core.offsets.bitmaps import Bitmap

    present, expected = published.present, Bitmap.of([(0, total)])
    absent = expected - present - quarantined
    missing = absent - Bitmap.of(IntervalSet.of_values(removed))
    duplicated = published.repeated | (present & quarantined)
    unknown = (present | quarantined) - expected
    named = (missing, "missing"), (duplicated, "more than once"), (unknown, "not in the source")
    problems = tuple(f"{len(found)} {name} (rows {found.shown()})" for found, name in named if found)
    counts = len(quarantined), len(missing), len(duplicated)
    return SourceCheck("rows", total, published.values, *counts, problems, len(absent) - len(missing))


def check_events(
    total: int,
    published: int,
    quarantined: int,
    missing_id: int,
    duplicates: Mapping[str, int],
    more: int = 0,
) -> SourceCheck:
    """Compare a load's ``total`` offsets with its published rows, ``missing_id`` of them without an event id,
    and quarantined offsets. ``duplicates``: event id -> its rows in the whole table, if more than one;
    ``more``: number of further such ids.
    """
    missing = max(total - published - quarantined, 0)
    extra = max(published + quarantined - total, 0)
    named = ", ".join(f"{name} {count} times" for name, count in sorted(duplicates.items())[:MAX_NAMED_IDS])
    counts = (
        (missing, "missing"),
        (extra, "rows more than offsets"),
        (missing_id, "rows without an event id"),
        (len(duplicates) + more, f"event ids more than once ({named})"),
    )
    problems = tuple(f"{count} {name}" for count, name in counts if count)
    return SourceCheck("events", total, published, quarantined, missing, len(duplicates) + more, problems)


def check_offsets(total: int, quarantined: int, gaps: int, duplicates: int) -> SourceCheck:
    """Compare the ``total`` offsets of records of others with those in quarantine, in neither table
    (``gaps``), and there more than once."""
    counts = ((gaps, "missing"), (duplicates, "more than once"))
    problems = tuple(f"{count} {name}" for count, name in counts if count)
    return SourceCheck("offsets", total, total - quarantined - gaps, quarantined, gaps, duplicates, problems)


def minute_ranges(minutes: Sequence[int], max_ranges: int) -> list[tuple[int, int]]:
    """At most ``max_ranges`` half-open ranges that cover the sorted ``minutes``, split at the widest gaps."""
    gaps = sorted(((after - before, before) for before, after in pairwise(minutes)), reverse=True)
    ends = sorted(before for gap, before in gaps[: max_ranges - 1] if gap > 1)
    starts = [minutes[0], *(minutes[bisect_right(minutes, end)] for end in ends)] if minutes else []
    return [(start, end + 1) for start, end in zip(starts, [*ends, *minutes[-1:]], strict=True)]


def source_id(bucket: str, key: str, version: str) -> str:
    """The 16 hex digits of one object version. ``version``: its version id, or its ETag in a bucket without
    versions, so that an overwritten object is another source."""
    return hashlib.sha256(f"{bucket}\n{key}\n{version}".encode()).hexdigest()[:16]
