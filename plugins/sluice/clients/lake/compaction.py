"""What each maintenance snapshot removed and added, from manifests and data files."""

from __future__ import annotations

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.errors import Missing
from sluice.clients.lake.arrow_sql import open_sql
from sluice.clients.lake.catalog import ancestors, asking, sluice_properties
from sluice.clients.lake.files import OFFSET, PARTITION, offsets
from sluice.model.error_codes import ErrorCode
from sluice.model.verification.storage import FileSetDigest, Rewrite


def since(table: Table, snapshot_id: int | None) -> list[Rewrite]:
    """The maintenance snapshots of ``main`` after ``snapshot_id`` (None: all that are kept), oldest first.

    Reads two columns of every file that they removed or added. Raises Missing if ``snapshot_id`` is no
    ancestor of ``main`` any more: it was rolled back, or the snapshot has expired.
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
            "or it has expired. Fix: check the table's history",
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
        removed=_digest(table, removed),
        added=_digest(table, added),
        has_deletes=has_deletes,
    )


def _total(snapshot: Snapshot | None) -> int | None:
    if snapshot is None or snapshot.summary is None:
        return None
    total = snapshot.summary.additional_properties.get("total-records")
    return None if total is None else int(total)


def _digest(table: Table, files: list[DataFile]) -> FileSetDigest:
    # A sum, so that the rows' order does not matter.
    query = f"select count(*), coalesce(sum(hash({PARTITION}, {OFFSET})), 0) % (1::hugeint << 64) from rows"
    with open_sql() as sql:
        ((records, digest),) = sql.rows(query, rows=offsets(table, [FileScanTask(file) for file in files]))
    return FileSetDigest(len(files), records, digest)
