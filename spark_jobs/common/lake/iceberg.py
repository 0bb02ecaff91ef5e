"""Calls of Iceberg's Java API without an equivalent in SQL, on one table.

See Iceberg's ``Table``, ``ManageSnapshots`` and ``AppendFiles``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import dropwhile
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import BY_CATALOG, CATALOG, MAINTENANCE
from sluice.config.schema import spelled
from sluice.core.error_codes import ErrorCode
from sluice.core.schema_versions.columns import Came
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.storage import KEEP_REWRITES, REWRITE_ID, documents_place
from spark_jobs.common.lake import promises, state_property
from spark_jobs.common.lake.clock import committing, now_ms
from spark_jobs.common.lake.data_files.append import data_files
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.expected_refs import PREFIX, CommitRefused, commit
from spark_jobs.common.lake.followed import schema_change
from spark_jobs.common.lake.followed.documents import SCHEMA, followed_digest
from spark_jobs.common.lake.followed.schema_change import java_map, java_set, remove_schemas, with_columns
from spark_jobs.common.lake.loaded_keys import LoadedKeys
from spark_jobs.common.lake.written.added_file import BOUNDED, AddedFile, read

MAIN = "main"
HOUR_MS = 3_600_000


class SnapshotDiffers(RuntimeError):
    """A snapshot that was written for some files holds others; it was not committed."""

    code = ErrorCode.BATCH_NOT_VERIFIED


@dataclass(frozen=True)
class StagedSnapshot:
    """A snapshot that is written and not committed: in no metadata.

    ``id``, ``parent``: its own, and of the head of ``main`` that it is on top of; ``base``: the metadata file
    in which that was; ``said``: Iceberg's JSON of it; ``added``: the files given to it, as Iceberg describes
    them.
    """

    id: int
    parent: int | None
    base: str
    said: Mapping[str, Any]
    added: tuple[AddedFile, ...] = ()


class IcebergTable:
    """A table of the lake. ``name`` is ``namespace.table``."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.name = name
        self._spark = spark
        self._jvm = cast("Any", spark._jvm)
        # Stored, since Py4J searches every jar for every part of a class's name. TableMetadata, and
        # SnapshotParser and SnapshotUtil beside it, are internal; in the version of local/ivy/spark.xml:
        # https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/core/src/main/java/org/apache/iceberg/TableMetadata.java
        iceberg = self._jvm.org.apache.iceberg
        self._text_of, self._schema_text = iceberg.SnapshotParser.toJson, iceberg.SchemaParser.toJson
        self._snapshot_of = iceberg.SnapshotParser.fromJson
        self._value_of = iceberg.types.Conversions.fromByteBuffer
        self._metadata_from = iceberg.TableMetadata.buildFrom
        self._is_ancestor = iceberg.util.SnapshotUtil.isAncestorOf
        self._load_table = iceberg.spark.Spark3Util.loadIcebergTable
        self._keys = LoadedKeys(spark)
        # Whether it is older than a commit of this object, which Java's client of a REST catalog has not
        # made: it is read again where it is looked at next, or by what reads it anyway.
        self._is_outdated = False
        self._load()

    def _load(self) -> None:
        self._loaded = self._load_table(self._spark._jsparkSession, f"{CATALOG}.{self.name}")
        promises.check_table(self._spark, self.name, self._loaded)
        self._is_outdated = False
        self._keys.came(self._loaded.io())

    def _renew(self) -> bool:
        """Load the table again if its keys end soon, and Iceberg does not renew them; return whether."""
        are_due = self._keys.are_due
        if are_due:
            self._load()
        return are_due

    @property
    def _table(self) -> Any:
        """Java's table, with the refs and snapshots of the last commit of this object, if not of a later one;
        ``_loaded`` has all else of it."""
        self._refresh_outdated()
        return self._loaded

    def refresh(self) -> None:
        if not self._renew():
            self._loaded.refresh()
            self._is_outdated = False

    def _refresh_outdated(self) -> None:
        if self._is_outdated:
            self.refresh()

    def _refreshed(self) -> tuple[Any, Any]:
        """Java's operations of the table, and its metadata as they are by now."""
        operations = self._loaded.operations()
        base = operations.refresh()
        self._is_outdated = False
        return operations, base

    def head(self, ref: str) -> int | None:
        """The snapshot that ``ref`` points at, None without such a ref."""
        snapshot = self._table.refs().get(ref)
        return None if snapshot is None else int(snapshot.snapshotId())

    def partitions(self) -> list[str]:
        """The table's partition fields, spelled as in a stream.toml."""
        return _partitions(self._loaded)

    def partition_names(self) -> frozenset[str]:
        """The names of partition fields that no column may have, as ``zip_trunc``."""
        fields = self._loaded.spec().fields()
        return frozenset(str(field.name()) for field in fields if not field.transform().isIdentity())

    def branches(self) -> list[str]:
        """The names of all branches and tags."""
        return [str(name) for name in self._table.refs()]

    def location(self) -> str:
        """The address of the table's folder, ``s3://…``."""
        return str(self._loaded.location())

    def documents(self) -> str:
        """The address of the folder that has the table's documents, ``s3://…``."""
        return documents_place(self.location(), self.properties())

    def schema(self) -> dict[str, Any]:
        """Iceberg's JSON of the table's columns, with their field ids. No I/O."""
        found: dict[str, Any] = json.loads(self._schema_text(self._loaded.schema()))
        return found

    def properties(self) -> Mapping[str, str]:
        """The table's properties. No I/O."""
        return cast("Mapping[str, str]", self._loaded.properties())

    def snapshots(self, ref: str) -> Iterator[Snapshot]:
        """Snapshots from the head of ``ref`` back to the oldest that is not expired. No I/O."""
        snapshot_id = self.head(ref)
        while snapshot_id is not None:
            found = self._snapshot(snapshot_id)
            if found is None:
                return
            at, summary, manifests = found["timestamp-ms"], found["summary"], found.get("manifest-list", "")
            yield Snapshot(snapshot_id, at, summary, manifests)
            snapshot_id = found.get("parent-snapshot-id")

    def line(self, ref: str = MAIN, first: int = 0) -> Iterator[Snapshot]:
        """The :meth:`snapshots` of ``ref`` from the one in place ``first`` on. Where the catalog expires
        snapshots by itself and none of these has a state, also the one that the table's properties say, if
        that came before all of ``ref``: it may be in no metadata any more. No I/O."""
        kept, knows = list[int](), False
        for place, snapshot in enumerate(self.snapshots(ref)):
            kept.append(snapshot.id)
            if place >= first:
                knows = knows or state_property.has_state(snapshot.summary)
                yield snapshot
        if knows or not kept or not self._is_by_catalog or self.parent(kept[-1]) is None:
            return
        said = state_property.snapshot_in(self.properties())
        sequence_numbers = (int(self._table.snapshot(one).sequenceNumber()) for one in kept)
        if said and state_property.is_before(said, sequence_numbers):
            yield Snapshot(said["snapshot-id"], said["timestamp-ms"], said["summary"])

    def published_at(self) -> dict[int, int]:
        """Snapshot -> when ``main`` moved to it last, in ms since 1970, as far as logged. No I/O."""
        return {int(entry.snapshotId()): int(entry.timestampMillis()) for entry in self._table.history()}

    def metadata_log(self) -> list[int]:
        """When the table's metadata files were written, in ms since 1970, oldest first, if logged. No I/O."""
        metadata = self._table.operations().current()
        logged = [int(entry.timestampMillis()) for entry in metadata.previousFiles()]
        return [*logged, int(metadata.lastUpdatedMillis())]

    def on_main(self, snapshot_id: int) -> bool:
        """Whether ``main`` is at this snapshot or descends from it; False if it has expired. No I/O, and one
        call: as :meth:`snapshots` it would take several for each snapshot that is kept."""
        head = self.head(MAIN)
        kept = self._table.snapshot(snapshot_id) is not None
        return kept and head is not None and bool(self._is_ancestor(self._table, head, snapshot_id))

    def streamable_files(self, snapshot: Snapshot) -> int | None:
        """The number of all data files of ``snapshot``, from its manifest list; None if Iceberg's streaming
        source (1.10, ``scan_all_files``) would not read exactly its rows.

        That source skips a snapshot that is no append, reads the files that manifests list as removed too,
        and ignores row-level deletes.
        """
        if snapshot.summary.get("operation") != "append":
            return None
        self._renew()
        found, io = self._table.snapshot(snapshot.id), self._table.io()
        manifests = list(found.dataManifests(io))
        if len(found.deleteManifests(io)) or any(manifest.hasDeletedFiles() for manifest in manifests):
            return None
        return sum(int(manifest.addedFilesCount() + manifest.existingFilesCount()) for manifest in manifests)

    def summary(self, snapshot_id: int) -> Mapping[str, str]:
        """The summary of a snapshot, empty if it has expired and the properties do not say it. No I/O."""
        found = self._snapshot(snapshot_id) or self._said(snapshot_id)
        return {} if found is None else found["summary"]

    def is_kept(self, snapshot_id: int) -> bool:
        """Whether a snapshot has not expired. No I/O."""
        return self._table.snapshot(snapshot_id) is not None

    def _said(self, snapshot_id: int) -> dict[str, Any] | None:
        """A snapshot, if the properties say this one."""
        said = state_property.snapshot_in(self.properties()) if self._is_by_catalog else None
        return said if said and said["snapshot-id"] == snapshot_id else None

    @property
    def _is_by_catalog(self) -> bool:
        return maintains(self._spark)

    def _snapshot(self, snapshot_id: int) -> dict[str, Any] | None:
        snapshot = self._table.snapshot(snapshot_id)
        # As one text: Py4J takes several calls for each property of each snapshot.
        return None if snapshot is None else json.loads(self._text_of(snapshot))

    def expirable(self, keep: int, before_ms: int) -> list[int]:
        """Snapshots of ``main`` behind its newest ``keep`` and from before ``before_ms`` (since 1970), and
        those from an hour before that which no ref reaches. None that a branch or a tag points at, and none
        of maintenance from the day before ``before_ms``. None at all where the catalog expires snapshots by
        itself. No I/O."""
        if self._is_by_catalog:
            return []
        main = list(self.snapshots(MAIN))
        older = [*dropwhile(lambda snapshot: snapshot.at_ms >= before_ms, main[keep:])]
        reached = {snapshot.id for snapshot in main}
        every = [(int(found.snapshotId()), found.timestampMillis()) for found in self._table.snapshots()]
        lost = [
            Snapshot(number, at, self.summary(number))
            for number, at in every
            if number not in reached and at < before_ms - HOUR_MS
        ]
        heads = {self.head(name) for name in self.branches()}
        rewritten_since = before_ms - KEEP_REWRITES // timedelta(milliseconds=1)
        return [
            snapshot.id
            for snapshot in (*older, *lost)
            if snapshot.id not in heads
            and not (REWRITE_ID in snapshot.summary and snapshot.at_ms >= rewritten_since)
        ]

    def change_refs(
        self,
        expected: Mapping[str, int | None],
        changed: Mapping[str, int | StagedSnapshot | None],
        expired: Sequence[int] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Set refs to snapshots, or remove them (None), remove the snapshots ``expired`` from the metadata
        unless a ref then points at them, with the schemas that no other has, and set ``properties`` of the
        table, all in one commit that is made only if the refs of ``expected`` are there (None: missing). It
        adds the staged snapshots. No file is deleted.

        Raises CommitRefused if one is not, if a snapshot of ``changed`` has expired, or if another commit
        came first, also since a snapshot was staged: the catalog compares the metadata file that was checked
        with its own.
        """
        operations, base = self._refreshed()
        if (heads := _heads(base, expected)) != dict(expected):
            raise CommitRefused(f"{self.name}: refs are {heads}, expected {dict(expected)}")
        builder = self._metadata_from(base)
        staged = {target.id: target for target in changed.values() if isinstance(target, StagedSnapshot)}
        added = dict[int, dict[str, Any]]()
        for target in staged.values():
            if target.base != base.metadataFileLocation():
                raise CommitRefused(f"{self.name}: another commit came since {target.id} was staged")
            # With the time of its commit: no reader could see it before.
            added[target.id] = {**target.said, "timestamp-ms": now_ms()}
            builder.addSnapshot(self._snapshot_of(json.dumps(added[target.id])))
        targets = {n: t.id if isinstance(t, StagedSnapshot) else t for n, t in changed.items()}
        for name, snapshot_id in targets.items():
            if snapshot_id is None:
                builder.removeRef(name)
            elif snapshot_id not in staged and base.snapshot(snapshot_id) is None:
                raise CommitRefused(f"{self.name}: snapshot {snapshot_id} for {name} has expired")
            else:
                builder.setBranchSnapshot(snapshot_id, name)
        if expired:
            # Iceberg removes a ref with its snapshot; a staged one may be old, if its writer was suspended.
            others = (ref for name, ref in base.refs().items() if name not in changed)
            reached = {*(int(ref.snapshotId()) for ref in others), *targets.values()}
            # A set: the overload for a list takes snapshots.
            ids = java_set(self._jvm, set(expired) - reached)
            builder.removeSnapshots(ids)
            kept = {int(one["schema-id"]) for one in (t.said for t in staged.values()) if "schema-id" in one}
            remove_schemas(self._jvm, builder, base, ids, kept)
        if properties:
            builder.setProperties(java_map(self._jvm, properties))
        if (main := targets.get(MAIN)) is not None:
            moved = added.get(main) or json.loads(self._text_of(base.snapshot(main)))
            said, outdated = state_property.moved_to(moved, base.properties(), self._is_by_catalog)
            if outdated:
                builder.removeProperties(java_set(self._jvm, outdated))
            if said:
                builder.setProperties(java_map(self._jvm, said))
        # Not read back: the next look at the table does.
        try:
            self._commit(operations, base, builder.build, expected)
            if properties:
                self._refresh_outdated()
        except CommitRefused:
            # After a lost answer, the catalog's client asks again, and is refused by what it has committed.
            wanted = {**expected, **targets}
            if _heads(self._refreshed()[1], wanted) != wanted:
                raise

    def change_schema(
        self,
        expected: Mapping[str, int | None],
        before: str,
        columns: pa.Schema,
        properties: Mapping[str, str],
        ids: Sequence[int] = (),
    ) -> None:
        """Add and widen columns, and set ``properties``, the new SCHEMA among them, in one commit. It is made
        only if the refs of ``expected`` are there and the table follows the schema ``before`` (a digest;
        empty: the declared one). As ``schema_change.with_columns`` says; ``ids``: of the schemas that this
        follows. Raises CommitRefused."""
        operations, base = self._refreshed()
        if (heads := _heads(base, expected)) != dict(expected):
            raise CommitRefused(f"{self.name}: refs are {heads}, expected {dict(expected)}")
        if (found := followed_digest(base.properties())) != before:
            raise CommitRefused(f"{self.name}: follows schema {found!r}, expected {before!r}")
        came = Came(now_ms(), tuple(ids))
        metadata = with_columns(self._jvm, self._table, base, columns, properties, came)
        try:
            self._commit(operations, base, lambda: metadata, expected)
            self._refresh_outdated()
        except CommitRefused:
            # As in change_refs.
            if followed_digest(self._refreshed()[1].properties()) != properties[SCHEMA]:
                raise

    def refusal(self, columns: pa.Schema) -> str:
        """Why :meth:`change_schema` cannot have these columns, in Iceberg's words; empty if it can."""
        return schema_change.refusal(self._jvm, self._table, self._table.operations().current(), columns)

    def stage(
        self, properties: Mapping[str, str], files_of: int | None = None, files: Sequence[DataFile] = ()
    ) -> StagedSnapshot:
        """Write a snapshot with ``properties`` on top of the head of ``main``, for :meth:`change_refs`.
        ``files_of``: it adds and removes the data files that this snapshot did; ``files``: it adds these.

        Iceberg does not commit it: if the answer to its own commit is lost, it refreshes and sets ``main`` to
        what it finds committed, whatever ``main`` has become. Raises SnapshotDiffers.
        """
        self._renew()
        # Not `_table` until apply(), which reads it again: a request of a REST catalog.
        found, io = None if files_of is None else self._table.snapshot(files_of), self._loaded.io()
        removed = list(found.removedDataFiles(io)) if found else []
        if removed:
            update = self._loaded.newOverwrite()
        else:
            # Without files there is nothing to merge.
            update = self._loaded.newAppend() if files else self._loaded.newFastAppend()
        for file in removed:
            update.deleteFile(file)
        for file in found.addedDataFiles(io) if found else ():
            (update.addFile if removed else update.appendFile)(file)
        ours = list(data_files(self._jvm, self._loaded, _partitions(self._loaded), files))
        for file in ours:
            update.appendFile(file)
        # As one text, as in _snapshot.
        said = json.loads(self._text_of(with_properties(update, properties).apply()))
        self._is_outdated = False
        if missing := not_removed(said["summary"], len(removed)):
            raise CommitRefused(f"{self.name}: {missing} files of snapshot {files_of} were rewritten")
        # The one that apply() has read:
        # https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/core/src/main/java/org/apache/iceberg/SnapshotProducer.java
        base = self._table.operations().current()
        if files:
            check_added(self.name, said["summary"], files)
        return StagedSnapshot(
            said["snapshot-id"],
            said.get("parent-snapshot-id"),
            str(base.metadataFileLocation()),
            said,
            tuple(self._described(ours)),
        )

    def _commit(
        self, operations: Any, base: Any, built: Callable[[], Any], expected: Mapping[str, int | None]
    ) -> None:
        """Raises CommitRefused if another commit came first, ClockSetBack if the clock is behind the
        table."""
        with self.committing():
            self._is_outdated = commit(self._spark, self.name, operations, base, built(), expected)

    def committing(self) -> AbstractContextManager[None]:
        """As :func:`clock.committing`, around Spark's commits to this table."""
        return committing(self._spark, self.name)

    def parent(self, snapshot_id: int) -> int | None:
        """The id of a snapshot's parent, None for the first. No I/O.

        Raises CommitRefused if the snapshot is gone: the catalog was restored.
        """
        found = self._snapshot(snapshot_id) or self._said(snapshot_id)
        if found is None:
            raise CommitRefused(f"{self.name}: snapshot {snapshot_id} is gone")
        return found.get("parent-snapshot-id")

    def added_files(self, snapshot_id: int) -> list[AddedFile]:
        """The data files that this snapshot added; reads its manifest list and manifest only."""
        return self._described(self._data_files(snapshot_id))

    def files_from(self, offset: int) -> Iterator[AddedFile]:
        """The data files of ``main`` that may have a row at this offset or a later one, of any partition;
        reads manifests only."""
        self._renew()
        expressions = self._jvm.org.apache.iceberg.expressions.Expressions
        later = expressions.greaterThanOrEqual("_kafka_offset", offset)
        scan = self._table.newScan().filter(later).includeColumnStats()
        with closing(scan.planFiles()) as tasks:
            found = tasks.iterator()
            while found.hasNext():
                # A scan reuses it.
                yield from self._described([found.next().file().copy()])

    def added_paths(self, snapshot_id: int) -> list[str]:
        """The locations of :meth:`added_files`."""
        return [str(file.location()) for file in self._data_files(snapshot_id)]

    def _described(self, files: Iterable[Any]) -> list[AddedFile]:
        columns = {name: self._table.schema().findField(name) for name in BOUNDED}
        return [read(file, columns, self._value_of) for file in files]

    def _data_files(self, snapshot_id: int) -> Iterator[Any]:
        self._renew()
        return iter(self._table.snapshot(snapshot_id).addedDataFiles(self._table.io()))


def maintains(spark: SparkSession) -> bool:
    """Whether the catalog maintains its tables by itself, by declaration."""
    return spark.conf.get(f"{PREFIX}{MAINTENANCE}", "") == BY_CATALOG


def _partitions(table: Any) -> list[str]:
    schema = table.schema()
    return [
        spelled(str(schema.findColumnName(field.sourceId())), str(field.transform().toString()))
        for field in table.spec().fields()
    ]


def _heads(metadata: Any, names: Iterable[str]) -> dict[str, int | None]:
    refs = {name: metadata.ref(name) for name in names}
    return {name: None if ref is None else int(ref.snapshotId()) for name, ref in refs.items()}


def check_added(table: str, summary: Mapping[str, str], files: Sequence[DataFile]) -> None:
    """Raise SnapshotDiffers unless a snapshot with this summary adds as many files, records and bytes as
    ``files`` have: what is verified are these, and what readers will see is the snapshot."""
    expected = {
        "added-data-files": len(files),
        "added-records": sum(file.records for file in files),
        "added-files-size": sum(file.size for file in files),
    }
    found = {name: int(summary.get(name, 0)) for name in expected}
    if found != expected:
        raise SnapshotDiffers(
            f"{table}: Iceberg's snapshot says {found}, its files have {expected}; nothing was committed. "
            "Fix: restart the consumer; report it if it happens again"
        )


def not_removed(summary: Mapping[str, str], removed: int) -> int:
    """How many of the files that an update removes the snapshot with this summary did not: an overwrite
    ignores one that is not there (any more)."""
    return removed - int(summary.get("deleted-data-files", "0"))


def with_properties(update: Any, properties: Mapping[str, str]) -> Any:
    """The pending update of a table, to be committed with ``properties`` in its snapshot's summary."""
    for key, value in properties.items():
        update = update.set(key, value)
    return update
