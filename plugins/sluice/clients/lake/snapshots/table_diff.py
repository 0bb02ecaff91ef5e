"""The data files that two states of a table do not share, from the manifests that they do not share."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.lake import counting
from sluice.clients.lake.commits import MAIN, ancestors, is_of_sluice, summary_of
from sluice.clients.lake.errors import asking
from sluice.clients.lake.reading import files
from sluice.clients.lake.snapshots.listed_file import ListedFiles, entries
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.counts import Counts
from sluice.core.offsets.verify import FileStats
from sluice.core.tables.file_removal import MISSING_FIX
from sluice.core.tables.storage import REWRITE_ID
from sluice.core.tables.summary import KIND, OFFSET_RANGES

ALWAYS = AlwaysTrue()

# What PyIceberg's Avro reader raises for bytes that are no manifest, beside OSError.
_NOT_AVRO = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, AssertionError, MemoryError,
    EOFError, struct.error, zlib.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AddedFile:
    """``snapshot_id``, ``sequence_number``: of the commit that added it."""

    file: DataFile
    snapshot_id: int | None
    sequence_number: int | None = None

    def is_later_than(self, sequence_number: int) -> bool:
        """Also if it is not known."""
        return self.sequence_number is None or self.sequence_number > sequence_number


@dataclass(frozen=True)
class TableDiff:
    """``manifest_list``: address of the newer state's. Files that are in one state only, or there more often
    than in the other: ``removed``, ``added``. ``has_deletes``: whether the newer state has files of deleted
    rows (Iceberg's delete files). ``manifests``: number of those that were read; ``repeated``: files that
    these list more than once in the newer state, so that readers see their rows as often."""

    manifest_list: str
    removed: list[DataFile] = field(default_factory=list)
    added: list[AddedFile] = field(default_factory=list)
    has_deletes: bool = False
    manifests: int = 0
    repeated: tuple[str, ...] = ()


def diff(table: Table, manifest_list: str | None) -> TableDiff | None:
    """From the state with ``manifest_list`` (None: from an empty table) to ``main``; None without a snapshot.

    Reads two manifest lists, and the manifests that only one of them has. Raises Refused with
    LAKE_FILE_MISSING if one of these is gone, or CORRUPT_OBJECT if it is damaged.
    """
    snapshot = table.snapshot_by_name(MAIN)
    return None if snapshot is None else between(table, manifest_list, snapshot.manifest_list)


def between(table: Table, before: str | None, manifest_list: str) -> TableDiff:
    """As :func:`diff`, from the state with manifest list ``before`` to the one with ``manifest_list``."""
    io, listed = table.io, ListedFiles(table)
    now = {one.manifest_path: one for one in _manifests(io, manifest_list)}
    then = {one.manifest_path: one for one in _manifests(io, before)} if before else {}
    come = [one for path, one in now.items() if path not in then]
    gone = [one for path, one in then.items() if path not in now]
    new, old = list(_live(io, listed, come)), list(_live(io, listed, gone))
    return TableDiff(
        manifest_list,
        [one.file for one in _beyond(old, new)],
        _beyond(new, old),
        any(one.content == ManifestContent.DELETES for one in now.values()),
        len(come) + len(gone),
        tuple(path for path, times in _listed(new).items() if times > 1),
    )


def _listed(files: Iterable[AddedFile]) -> Counter[str]:
    return Counter(one.file.file_path for one in files)


def _beyond(files: Sequence[AddedFile], others: Iterable[AddedFile]) -> list[AddedFile]:
    """Those that are not among the others, or more often than there."""
    found, there = list[AddedFile](), _listed(others)
    for one in files:
        if there[one.file.file_path]:
            there[one.file.file_path] -= 1
        else:
            found.append(one)
    return found


def _manifests(io: FileIO, location: str) -> list[ManifestFile]:
    with asking(f"manifest list {location}"):
        try:
            return list(read_manifest_list(io.new_input(location)))
        except _NOT_AVRO as error:
            raise _damaged(f"manifest list {location}", repr(error)) from error


def _live(io: FileIO, listed: ListedFiles, manifests: Iterable[ManifestFile]) -> Iterator[AddedFile]:
    """The files that these list: one that two of them list twice."""
    for manifest in manifests:
        what = f"manifest {manifest.manifest_path}"
        with asking(what):
            size = len(io.new_input(manifest.manifest_path))
            if size != manifest.manifest_length:
                raise _damaged(what, f"{size} bytes, its list says {manifest.manifest_length}")
            try:
                for entry in entries(io, manifest):
                    if entry.status != ManifestEntryStatus.DELETED:
                        # Not the number of its rows, which a compaction keeps.
                        at = entry.file_sequence_number
                        yield AddedFile(listed.of(entry.data_file), entry.snapshot_id, at)
            except _NOT_AVRO as error:
                raise _damaged(what, repr(error)) from error


def is_data(file: DataFile) -> bool:
    """Whether it has rows of the table, and not numbers of deleted ones."""
    return file.content == DataFileContent.DATA


def count_offsets(
    table: Table, data_files: Iterable[DataFile], rows: BooleanExpression = ALWAYS
) -> Counts[int]:
    """The offsets of ``rows`` in these files, by partition. Raises as :func:`read`, and Refused with
    ROWS_UNPLACED for a row without one."""
    return counting.count_offsets(table, [FileScanTask(one) for one in data_files], rows)


def read(
    table: Table, data_files: Iterable[DataFile], rows: BooleanExpression, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Columns of ``rows`` in these files. Raises Refused with CORRUPT_OBJECT or LAKE_FILE_MISSING."""
    tasks = [FileScanTask(one) for one in data_files]
    if tasks:
        yield from files.read(table, rows, columns, tasks=tasks)


def stats_of(table: Table, data_files: Iterable[DataFile]) -> list[FileStats]:
    return files.file_stats(table, (FileScanTask(one) for one in data_files))


def _damaged(what: str, how: str) -> Refused:
    return Refused(f"{what} is damaged: {how}. Fix: {MISSING_FIX}", ErrorCode.CORRUPT_OBJECT)


def foreign_commits(table: Table, since: int | None) -> list[Snapshot]:
    """The snapshots of ``main`` after ``since``, as far as they are kept, that neither the stream nor its
    maintenance made; without ``since`` the newest one only, if it is one."""
    found: list[Snapshot] = []
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == since:
            break
        if not is_own(snapshot):
            found.append(snapshot)
        if since is None:
            break
    return found


def is_own(snapshot: Snapshot) -> bool:
    """Whether the stream or its maintenance made it, by its summary."""
    return is_of_sluice(snapshot) or REWRITE_ID in summary_of(snapshot)


def is_on_main(table: Table, snapshot_id: int, sequence_number: int) -> bool | None:
    """Whether the snapshot is an ancestor of ``main``; None if the history that ``main`` keeps begins behind
    it. Numbers grow along a history, so one that has the snapshot's ``sequence_number`` (0: it has none) or a
    lower one, and not the snapshot, is another one: a restored catalog gives numbers out again."""
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == snapshot_id:
            return True
        if 0 < (snapshot.sequence_number or 0) <= sequence_number:
            return False
    return None


def batch_ranges(table: Table, ids: Sequence[int | None]) -> dict[int, str]:
    """Snapshot -> the range that its summary says, of those of ``ids`` that are kept batches."""
    wanted = {one for one in ids if one is not None}
    return {
        snapshot.snapshot_id: summary_of(snapshot)[OFFSET_RANGES]
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id in wanted and summary_of(snapshot).get(KIND) == "batch"
    }
