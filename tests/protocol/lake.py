"""In place of Iceberg's Java API, files and checkpoints: what the writers call, over the model's catalog.

Every call of a remote system is a scheduling point, before and after what it does: a process may be suspended
there, be killed, or get an error instead of an answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import pyarrow

from sluice.core.changes.published import Changes
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.verify import FileStats
from sluice.core.schema_versions.offsets import PROPERTY as OFFSETS
from sluice.core.tables.batches import Batch, Snapshot
from spark_jobs.common.lake.followed.documents import SCHEMA
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused
from spark_jobs.common.lake.loaded_rows import BatchRows
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.spark.checkpoint import CheckpointCorrupted
from tests.protocol.catalog import Commit, File, Metadata


class Staged(NamedTuple):
    """In place of :class:`spark_jobs.common.lake.iceberg.StagedSnapshot`."""

    base: Metadata
    commit: Commit

    @property
    def id(self) -> int:
        return self.commit.id

    @property
    def parent(self) -> int | None:
        return self.commit.parent

    @property
    def added(self) -> tuple[AddedFile, ...]:
        return tuple(map(_added, self.commit.added))


class DataFile(NamedTuple):
    """In place of :class:`spark_jobs.common.lake.data_files.parquet_file.DataFile`."""

    file: File
    # Its offsets are read from the bucket.
    offsets: None = None

    @property
    def uri(self) -> str:
        return self.file.path


class Table:
    """In place of :class:`spark_jobs.common.lake.iceberg.IcebergTable`, with its methods."""

    def __init__(self, spark: Any, name: str) -> None:
        self.name = name
        self._world = spark.world
        self._catalog = spark.world.catalog
        self._known: Metadata = self._catalog.tables[name]
        # Iceberg loads the metadata again at the first use after a commit.
        self._is_stale = False

    def refresh(self) -> None:
        self._world.point(f"refresh {self.name}")
        self._known, self._is_stale = self._catalog.tables[self.name], False

    def _current(self) -> Metadata:
        if self._is_stale:
            self.refresh()
        return self._known

    def head(self, ref: str) -> int | None:
        return self._current().refs.get(ref)

    def branches(self) -> list[str]:
        return list(self._current().refs)

    def snapshots(self, ref: str) -> Iterator[Snapshot]:
        return self._current().ancestors(ref)

    def line(self, ref: str = MAIN, first: int = 0) -> Iterator[Snapshot]:
        """No catalog expires snapshots by itself here."""
        return islice(self.snapshots(ref), first, None)

    def is_kept(self, snapshot_id: int) -> bool:
        return snapshot_id in self._current().commits

    def properties(self) -> Mapping[str, str]:
        found = self._current()
        said = {SCHEMA: found.schema, OFFSETS: found.offsets}
        return {name: text for name, text in said.items() if text}

    def schema(self) -> Mapping[str, Any]:
        """Columns have no ids here: the version says which there are."""
        return {"fields": []}

    def published_at(self) -> dict[int, int]:
        return {}

    def metadata_log(self) -> list[int]:
        return []

    def summary(self, snapshot_id: int) -> Mapping[str, str]:
        found = self._current().commits.get(snapshot_id)
        return {} if found is None else found.summary

    def parent(self, snapshot_id: int) -> int | None:
        found = self._current().commits.get(snapshot_id)
        if found is None:
            raise CommitRefused(f"{self.name}: snapshot {snapshot_id} is gone")
        return found.parent

    def added_files(self, snapshot_id: int) -> list[AddedFile]:
        self._world.point(f"manifests {self.name}")
        return [_added(file) for file in self._current().commits[snapshot_id].added]

    def added_paths(self, snapshot_id: int) -> list[str]:
        self._world.point(f"manifests {self.name}")
        return [file.path for file in self._current().commits[snapshot_id].added]

    def committing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def location(self) -> str:
        return f"s3://lake/{self.name}"

    documents = location

    def expirable(self, keep: int, before_ms: int) -> list[int]:
        """Ids are times. What no ref reaches is as old as that of a writer that was suspended for hours."""
        known = self._current()
        main = list(known.ancestors(MAIN))
        needed = [snapshot for snapshot in main[keep:] if snapshot.at_ms >= before_ms]
        kept = {snapshot.id for snapshot in main[:keep] + needed} | set(known.refs.values())
        return [number for number in known.commits if number not in kept]

    def change_refs(
        self,
        expected: Mapping[str, int | None],
        changed: Mapping[str, int | Staged | None],
        expired: Sequence[int] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._world.point(f"check {self.name}")
        base = self._known = self._catalog.tables[self.name]
        self._is_stale = False
        found = {name: base.refs.get(name) for name in expected}
        if found != dict(expected):
            raise CommitRefused(f"{self.name}: refs are {found}, expected {dict(expected)}")
        staged = [target for target in changed.values() if isinstance(target, Staged)]
        if any(target.base is not base for target in staged):
            raise CommitRefused(f"{self.name}: another commit came since a snapshot was staged")
        present = {**base.commits, **{target.id: target.commit for target in staged}}
        targets = {n: t.id if isinstance(t, Staged) else t for n, t in changed.items()}
        if lost := [n for n in targets.values() if n is not None and n not in present]:
            raise CommitRefused(f"{self.name}: snapshots {lost} have expired")
        kept = {name: head for name, head in base.refs.items() if name not in targets}
        refs = kept | {name: head for name, head in targets.items() if head is not None}
        gone = set(expired).difference(refs.values())
        commits = {number: commit for number, commit in present.items() if number not in gone}
        offsets = (properties or {}).get(OFFSETS, base.offsets)
        if refs == base.refs and commits == base.commits and offsets == base.offsets:
            return  # Iceberg commits nothing.
        self._world.point(f"commit {self.name}")
        what = f"refs {_brief(targets)}" + (f", expire {sorted(gone)}" if gone else "")
        self._catalog.swap(self.name, base, replace(base, commits=commits, refs=refs, offsets=offsets), what)
        self._is_stale = True
        self._world.point(f"committed {self.name}")

    def change_schema(
        self,
        expected: Mapping[str, int | None],
        before: str,
        columns: object,
        properties: Mapping[str, str],
        ids: Sequence[int] = (),
    ) -> None:
        self._world.point(f"check {self.name}")
        base = self._known = self._catalog.tables[self.name]
        self._is_stale = False
        found = {name: base.refs.get(name) for name in expected}
        if found != dict(expected) or base.schema != before:
            raise CommitRefused(f"{self.name}: refs are {found} and schema {base.schema!r}")
        self._world.point(f"commit {self.name}")
        schema = properties[SCHEMA]
        self._catalog.swap(self.name, base, replace(base, schema=schema), f"follow version {schema}")
        self._is_stale = True
        self._world.point(f"committed {self.name}")

    def stage(
        self, properties: Mapping[str, str], files_of: int | None = None, files: Sequence[DataFile] = ()
    ) -> Staged:
        found = None if files_of is None else self._current().commits[files_of]
        added, removed = (found.added, found.removed) if found else (tuple(f.file for f in files), ())
        self.refresh()

        def others(files: tuple[File, ...]) -> tuple[File, ...]:
            return tuple(file for file in files if file not in removed)

        staged = Staged(self._known, self._catalog.snapshot(self._known, MAIN, properties, added, others))
        self._world.point(f"stage {self.name}")
        return staged

    def append(self, branch: str, properties: Mapping[str, str]) -> None:
        """For a removed fix: Iceberg's own commit, which it repeats."""
        self._world.point(f"empty {self.name}")
        number = self._catalog.commit(self.name, branch, properties, [], what="empty")
        self._is_stale = True
        self._world.answer(f"empty done {self.name}", self.name, branch, number)

    def expire(self, keep: int) -> None:
        self._world.point(f"expire {self.name}")
        self._catalog.expire(self.name, keep)
        self._is_stale = True


