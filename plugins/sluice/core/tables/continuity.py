"""What makes a source that was verified once stay so: the table still has the offsets that it had then.

A topic's end offsets only grow as long as it has the same id. So the end offsets of two loads of one topic
are in one order, also if the catalog was restored in between, and their sums are in the same: a table that
has published the offsets of one load has published those of every load with a lower sum.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping


def incarnation(table_uuid: str, topic_id: str, starts: Mapping[int, int]) -> str:
    """16 hex digits that name a table with its topic and its first published offsets.

    Another table, a recreated topic, and a table that begins at a later offset have another one. A partition
    that was added to the topic does not change it: it begins at 0.
    """
    first = {str(partition): start for partition, start in sorted(starts.items()) if start}
    return hashlib.sha256(json.dumps([table_uuid, topic_id, first]).encode()).hexdigest()[:16]


def covers(ends: Mapping[int, int], offsets: Mapping[int, int]) -> bool:
    """Whether end offsets reach ``offsets`` in every partition."""
    return all(ends.get(partition, 0) >= offset for partition, offset in offsets.items())


def newest_covered(totals: Iterable[int], is_covered: Callable[[int], bool]) -> int | None:
    """The highest of ``totals`` that is covered, if all lower ones are too; None if none is.

    Usually one call of ``is_covered``, for the highest; after a restore the logarithm of their number.
    """
    ordered = sorted(set(totals))
    if not ordered or is_covered(ordered[-1]):
        return ordered[-1] if ordered else None
    reached = bisect_left(ordered[:-1], True, key=lambda total: not is_covered(total))
    return ordered[reached - 1] if reached else None
