"""Calls of Iceberg's Java API without an equivalent in SQL, on one table.

See Iceberg's ``Table``, ``ManageSnapshots`` and ``AppendFiles``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
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
    """The catalog refused a commit: another came first, or the branch does not descend from its target."""

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
    """``at_ms``: since 1970. ``operation``: append, replace, overwrite or delete."""

    id: int
    at_ms: int
    operation: str
    summary: Mapping[str, str]


class IcebergTable:
    """A table of the lake. ``name`` is ``namespace.table``."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._jvm = cast("Any", spark._jvm)
        # Stored, since Py4J searches every jar for every part of a class's name.
        self._value_of = self._jvm.org.apache.iceberg.types.Conversions.fromByteBuffer
        self._table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, f"{CATALOG}.{name}"
        )

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
            yield Snapshot(
                snapshot_id,
                int(snapshot.timestampMillis()),
                str(snapshot.operation()),
                dict(snapshot.summary()),
            )
            parent = snapshot.parentId()
            snapshot_id = None if parent is None else int(parent)

    def create_branch(self, name: str, snapshot_id: int) -> None:
        """Raises Refused if the branch exists: another writer created it first."""
        _commit(lambda: self._table.manageSnapshots().createBranch(name, snapshot_id).commit())

    def reset_branch(self, name: str, snapshot_id: int) -> None:
        """Move a branch back; the snapshots that it leaves stay in the table until they expire."""
        _commit(lambda: self._table.manageSnapshots().replaceBranch(name, snapshot_id).commit())

    def remove_branches(self, names: Iterable[str]) -> None:
        """Remove branches in one commit, so that their snapshots may expire."""
        removed = list(names)
        if removed:
            manage = self._table.manageSnapshots()
            for name in removed:
                manage = manage.removeBranch(name)
            _commit(manage.commit)

    def expire(self, keep: int) -> None:
        """Expire all but the newest ``keep`` snapshots of every branch; no file is deleted."""
        now = self._jvm.java.lang.System.currentTimeMillis()
        expiry = self._table.expireSnapshots().retainLast(keep).expireOlderThan(now)
        _commit(expiry.cleanExpiredFiles(False).commit)

    def commit_empty(self, branch: str, properties: Mapping[str, str]) -> None:
        """Commit a snapshot with ``properties`` and no files to ``branch``."""
        append = self._table.newFastAppend().toBranch(branch)
        for key, value in properties.items():
            append = append.set(key, value)
        _commit(append.commit)

    def fast_forward(self, branch: str, to: str) -> None:
        """Move ``branch`` to the head of ``to``. Raises Refused if ``to`` does not descend from it."""
        _commit(lambda: self._table.manageSnapshots().fastForwardBranch(branch, to).commit())

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


# Messages of UpdateSnapshotReferencesOperation, and the exception of a lost race.
_REFUSALS = ("Cannot fast-forward", "already exists", "CommitFailedException")


def _commit(commit: Callable[[], Any]) -> None:
    # PySpark turns some Java exceptions into its own (IllegalArgumentException); the rest is Py4J's.
    try:
        commit()
    except (Py4JJavaError, PySparkException) as error:
        for line in str(error).splitlines():
            if any(message in line for message in _REFUSALS):
                raise Refused(line.strip()) from error
        raise