def _brief(changed: Mapping[str, int | None]) -> str:
    return " ".join(f"{name}→{'none' if head is None else head}" for name, head in changed.items())


def _added(file: File) -> AddedFile:
    count = len(file.records)
    if not count:
        return AddedFile(FileStats(file.path, None, None, None, None, 0), None, None, None, None, 0)
    partitions, offsets = zip(*(record.place for record in file.records), strict=True)
    stats = FileStats(file.path, min(partitions), max(partitions), min(offsets), max(offsets), count)
    # No record has a source.
    return AddedFile(stats, None, None, None, None, count)


class OffsetReader:
    """In place of :class:`spark_jobs.common.lake.written.read_offsets.OffsetReader`."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def tables(self, uris: Iterable[str], columns: Sequence[str]) -> list[pyarrow.Table]:
        self._world.point("read files")
        return [_columns(self._world.catalog.files[uri]).select(list(columns)) for uri in uris]


def _columns(file: File) -> pyarrow.Table:
    places = [record.place for record in file.records]
    nothing = [None] * len(places)
    return pyarrow.table(
        {
            "_kafka_partition": pyarrow.array([partition for partition, _ in places], pyarrow.int32()),
            "_kafka_offset": pyarrow.array([offset for _, offset in places], pyarrow.int64()),
            "_source_id": pyarrow.array(nothing, pyarrow.string()),
            "_source_base_offset": pyarrow.array(nothing, pyarrow.int64()),
        }
    )


class LoadedRowsStore:
    """In place of :class:`spark_jobs.common.lake.loaded_rows.LoadedRowsStore`: no record has a source."""

    def __init__(self, world: Any, location: str) -> None:
        self._world = world

    def record(self, name: str, batches: Sequence[BatchRows]) -> None:
        self._world.point("record rows")

    def of(self, sources: Iterable[str], ends: Mapping[int, int], changes: Changes) -> LoadedRows:
        return LoadedRows()

    def forget(self) -> None:
        """Nothing is known."""


class BatchLogWriter:
    """In place of :class:`spark_jobs.common.consumer.batch_log.BatchLogWriter`."""

    def __init__(self, world: Any, location: str) -> None:
        self._world = world

    def record(self, batches: Sequence[Batch]) -> None:
        self._world.point("record batches")

    def note_restore(
        self, main: Sequence[Batch], now_ms: int, writer: str, ends: Mapping[int, int] | None = None
    ) -> None:
        self._world.point("newest recorded batches")


class Checkpoint:
    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._plans: dict[int, str] = {}

    def write(self, batch: int, topic: str, ends: Mapping[int, int]) -> None:
        self._plans[batch] = json.dumps({topic: {str(partition): end for partition, end in ends.items()}})

    def plan(self, batch: int) -> list[str]:
        if batch not in self._plans:
            raise CheckpointCorrupted(f"the plan of batch {batch} is lost")
        return ["v1", "{}", self._plans[batch]]


class Checkpoints:
    """In place of :class:`spark_jobs.common.spark.checkpoint.Checkpoints`. No folder is ever removed: the
    right to delete may be missing, and a folder that is gone would stop a zombie early."""

    def __init__(self, *_: object) -> None:
        pass

    def of_writer(self, writer: str) -> Checkpoint:
        return Checkpoint(writer)

    create = of_writer
