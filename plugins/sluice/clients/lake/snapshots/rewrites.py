"""What each maintenance snapshot removed and added, from manifests and data files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import BinaryType

from sluice.clients.lake.commits import Head, ancestors, is_of_sluice, sequence_since, summary_of
from sluice.clients.lake.errors import asking
from sluice.clients.lake.reading.files import OFFSET, PARTITION
from sluice.clients.lake.snapshots import exchanged_offsets
from sluice.clients.lake.snapshots.digest import digest_of
from sluice.clients.lake.snapshots.listed_file import ListedFiles, entries
from sluice.clients.lake.snapshots.table_diff import between
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing
from sluice.core.tables.rewrites import file_names_digest
from sluice.core.tables.storage import REWRITE_ID, FileSetDigest, Rewrite

OFFSETS = (PARTITION, OFFSET)


def since(
    table: Table, head: Head | None, columns: Sequence[str] = OFFSETS, also: Collection[str] = ()
) -> list[Rewrite]:
    """The maintenance snapshots of ``main`` after ``head`` (None: all that are kept), oldest first; of those
    behind expired snapshots the compactions; and the kept ones of the rewrites ``also``, wherever they are.
    Their rows are compared by ``columns``.

    Reads these columns of every file that they removed or added. Raises Missing if ``head`` is no ancestor of
    ``main`` any more, because the table was rolled back behind it.
    """
    kept = list(ancestors(table))
    newer = list[Snapshot]()
    for snapshot in kept:
        if head and snapshot.snapshot_id == head.snapshot_id:
            break
        newer.append(snapshot)
    else:
        if head and any((snapshot.sequence_number or 0) <= head.sequence_number for snapshot in kept):
            raise Missing(
                f"snapshot {head.snapshot_id} is no ancestor of main any more: the table was rolled back "
                "behind it. Fix: check the table's history",
                ErrorCode.COMPACTION_NOT_VERIFIED,
            )
        # A writer keeps the compactions of some days, though main's history between them has expired. Those
        # before ``head``, too, unless it is known to be of this history: a restored catalog gives its numbers
        # again.
        known, after = {snapshot.snapshot_id for snapshot in kept}, sequence_since(table, [head])
        newer += [
            snapshot
            for snapshot in table.metadata.snapshots
            if snapshot.snapshot_id not in known
            and (snapshot.sequence_number or 0) > after
            and rewrite_of(snapshot)
        ]
    found = {snapshot.snapshot_id for snapshot in newer}
    newer += [
        snapshot
        for snapshot in table.metadata.snapshots
        if rewrite_of(snapshot) in also and snapshot.snapshot_id not in found
    ]
    newer.sort(key=lambda snapshot: snapshot.sequence_number or 0)
    return [compared(table, snapshot, columns) for snapshot in newer if not is_of_sluice(snapshot)]


def compared_by_offsets(table: Table, snapshot: Snapshot) -> Rewrite:
    """A snapshot, with the offsets of the files that it removed compared one by one with those that it added;
    a digest could agree by chance, and names no row. Reads these two columns of each of the files, unless the
    snapshot has row-level deletes. Raises as :func:`~.table_diff.read`."""
    removed, added, has_deletes = exchanged(table, snapshot)
    sides = ([], []) if has_deletes else (removed, added)
    before, after, differences = exchanged_offsets.compared(table, *sides)
    return _described(
        table,
        snapshot,
        FileSetDigest(len(removed), before, 0),
        FileSetDigest(len(added), after, 0),
        has_deletes=has_deletes,
        offsets=differences,
        names=_names(removed, added),
    )


def rewrite_of(snapshot: Snapshot) -> str:
    """The id of the rewrite that made the snapshot, "" of another one."""
    return summary_of(snapshot).get(REWRITE_ID, "")


def without_binary(table: Table) -> list[str]:
    """The table's columns but those of bytes, which may be large."""
    return [field.name for field in table.schema().fields if not isinstance(field.field_type, BinaryType)]


def parent_of(table: Table, snapshot: Snapshot) -> Snapshot | None:
    """None if it has none, or that has expired: some catalogs take its id from the snapshot then."""
    number = snapshot.parent_snapshot_id
    return None if number is None else table.snapshot_by_id(number)


def exchanged(table: Table, snapshot: Snapshot) -> tuple[list[DataFile], list[DataFile], bool]:
    """The data files that a snapshot removed and added, and whether the table has row-level deletes then.

    While its parent is kept, what the lists of both do not share, whatever the snapshot says: one that leaves
    a manifest out removes its files, and lists none as removed. Later, what its own manifests say.
    """
    if parent := parent_of(table, snapshot):
        diff = between(table, parent.manifest_list, snapshot.manifest_list)
        return diff.removed, [one.file for one in diff.added], diff.has_deletes
    removed, added, listed = list[DataFile](), list[DataFile](), ListedFiles(table)
    with asking(f"manifests of snapshot {snapshot.snapshot_id}"):
        manifests = snapshot.manifests(table.io)
        for manifest in manifests:
            # What it added and removed is in the manifests that it wrote.
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in entries(table.io, manifest):
                if entry.snapshot_id == snapshot.snapshot_id:
                    if entry.status == ManifestEntryStatus.DELETED:
                        removed.append(listed.of(entry.data_file))
                    elif entry.status == ManifestEntryStatus.ADDED:
                        added.append(listed.of(entry.data_file))
    return removed, added, any(manifest.content == ManifestContent.DELETES for manifest in manifests)


def compared(table: Table, snapshot: Snapshot, columns: Sequence[str]) -> Rewrite:
    """A snapshot, with the rows of the files that it removed and added compared by digests of ``columns``."""
    removed, added, has_deletes = exchanged(table, snapshot)
    sides = digest_of(table, removed, columns), digest_of(table, added, columns)
    names = _names(removed, added)
    return _described(table, snapshot, *sides, has_deletes=has_deletes, names=names)


def _names(removed: Sequence[DataFile], added: Sequence[DataFile]) -> str:
    return file_names_digest((one.file_path for one in removed), (one.file_path for one in added))


def _described(
    table: Table,
    snapshot: Snapshot,
    removed: FileSetDigest,
    added: FileSetDigest,
    *,
    has_deletes: bool,
    names: str,
    offsets: tuple[str, ...] | None = None,
) -> Rewrite:
    return Rewrite(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.summary.operation.value if snapshot.summary else "unknown",
        total_before=_total(parent_of(table, snapshot)),
        total_after=_total(snapshot),
        removed=removed,
        added=added,
        has_deletes=has_deletes,
        id=rewrite_of(snapshot),
        offsets=offsets,
        names=names,
    )


def _total(snapshot: Snapshot | None) -> int | None:
    total = summary_of(snapshot).get("total-records") if snapshot else None
    return None if total is None else int(total)
