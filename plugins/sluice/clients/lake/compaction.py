"""What maintenance did to a table's files, snapshot by snapshot, read back from manifests and data files."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.errors import Missing
from sluice.clients.lake.catalog import ancestors, asking, sluice_properties
from sluice.clients.lake.files import pairs
from sluice.model.error_codes import ErrorCode
from sluice.model.verification.storage import FileSetDigest, Rewrite

# splitmix64's constants (Steele, Lea, Flood 2014); numbers wrap at 64 bits.
_STEP, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFTS = tuple(np.uint64(n) for n in (30, 27, 31))


def since(table: Table, snapshot_id: int | None) -> list[Rewrite]:
    """The snapshots of ``main`` behind ``snapshot_id`` that are no owner's, oldest first; None: behind none.

    Reads two columns of every file that they took away or brought. Raises Missing where ``main`` does not
    come from that snapshot any more: it was rolled back behind it, or the snapshot has expired.
    """
    found: list[Rewrite] = []
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == snapshot_id:
            return found[::-1]
        if not sluice_properties(snapshot):
            found.append(_rewrite(table, snapshot))
    if snapshot_id is not None:
        raise Missing(
            f"snapshot {snapshot_id} is no ancestor of main any more: the table was rolled back behind it, "
            "or it has expired; look at the table's history",
            ErrorCode.COMPACTION_NOT_VERIFIED,
        )
    return found[::-1]


def _rewrite(table: Table, snapshot: Snapshot) -> Rewrite:
    removed: list[DataFile] = []
    added: list[DataFile] = []
    has_deletes = False
    with asking(f"manifests of snapshot {snapshot.snapshot_id}"):
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.data_file.content != DataFileContent.DATA:
                    has_deletes = True
                elif entry.snapshot_id == snapshot.snapshot_id:
                    if entry.status == ManifestEntryStatus.DELETED:
                        removed.append(entry.data_file)
                    elif entry.status == ManifestEntryStatus.ADDED:
                        added.append(entry.data_file)
    parent = (
        table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    )
    return Rewrite(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.summary.operation.value if snapshot.summary else "unknown",
        total_before=_total(parent),
        total_after=_total(snapshot),
        removed=_held(table, removed),
        added=_held(table, added),
        has_deletes=has_deletes,
    )


def _total(snapshot: Snapshot | None) -> int | None:
    if snapshot is None or snapshot.summary is None:
        return None
    total = snapshot.summary.additional_properties.get("total-records")
    return None if total is None else int(total)


def _held(table: Table, files: list[DataFile]) -> FileSetDigest:
    records = digest = 0
    for partitions, offsets in pairs(table, [FileScanTask(file) for file in files]):
        records += len(offsets)
        digest = (digest + _digest(partitions, offsets)) % 2**64
    return FileSetDigest(len(files), records, digest)


def _digest(partitions: Any, offsets: Any) -> int:
    """A sum over the coordinates, each mixed into 64 bits by itself, so that their order does not matter."""
    mixed = offsets.astype(np.uint64) + (partitions.astype(np.uint64) + np.uint64(1)) * _STEP
    mixed = (mixed ^ (mixed >> _SHIFTS[0])) * _FIRST
    mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _SECOND
    return int(np.sum(mixed ^ (mixed >> _SHIFTS[2]), dtype=np.uint64))
