"""A stream as a change of it is planned: its published offsets, its rows, and what changes removed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sluice.changes.quarantined import QuarantinedRecords
from sluice.config.csv_reading import reading_of
from sluice.core.changes.plan import Action, ChangePlan, change_id
from sluice.core.changes.result import ChangeResult
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_facts import TopicFacts
from sluice.loads.verification.checks import LoadFiles, check_offsets
from sluice.loads.verification.without_record import of_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.lake.catalog import Lake, Position
    from sluice.config.stream import StreamSpec
    from sluice.core.offsets.bitmaps import Bitmap
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

log = logging.getLogger(__name__)


def refused(message: str, fix: str) -> Refused:
    """The request names what is not there, or what cannot be changed so."""
    return Refused(f"{message}. Fix: {fix}", ErrorCode.INVALID_PARAMETER)


def number_of_rows(table: Table, sources: Sequence[str]) -> int:
    """How many rows of these sources the table has."""
    from sluice.clients.lake import counting

    return counting.rows_by_source(table, sources).values


class PlannedStream:
    """The stream that the change of a run is planned of. Raises Missing without a table, Refused if its topic
    was recreated."""

    def __init__(self, systems: Systems, spec: StreamSpec, ledger: Ledger, run_id: str) -> None:
        self.spec, self.ledger, self.run_id = spec, ledger, run_id
        self._systems = systems
        self._s3, self.source = systems.s3, systems.source.within(spec.source_prefix, reading_of(spec))
        self.lake: Lake = systems.lake
        self.kafka: KafkaAdmin = systems.kafka
        position = self.lake.position(spec.table)
        if position is None:
            raise Missing(
                f"{spec.table} has no published record. Fix: load the stream first", ErrorCode.TABLE_NOT_FOUND
            )
        self.position: Position = position
        self.changes = self.lake.changes(spec.table)
        topic_id = self.kafka.describe(spec.topic.name).id
        if topic_id != position.topic_id:
            raise refused(
                f"topic {spec.topic.name!r} was recreated: its id is {topic_id}, {spec.table} has "
                f"{position.topic_id}, so its offsets are of other records",
                "restore the topic, or give the stream a new table",
            )
        self.published = OffsetRanges.from_ends(position.starts, position.ends)
        self.quarantine = QuarantinedRecords(self.lake, spec.quarantine_table)

    def removed(self) -> ChangeResult:
        """The document of the newest change after which offsets are removed; an empty one without."""
        from sluice.clients.lake.changes import removed_by

        return removed_by(self._s3, self.changes)

    def rows_of(self, source_id: str) -> Bitmap:
        """The row numbers of a source in the table."""
        from sluice.clients.lake import counting

        table = self.lake.table(self.spec.table)
        return counting.rows_by_source(table, [source_id])[source_id].present

    def with_further_fields(self, asked: OffsetRanges) -> OffsetRanges:
        """Those of ``asked`` that are in files with rows that have fields without a column."""
        from sluice.clients.lake.reading.further_fields import offsets_with

        column = self.spec.records.unknown_column if self.spec.records else ""
        return offsets_with(self.lake.table(self.spec.table), column, asked)

    def check_published(self, asked: OffsetRanges) -> OffsetRanges:
        """``asked``. Raises Refused if the stream has not published all of it."""
        if beyond := asked.minus(self.published):
            unknown = sorted(set(beyond.partitions) - set(self.position.ends))
            if unknown:
                raise refused(
                    f"partition {unknown[0]} is none of {self.spec.table}: it has "
                    f"{min(self.position.ends)} to {max(self.position.ends)}",
                    "name others",
                )
            raise refused(
                f"{self.spec.topic.name}: {beyond} is not published by the stream, which has "
                f"{self.published}",
                "choose offsets up to that, or wait until the stream has published them",
            )
        return asked

    def readable(self, asked: OffsetRanges, *, is_partial: bool) -> OffsetRanges:
        """The records that the topic has, or the quarantine. Raises Refused if one is in neither, unless
        ``is_partial``; also if the topic cannot tell which offsets have none."""
        topic = self.spec.topic.name
        gaps = check_offsets(LoadFiles.at(self.lake, self.spec, asked)).verification.gaps if asked else asked
        if without := of_gaps(self._systems, self.spec, gaps).explained:
            log.info("%s: %d offsets have no record: %s", topic, without.count, without.shown())
            asked = asked.minus(without)
        deleted = asked.minus(OffsetRanges.from_ends(self.kafka.begins(topic), self.kafka.ends(topic)))
        lost = deleted.minus(self.quarantine.among(deleted)) if deleted else deleted
        if lost and not is_partial:
            raise Refused(
                f"{topic}: retention has deleted {lost}, and {self.spec.quarantine_table} does not have "
                "them, so these records cannot be read again. Fix: set partial to leave them as they are, "
                "or load their source file again",
                ErrorCode.OFFSETS_NOT_THERE,
            )
        compacted = self._compacted(asked.minus(deleted))
        if compacted and not is_partial:
            raise Refused(
                f"{topic}: compaction has deleted {compacted.count} of {asked.count} records since they were "
                f"read ({compacted.shown()}), so these cannot be read again. Fix: set partial to leave them "
                "as they are, or choose other offsets",
                ErrorCode.OFFSETS_NOT_THERE,
            )
        return asked.minus(lost).minus(compacted)

    def _compacted(self, kept: OffsetRanges) -> OffsetRanges:
        """Those of ``kept``, which are behind the topic's first offsets, that it delivers no more: a stream's
        own topic is not compacted."""
        from sluice.clients.kafka.reader import delivered_among

        name = self.spec.topic.name
        if not kept or self.spec.topic.managed:
            return OffsetRanges()
        if not TopicFacts.of(len(self.position.ends), self.kafka.config(name)).is_compacted:
            return OffsetRanges()
        return kept.minus(delivered_among(self._systems.platform.kafka, name, kept))

    def planned(self, action: Action, **parts: Any) -> ChangePlan:
        """A plan with these ``parts``, of this run and as of the changes now."""
        topic, published = self.spec.topic.name, self.changes
        return ChangePlan(
            change_id(self.run_id), action, topic, **parts, changes=published.count, newest=published.last
        )
