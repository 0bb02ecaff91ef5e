"""Calls of Iceberg's Java API without an equivalent in SQL, on one table.

See Iceberg's ``Table``, ``ManageSnapshots`` and ``AppendFiles``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.schema import spelled
from sluice.model.verification.deduplication import Run
from sluice.model.verification.offsets import FileStats
from sluice.model.verification.ranges import OffsetRanges

log = logging.getLogger(__name__)

MAIN = "main"


class Refused(RuntimeError):
    """The catalog refused a commit: another came first, or a ref is not where it was expected."""

    code = ErrorCode.CONCURRENT_COMMIT


@dataclass(frozen=True)
class AddedFile:
    """A data file with its bounds (None: no bound). ``external``: number of records without a source."""

    stats: FileStats
    source_lower: str | None
    source_upper: str | None
    base_offset_lower: int | None
    base_offset_upper: int | None
    external: int

    def run(self) -> Run | None:
        """Return the file's run if the bounds show that it is the only one: one source and base offset."""
        stats = self.stats
        if (
            self.external
            or self.source_lower is None
            or self.source_lower != self.source_upper
            or self.base_offset_lower is None
            or self.base_offset_lower != self.base_offset_upper
            or stats.partition_lower is None
            or stats.offset_lower is None
            or not stats.is_conclusive(OffsetRanges())
        ):
            return None
        start = stats.offset_lower - self.base_offset_lower
        return Run(self.source_lower, stats.partition_lower, start, start + stats.records, stats.records)

    @property
    def is_external(self) -> bool:
        """Whether no record has a source, so the file has no loaded rows."""
        return self.external == self.stats.records


@dataclass(frozen=True)
class Snapshot:
    """``at_ms``: since 1970. ``summary``: with Iceberg's ``operation``."""

    id: int
    at_ms: int
    summary: Mapping[str, str]


