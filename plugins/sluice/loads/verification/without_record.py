"""Offsets that are in neither table because they have no record, or one without a value that the stream
skips: what the consumer recorded, and Kafka says.

The consumer reads record batches by one client, and records which offsets have no record. That alone explains
no gap, since the check would believe what it checks: a second client, librdkafka, is asked whether the topic
delivers a committed record there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import NAMES, WithoutRecord

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.systems import Systems


@dataclass(frozen=True)
class GapsWithoutRecord:
    """``recorded``: those of some gaps that the consumer recorded as without a record. Of these, ``records``:
    where the topic delivers a committed one, with a value if it was skipped as a tombstone; ``deleted``: that
    it no longer has, so that it cannot tell."""

    recorded: WithoutRecord = field(default_factory=WithoutRecord)
    records: OffsetRanges = field(default_factory=OffsetRanges)
    deleted: OffsetRanges = field(default_factory=OffsetRanges)

    @property
    def explained(self) -> OffsetRanges:
        """The gaps that are none."""
        return self.recorded.offsets.minus(self.records)

    def message(self) -> str:
        """How many have no record, why, and who says so."""
        explained = self.recorded.within(self.explained)
        if not explained.count:
            return "none"
        asked = explained.count - self.deleted.count
        none = "no value" if explained.skipped else "none"
        by = f"the topic delivers {none} to librdkafka at {asked} of them"
        gone = f", and has deleted {self.deleted.count} since" if self.deleted else ""
        return f"{explained.count} offsets: {explained.message()}; {by}{gone}"

    def problems(self, stream: str) -> list[str]:
        """Why the consumer is not believed; empty if it is."""
        if not self.records:
            return []
        problem = (
            f"offsets: the consumer recorded {self.records.count} offsets as without a record, at which the "
            f"topic delivers a committed one ({self.records.shown()}). Fix: read these records again with "
            f"{stream}_change, action replay, and report it: the consumer's reader is wrong"
        )
        return [problem]

    def to_document(self) -> dict[str, Any]:
        """Numbers for a proof."""
        explained = self.recorded.within(self.explained)
        counts = {name: getattr(explained, name).count for name in NAMES}
        # Only of streams that skip some.
        if not explained.skipped:
            del counts["skipped"]
        return {**counts, "evidence": explained.evidence, "deleted_since": self.deleted.count}


NO_GAPS = GapsWithoutRecord()


def of_gaps(systems: Systems, spec: StreamSpec, gaps: OffsetRanges) -> GapsWithoutRecord:
    """Ask the stream's batches and its topic about offsets that are in neither table; nothing without any.

    Raises Refused if the topic cannot be asked: it was recreated, ends before them, or the role may not read;
    Unreachable if it does not answer.
    """
    from sluice.clients.kafka.reader import delivered_among

    if not gaps:
        return NO_GAPS
    recorded = systems.batch_log(spec.table).without_record(gaps)
    if not recorded.count:
        return NO_GAPS
    name, offsets = spec.topic.name, recorded.offsets
    position, topic_id = systems.lake.position(spec.table), systems.kafka.describe(name).id
    if position is None or position.topic_id != topic_id:
        raise _cannot_tell(name, recorded, f"was recreated: its id is {topic_id}, the table's is another")
    begins, ends = systems.kafka.begins(name), systems.kafka.ends(name)
    deleted = offsets.intersect(OffsetRanges.from_ends({}, begins))
    kept = offsets.minus(deleted)
    if beyond := kept.minus(OffsetRanges.from_ends({}, ends)):
        raise _cannot_tell(name, recorded, f"ends before {beyond.shown()}: its log was truncated")
    records = delivered_among(systems.platform.kafka, name, kept, recorded.skipped)
    return GapsWithoutRecord(recorded, records, deleted)


def _cannot_tell(topic: str, recorded: WithoutRecord, why: str) -> Refused:
    return Refused(
        f"{recorded.count} offsets are in neither table, and the consumer recorded that they have no record; "
        f"topic {topic!r} cannot confirm it, since it {why}. Fix: restore the topic, or give the stream a "
        "new table",
        ErrorCode.OFFSETS_NOT_THERE,
    )
