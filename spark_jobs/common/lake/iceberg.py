"""The few calls of Iceberg's Java API that SQL has no words for, on one table.

Documented at Iceberg's ``Table``, ``ManageSnapshots`` and ``AppendFiles``: branches, snapshots with
properties but without files, and the files that one snapshot added (read from its own manifest only, so
the cost follows the batch and not the table).
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
    """The catalog refused to move a branch: it does not descend from where the branch points now."""

    code = ErrorCode.CONCURRENT_COMMIT


@dataclass(frozen=True)
class AddedFile:
    """A data file with the bounds that the proof and the claims need (None: no bound, so no statement)."""

    fact: FileStats
    source_lower: str | None
    source_upper: str | None
    base_lower: int | None
    base_upper: int | None
    foreign: int

    def run(self) -> Run | None:
        """The one run of this file, where the bounds show that there is only one.

        One source, and one base: then ``sequence`` is the offset minus the base, and no offset is there
        twice.
        """
        fact = self.fact
        if (
            self.foreign
            or self.source_lower is None
            or self.source_lower != self.source_upper
            or self.base_lower is None
            or self.base_lower != self.base_upper
            or fact.partition_lower is None
            or fact.offset_lower is None
            or not fact.is_conclusive(OffsetRanges())
        ):
            return None
        start = fact.offset_lower - self.base_lower
        return Run(self.source_lower, fact.partition_lower, start, start + fact.records, fact.records)

    @property
    def is_foreign(self) -> bool:
        """Every record in it came from another producer, so it claims no row."""
        return self.foreign == self.fact.records


@dataclass(frozen=True)
class Snapshot:
    """One snapshot: ``at_ms`` since 1970, ``operation`` as Iceberg calls it (append, replace, overwrite,
    delete)."""

    id: int
    at_ms: int
    operation: str
    summary: Mapping[str, str]


class IcebergTable:
    """One table of the lake, as the Java API shows it. ``name`` is ``namespace.table``."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._jvm = cast("Any", spark._jvm)
        # Kept: to find a class by its name, Py4J asks every jar for every part of the name.
        self._value_of = self._jvm.org.apache.iceberg.types.Conversions.fromByteBuffer
        self._table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, f"{CATALOG}.{name}"
        )

    def refresh(self) -> None:
        self._table.refresh()

    def head(self, ref: str) -> int | None:
        """The snapshot that ``ref`` points at, or None where there is no such ref."""
        found = self._table.refs().get(ref)
        return None if found is None else int(found.snapshotId())

    def partitions(self) -> list[str]:
        """The table's partition fields, spelled as a stream.toml does."""
        schema = self._table.schema()
        return [
            spelled(str(schema.findColumnName(field.sourceId())), str(field.transform().toString()))
            for field in self._table.spec().fields()
        ]

    def branches(self) -> list[str]:
        return [str(name) for name in self._table.refs()]

    def ancestors(self, ref: str) -> Iterator[tuple[int, Mapping[str, str]]]:
        """``(snapshot id, summary)`` from the head of ``ref`` back to the oldest one kept. No I/O."""
        return ((snapshot.id, snapshot.summary) for snapshot in self.snapshots(ref))

    def snapshots(self, ref: str) -> Iterator[Snapshot]:
        """From the head of ``ref`` back to the oldest one kept. No I/O."""
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
        """Raises Refused where the branch exists: somebody else was faster."""
        _unless_refused(lambda: self._table.manageSnapshots().createBranch(name, snapshot_id).commit())

    def reset_branch(self, name: str, snapshot_id: int) -> None:
        """Point an own branch back. The snapshots it leaves stay known to the table until they expire."""
        _unless_refused(lambda: self._table.manageSnapshots().replaceBranch(name, snapshot_id).commit())

    def remove_branches(self, names: Iterable[str]) -> None:
        """In one commit; nothing where there are none. The snapshots that only they keep may expire."""
        removed = list(names)
        if removed:
            manage = self._table.manageSnapshots()
            for name in removed:
                manage = manage.removeBranch(name)
            _unless_refused(manage.commit)

    def expire(self, keep: int) -> None:
        """Forget all but the newest ``keep`` snapshots of every branch. No file is removed: nobody here may
        delete."""
        now = self._jvm.java.lang.System.currentTimeMillis()
        expiry = self._table.expireSnapshots().retainLast(keep).expireOlderThan(now)
        _unless_refused(expiry.cleanExpiredFiles(False).commit)

    def commit_empty(self, branch: str, properties: Mapping[str, str]) -> None:
        """A snapshot without files on ``branch``, that only says something."""
        append = self._table.newFastAppend().toBranch(branch)
        for key, value in properties.items():
            append = append.set(key, value)
        _unless_refused(append.commit)

    def fast_forward(self, branch: str, to: str) -> None:
        """Move ``branch`` to where ``to`` points. Raises Refused where ``to`` does not descend from it."""
        _unless_refused(lambda: self._table.manageSnapshots().fastForwardBranch(branch, to).commit())

    def added_files(self, snapshot_id: int) -> list[AddedFile]:
        """The data files that this snapshot added: two reads, its manifest list and its manifest."""
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
        foreign = None if nulls is None else nulls.get(columns["_source_id"].fieldId())
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
            0 if foreign is None else int(foreign),
        )


_BOUNDED = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset")


# Iceberg's own words: UpdateSnapshotReferencesOperation, and CommitFailedException of a lost race.
_REFUSALS = ("Cannot fast-forward", "already exists", "CommitFailedException")


def _unless_refused(commit: Callable[[], Any]) -> None:
    """Run a commit. Raises Refused for Iceberg's refusals; anything else stays what it is.

    PySpark turns some of the Java exceptions into its own (IllegalArgumentException); the rest is Py4J's.
    """
    try:
        commit()
    except (Py4JJavaError, PySparkException) as error:
        for line in str(error).splitlines():
            if any(words in line for words in _REFUSALS):
                raise Refused(line.strip()) from error
        raise