class IcebergTable:
    """A table of the lake. ``name`` is ``namespace.table``."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._jvm = cast("Any", spark._jvm)
        # Stored, since Py4J searches every jar for every part of a class's name.
        iceberg = self._jvm.org.apache.iceberg
        self._text_of = iceberg.SnapshotParser.toJson
        self._value_of = iceberg.types.Conversions.fromByteBuffer
        self._metadata_from = iceberg.TableMetadata.buildFrom
        self._table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{name}")

    def refresh(self) -> None:
        self._table.refresh()

    def head(self, ref: str) -> int | None:
        """The snapshot that ``ref`` points at, None without such a ref."""
        snapshot = self._table.refs().get(ref)
        return None if snapshot is None else int(snapshot.snapshotId())

    def partitions(self) -> list[str]:
        """The table's partition fields, spelled as in a stream.toml."""
        schema = self._table.schema()
        return [
            spelled(str(schema.findColumnName(field.sourceId())), str(field.transform().toString()))
            for field in self._table.spec().fields()
        ]

    def branches(self) -> list[str]:
        return [str(name) for name in self._table.refs()]

    def ancestors(self, ref: str) -> Iterator[tuple[int, Mapping[str, str]]]:
        """``(snapshot id, summary)`` of :meth:`snapshots`."""
        return ((snapshot.id, snapshot.summary) for snapshot in self.snapshots(ref))

    def snapshots(self, ref: str) -> Iterator[Snapshot]:
        """Snapshots from the head of ``ref`` back to the oldest that is not expired. No I/O."""
        snapshot_id = self.head(ref)
        while snapshot_id is not None:
            snapshot = self._table.snapshot(snapshot_id)
            if snapshot is None:
                return
            # As one text: Py4J takes several calls for each property of each snapshot.
            found = json.loads(self._text_of(snapshot))
            yield Snapshot(snapshot_id, found["timestamp-ms"], found["summary"])
            snapshot_id = found.get("parent-snapshot-id")

    def change_refs(self, expected: Mapping[str, int | None], changed: Mapping[str, int | None]) -> None:
        """Set refs to snapshots, or remove them (None), all in one commit that is made only if the refs of
        ``expected`` are there (None: missing).

        Raises Refused if one is not, if a snapshot of ``changed`` has expired, or if another commit came
        first: the catalog compares the metadata file that was checked with its own.
        """
        operations = self._table.operations()
        base = operations.refresh()
        found = {name: base.ref(name) for name in expected}
        heads = {name: None if ref is None else int(ref.snapshotId()) for name, ref in found.items()}
        if heads != dict(expected):
            raise Refused(f"{self.name}: refs are {heads}, expected {dict(expected)}")
        builder = self._metadata_from(base)
        for name, snapshot_id in changed.items():
            if snapshot_id is None:
                builder.removeRef(name)
            elif base.snapshot(snapshot_id) is None:
                raise Refused(f"{self.name}: snapshot {snapshot_id} for {name} has expired")
            else:
                builder.setBranchSnapshot(snapshot_id, name)
        # Not read back: the next look at the table does.
        _commit(lambda: operations.commit(base, builder.build()))

    def expire(self, keep: int) -> None:
        """Expire all but the newest ``keep`` snapshots of every branch; no file is deleted."""
        now = self._jvm.java.lang.System.currentTimeMillis()
        expiry = self._table.expireSnapshots().retainLast(keep).expireOlderThan(now)
        _commit(expiry.cleanExpiredFiles(False).commit)

    def stage_empty(self, properties: Mapping[str, str]) -> int:
        """Commit a snapshot with ``properties`` and no files, whose parent is the head of ``main``. No ref
        points at it. Returns its id."""
        append = _with(self._table.newFastAppend().stageOnly(), properties)
        _commit(append.commit)
        return int(append.updateEvent().snapshotId())

    def commit_empty(self, branch: str, properties: Mapping[str, str]) -> None:
        """Commit a snapshot with ``properties`` and no files to ``branch``."""
        _commit(_with(self._table.newFastAppend().toBranch(branch), properties).commit)

    def parent(self, snapshot_id: int) -> int | None:
        """The id of a snapshot's parent, None for the first. No I/O."""
        parent = self._table.snapshot(snapshot_id).parentId()
        return None if parent is None else int(parent)

    def added_files(self, snapshot_id: int) -> list[AddedFile]:
        """The data files that this snapshot added; reads its manifest list and manifest only."""
        snapshot = self._table.snapshot(snapshot_id)
        columns = {name: self._table.schema().findField(name) for name in _BOUNDED}
        return [self._added(file, columns) for file in snapshot.addedDataFiles(self._table.io())]

    def _added(self, file: Any, columns: Mapping[str, Any]) -> AddedFile:
        lower, upper = file.lowerBounds(), file.upperBounds()

        def bound(bounds: Any, name: str) -> Any:
            raw = None if bounds is None else bounds.get(columns[name].fieldId())
            return None if raw is None else self._value_of(columns[name].type(), raw)

        def text(bounds: Any) -> str | None:
            value = bound(bounds, "_source_id")
            return None if value is None else str(value if isinstance(value, str) else value.toString())

        nulls = file.nullValueCounts()
        external = None if nulls is None else nulls.get(columns["_source_id"].fieldId())
        records = int(file.recordCount())
        return AddedFile(
            FileStats(
                str(file.location()),
                bound(lower, "_kafka_partition"),
                bound(upper, "_kafka_partition"),
                bound(lower, "_kafka_offset"),
                bound(upper, "_kafka_offset"),
                records,
            ),
            text(lower),
            text(upper),
            bound(lower, "_source_base_offset"),
            bound(upper, "_source_base_offset"),
            int(external or 0),
        )


_BOUNDED = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset")


def _with(append: Any, properties: Mapping[str, str]) -> Any:
    for key, value in properties.items():
        append = append.set(key, value)
    return append


_RACE = "org.apache.iceberg.exceptions.CommitFailedException"


def _commit(commit: Callable[[], Any]) -> None:
    try:
        commit()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _RACE:
            raise Refused(str(error.java_exception.getMessage())) from error
        raise
