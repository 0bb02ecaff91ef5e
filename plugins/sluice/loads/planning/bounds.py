"""The bound of intervals of a topic of others: the first offsets of a time, if the topic still knows them.

Kafka answers with the first record *that it keeps* of a time or a later one. After retention, and behind a
record whose sender's clock is ahead, that is another record than the first one of this time: an interval
would be verified as complete, without records that the table has. Such a bound is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin


def first_offsets(
    kafka: KafkaAdmin, topic: str, at: datetime, stream_starts: Mapping[int, int]
) -> dict[int, int]:
    """Partition -> the first offset whose record has the time ``at`` or a later one, else the topic's end.
    ``stream_starts``: before them the stream claims nothing.

    Raises Refused for a record of a time that is yet to come, and if retention may have deleted the first
    record of this time.
    """
    ends = kafka.ends(topic)
    found = kafka.first_records(topic, int(at.timestamp() * 1000), ends)
    now = datetime.now(UTC)
    for partition, (offset, ms) in sorted(found.items()):
        if ms > now.timestamp() * 1000:
            raise Refused(
                f"time {at.isoformat()}: the first record of topic {topic!r}, partition {partition}, that is "
                f"not older is at offset {offset}, and its time, {_shown(ms)}, is yet to come: a sender's "
                "clock is ahead, so times do not say which records of this partition are of the interval. "
                "Fix: clear this task when that time is over or the record is deleted, or trigger a load "
                "without an interval; ask for message.timestamp.type=LogAppendTime",
                ErrorCode.INTERVAL_INCOMPLETE,
            )
    offsets = {
        partition: found[partition][0] if partition in found else end for partition, end in ends.items()
    }
    # Asked afterwards: what retention deletes meanwhile is seen.
    begins = kafka.begins(topic, len(ends))
    moved = [
        p for p, first in begins.items() if first > stream_starts.get(p, 0) and offsets.get(p, 0) <= first
    ]
    if moved and not _is_kept(kafka.config(topic), at, now):
        raise Refused(
            f"time {at.isoformat()}: topic {topic!r} begins at offset {begins[moved[0]]} of partition "
            f"{moved[0]}, and its retention may have deleted the first records of this time, which the table "
            "has: the interval's offsets are not known. Fix: trigger a load without an interval, which "
            "verifies all that is not verified; run intervals within the topic's retention",
            ErrorCode.INTERVAL_INCOMPLETE,
        )
    return offsets


def _is_kept(config: Mapping[str, str | None], at: datetime, now: datetime) -> bool:
    """Whether retention by age alone deletes, and no record of this time yet."""
    # Whatever size deletes is of any age.
    if int(config.get("retention.bytes") or -1) >= 0:
        return False
    age = int(config.get("retention.ms") or -1)
    return age >= 0 and (now - at) / timedelta(milliseconds=1) < age


def _shown(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
    # A sender may count in microseconds, say.
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms after 1970"
