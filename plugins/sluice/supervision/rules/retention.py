"""Unread data that a topic loses: it was recreated, or retention deletes records."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.core.offsets.ranges import OffsetRanges
from sluice.supervision.rules.sample import Sample, deletion_rate


def topic_id_changed(series: Sequence[Sample]) -> str | None:
    """Compare the topic's id with the table's or, if the table has none, with those of earlier samples."""
    now = series[-1]
    if now.topic_id is None or now.published is None:
        return None
    known = now.published.topic_id
    ids = [known] if known else [sample.topic_id for sample in series if sample.topic_id]
    other = next((topic_id for topic_id in ids if topic_id != now.topic_id), None)
    return f"the topic was recreated: its id is {now.topic_id} and was {other}" if other else None


def topic_truncated(sample: Sample) -> str | None:
    """The topic ends before the table does, or has fewer partitions."""
    if sample.ends is None or sample.published is None:
        return None
    ends, table = sample.ends, sample.published.ends
    missing = sorted(partition for partition in table if partition not in ends)
    if missing:
        return (
            f"the topic was recreated: it has {len(ends)} partitions, and the table has partition "
            f"{', '.join(map(str, missing))}"
        )
    for partition, end in sorted(table.items()):
        if ends[partition] < end:
            return (
                f"the topic was recreated: partition {partition} ends at {ends[partition]}, and the table "
                f"has offsets up to {end}"
            )
    return None


def already_deleted(sample: Sample) -> str | None:
    """Offsets that were deleted before they were read, of the partitions of which some were read."""
    begins = sample.begins or {}
    ends = sample.published.ends if sample.published else {}
    gone = OffsetRanges.of({p: [(end, begins[p])] for p, end in ends.items() if begins.get(p, end) > end})
    return f"{gone.count} offsets were deleted before they were read: {gone}" if gone else None


def expiring(sample: Sample, margin_seconds: float) -> str | None:
    """Unread records that retention deletes because of their age within ``margin_seconds``."""
    kept = sample.expiring or {}
    count = 0
    for partition, unread in sample.unread().items():
        first = sample.first_unread(partition)
        count += max(min(kept.get(partition, first), first + unread) - first, 0)
    if not count:
        return None
    seconds = margin_seconds if sample.expires_in is None else sample.expires_in
    return f"retention deletes {count} unread records, the first of them within {duration(seconds)}"


def trimmed_by_size(series: Sequence[Sample], margin_seconds: float, min_seconds: float) -> str | None:
    """The topic's begin advances and reaches unread records within ``margin_seconds``.

    Its rate is measured over at least ``min_seconds``.
    """
    now = series[-1]
    soonest: dict[int, float] = {}
    for partition in now.unread():
        rate = deletion_rate(series, partition, min_seconds)
        if rate is not None:
            margin = now.first_unread(partition) - (now.begins or {}).get(partition, 0)
            soonest[partition] = margin / rate
    if not soonest or min(soonest.values()) >= margin_seconds:
        return None
    partition = min(soonest, key=lambda p: soonest[p])
    return (
        f"the topic's begin advances, and at its pace unread records of partition {partition} are deleted "
        f"within {duration(soonest[partition])}"
    )


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
