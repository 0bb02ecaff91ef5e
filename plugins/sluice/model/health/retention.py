"""How a topic can lose what a stream has not read: made anew, trimmed already, or about to be trimmed."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.model.health.sample import Sample, deletion_rate
from sluice.model.verification.ranges import OffsetRanges


def other_id(series: Sequence[Sample]) -> str | None:
    """That the topic's id is not the table's or, where the table has none, not an earlier look's."""
    now = series[-1]
    if now.topic_id is None or now.published is None:
        return None
    known = now.published.topic_id
    seen = [known] if known else [sample.topic_id for sample in series if sample.topic_id]
    other = next((topic_id for topic_id in seen if topic_id != now.topic_id), None)
    return f"the topic was made anew: its id is {now.topic_id} and was {other}" if other else None


def shrunk(sample: Sample) -> str | None:
    """That the topic ends before the table does, or lacks partitions of it."""
    if sample.ends is None or sample.published is None:
        return None
    ends, table = sample.ends, sample.published.ends
    missing = sorted(partition for partition in table if partition not in ends)
    if missing:
        return (
            f"the topic was made anew: it has {len(ends)} partitions, and the table knows partition "
            f"{', '.join(map(str, missing))}"
        )
    for partition, end in sorted(table.items()):
        if ends[partition] < end:
            return (
                f"the topic was made anew: partition {partition} ends at {ends[partition]}, and the table "
                f"holds offsets up to {end}"
            )
    return None


def deleted(sample: Sample) -> str | None:
    """Which offsets were deleted before they were read, of the partitions that the stream has begun."""
    begins = sample.begins or {}
    ends = sample.published.ends if sample.published else {}
    gone = OffsetRanges.of({p: [(end, begins[p])] for p, end in ends.items() if begins.get(p, end) > end})
    return f"{gone.count} offsets were deleted before they were read: {gone}" if gone else None


def expiring(sample: Sample, within: float) -> str | None:
    """How many unread records retention deletes because of their age, ``within`` so many seconds."""
    keeps = sample.expiring or {}
    count = 0
    for partition, waiting in sample.unread().items():
        first = sample.first_unread(partition)
        count += max(min(keeps.get(partition, first), first + waiting) - first, 0)
    if not count:
        return None
    first_goes = within if sample.expires_in is None else sample.expires_in
    return f"retention deletes {count} unread records, the first of them within {duration(first_goes)}"


def overtaken(series: Sequence[Sample], within: float, least: float) -> str | None:
    """That the topic's begin, as it advances (because of the topic's size, say), reaches unread records.

    ``within`` seconds count; its pace is measured over ``least`` seconds or more.
    """
    now = series[-1]
    soonest: dict[int, float] = {}
    for partition in now.unread():
        pace = deletion_rate(series, partition, least)
        if pace is not None:
            margin = now.first_unread(partition) - (now.begins or {}).get(partition, 0)
            soonest[partition] = margin / pace
    if not soonest or min(soonest.values()) >= within:
        return None
    partition = min(soonest, key=lambda p: soonest[p])
    return (
        f"the topic's begin advances, and at its pace unread records of partition {partition} are deleted "
        f"within {duration(soonest[partition])}"
    )


def duration(seconds: float) -> str:
    """As people say it: in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
