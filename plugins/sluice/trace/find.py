"""Where a row of a stream came from, and where the rows of a source are: from table, quarantine, ledger and
the source object itself. It reads the files whose bounds match, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.changes import removed_by
from sluice.clients.lake.commits import sequence_since
from sluice.clients.lake.position import position
from sluice.clients.lake.reading import rows as held
from sluice.clients.lake.schema_offsets import schema_offsets
from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import split
from sluice.config.stream import StreamSpec
from sluice.core.changes.result import ChangeResult
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing
from sluice.core.json_record import Document
from sluice.core.offsets.sources import source_id as id_of
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import planned_key, produced_key
from sluice.loads import sources
from sluice.loads.heads import head_of
from sluice.loads.known.index import ObjectContents
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.sending.produced import offsets_of
from sluice.loads.sources.csv_object import ObjectSource
from sluice.systems import Systems
from sluice.trace.record_schema import Record, Recorded, SchemaOf, schema_of
from sluice.trace.rows import (
    QUARANTINE,
    TABLE,
    Absence,
    Absent,
    Place,
    Rejected,
    RowTrace,
    Source,
    SourceTrace,
    absent_offset,
    absent_row,
)


class StreamTrace:
    """Answers of one stream. Raises clients' errors; Missing for a source that no load has planned."""

    def __init__(
        self,
        spec: StreamSpec,
        lake: Lake,
        ledger: Ledger,
        batches: BatchLog,
        kafka: KafkaAdmin,
        schema_of: SchemaOf | None = None,
    ) -> None:
        """``schema_of``: of a stream whose records name schemas of a registry."""
        self.spec, self.lake, self.ledger, self.batches, self.kafka = spec, lake, ledger, batches, kafka
        self._schema_of = schema_of

    @classmethod
    def open(cls, systems: Systems, spec: StreamSpec) -> Self:
        systems.tables(spec.name).check(spec.table, spec.quarantine_table)
        batches = systems.batch_log(spec.table)
        ledger, found = systems.ledger(spec.name), None
        if spec.records is not None and spec.records.registry:
            kept = position(batches.table)
            offsets = schema_offsets(ledger.client, batches.table)
            recorded = Recorded(offsets, has_changes=bool(kept and kept.changes))
            topic_id = (kept and kept.topic_id) or ""
            found = schema_of(systems, spec.topic.name, topic_id, recorded, spec.subjects)
        return cls(spec, systems.lake, ledger, batches, systems.kafka, found)

    def offset(self, partition: int, offset: int) -> RowTrace:
        """The record at an offset of the topic."""
        rows = held.at_offset(partition, offset)
        found = list(self._rows(TABLE, rows, 0)) or list(self._rows(QUARANTINE, rows, 0))
        if not found:
            kept = position(self.batches.table)
            starts, ends = (kept.starts, kept.ends) if kept else ({}, {})
            removed = self._removed().removed
            absent = absent_offset(
                partition, offset, self._topic(), starts, ends, removed, self.batches.without_record
            )
            return RowTrace(self.spec.topic.name, None, None, None, (), absent)
        values = found[0][1]
        source_id, row = values[held.SOURCE], values[held.ROW]
        planned = self.ledger.get(planned_key(source_id)) if source_id else None
        line = self._line(planned, row) if planned else None
        places = [place for place, _ in found]
        return RowTrace(self.spec.topic.name, self._source(source_id, planned), row, line, places)

    def row(self, source_id: str, row: int) -> RowTrace:
        """A row of a source, by its 0-based number: also a copy in the quarantine."""
        planned = self._planned(source_id)
        rows, source = held.of_source(source_id, row), self._source(source_id, planned)
        found = [
            place
            for where in (TABLE, QUARANTINE)
            for place, _ in self._rows(where, rows, self._since(where, planned))
        ]
        line = self._line(planned, row)
        absent = None if found else self._absent_row(planned, row, line)
        return RowTrace(self.spec.topic.name, source, row, line, found, absent)

    def source(self, uri: str, version_id: str = "") -> SourceTrace:
        """The rows of an object version; of the current one without ``version_id``."""
        bucket, key = split(uri)
        source_id = id_of(bucket, key, version_id) if version_id else self._current(bucket, key)
        planned = self._planned(source_id, f"{uri} version {version_id or '(the current one)'}")
        files = {
            found.file: found.offsets
            for found in held.offsets_of_source(self._table(TABLE), source_id, self._since(TABLE, planned))
        }
        rejected = [
            Rejected(place.reason, values[held.ROW], values["line"], place.partition, place.offset)
            for place, values in self._rows(
                QUARANTINE, held.of_source(source_id), self._since(QUARANTINE, planned), is_brief=True
            )
        ]
        return SourceTrace(self.spec.topic.name, self._source(source_id, planned), files, rejected)

    def _current(self, bucket: str, key: str) -> str:
        """The source as which the object's current version is loaded: that of an earlier one, if that has the
        same content."""
        source = self._bucket(bucket)
        verified = VerifiedSources(self.ledger, self.lake, self.spec.table)
        return ObjectContents(self.ledger, source, verified).look_up(source.head(key)).source_id

    def _table(self, where: str) -> Table:
        return self.lake.table(self.spec.table if where == TABLE else self.spec.quarantine_table)

    def _rows(
        self, where: str, rows: BooleanExpression, since: int, *, is_brief: bool = False
    ) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Each place of the rows, and the row's columns; brief: without its batch."""
        columns = held.ORIGIN if where == TABLE else held.REJECTED
        beside = {} if is_brief else self._beside(where)
        if where == QUARANTINE and self.lake.location(self.spec.quarantine_table) is None:
            return
        # That of a rejected record says its schema, also when the topic has lost it.
        more = ["value"] if where == QUARANTINE and self._schema_of is not None and not is_brief else []
        for row in held.find(self._table(where), rows, (*columns, *beside.values(), *more), since):
            values = row.values
            partition, offset = values[held.PARTITION], values[held.OFFSET]
            batch = (
                None
                if is_brief or offset is None
                else self.batches.holding(partition, offset, values.get(held.TIME))
            )
            reason = values.get("reason", "")
            record = {name: values.get(column) for name, column in beside.items()}
            if self._schema_of is not None and not is_brief and offset is not None:
                value, headers = values.get("value"), values.get("headers") or ()
                asked = Record(partition, offset, batch, *((value, headers) if where == QUARANTINE else ()))
                record["schema"] = self._schema_of(asked)
            yield Place(where, row.file, row.snapshot_id, partition, offset, reason, batch, record), values

    def _beside(self, where: str) -> dict[str, str]:
        """What records of others have beside their values -> its column."""
        declared = self.spec.records
        if declared is None:
            return {}
        if where == QUARANTINE:
            return {"time": held.TIME, "key": "key", "headers": "headers"}
        columns = {"key": declared.key_column if declared.key else "", "headers": declared.headers}
        return {"time": held.TIME} | {name: column for name, column in columns.items() if column}

    def _since(self, where: str, planned: Document) -> int:
        """No file with the source's rows is older than this sequence number."""
        name = self.spec.table if where == TABLE else self.spec.quarantine_table
        if self.lake.location(name) is None:
            return 0
        return sequence_since(self.lake.table(name), [head_of(planned, name)])

    def _planned(self, source_id: str, name: str = "") -> Document:
        planned = self.ledger.get(planned_key(source_id))
        if planned is None:
            what = f"{name}: source {source_id}" if name else f"source {source_id}"
            raise Missing(
                f"{what}: no load of {self.spec.name} has planned it "
                f"({self.ledger.uri(planned_key(source_id))} does not exist). Fix: check object, version and "
                "stream; an overwritten object is a source per content",
                ErrorCode.DOCUMENT_NOT_FOUND,
            )
        return planned

    def _source(self, source_id: str | None, planned: Document | None) -> Source:
        if not source_id:
            unknown = "external record" if self.spec.topic.managed else "record of others"
            return Source({"feed": self.spec.feed.url} if self.spec.feed else {"source": unknown})
        if planned is None:
            return Source({"source": "not in the ledger"}, source_id)
        produced = self.ledger.get(produced_key(source_id)) or {}
        return Source(
            sources.read(planned).identity, source_id, planned["run_id"], produced.get("run_id", "")
        )

    def _line(self, planned: Document, row: int) -> int | None:
        source = sources.read(planned)
        if not isinstance(source, ObjectSource):
            return None
        return self._bucket(source.version.bucket).line_of_row(source.version, row, source.form)

    def _absent_row(self, planned: Document, row: int, line: int | None) -> Absent:
        source = sources.read(planned)
        if line is None and isinstance(source, ObjectSource):
            return Absent(Absence.NO_ROW, f"{source.name} has fewer rows (they count from 0)")
        produced = self.ledger.get(produced_key(planned["source_id"]))
        kept = position(self.batches.table)
        sent = offsets_of(produced) if produced else None
        removed, source_id = self._removed(), planned["source_id"]
        is_removed = source_id in removed.reverted_sources or row in removed.rows_of(source_id)
        return absent_row(row, sent, kept.ends if kept else {}, is_removed=is_removed)

    def _removed(self) -> ChangeResult:
        """What changes removed and none brought back."""
        return removed_by(self.ledger.client, self.lake.changes(self.spec.table))

    def _bucket(self, name: str) -> Bucket:
        return Bucket(self.ledger.client, name)

    def _topic(self) -> dict[int, tuple[int, int]]:
        name = self.spec.topic.name
        ends = self.kafka.ends(name)
        return {p: (first, ends.get(p, first)) for p, first in self.kafka.begins(name).items()}
