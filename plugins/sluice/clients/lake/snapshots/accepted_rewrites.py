"""Files that a verified rewrite exchanged: what the table holds of them needs no second look.

A rewrite's verification compared the rows of the files that it removed with those that it added, and its
document has a digest of the names of both. If a state that was verified had the removed ones, and the newer
one has the added ones in their place, then the same rows are there, each as often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.lake.snapshots.rewrites import exchanged, rewrite_of
from sluice.clients.lake.snapshots.table_diff import AddedFile, TableDiff, is_own
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.tables.rewrites import file_names_digest, id_of_foreign, said_digest

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unaccepted:
    """Files of a difference between two states, without those of verified rewrites."""

    removed: list[DataFile]
    added: list[AddedFile]


def without_accepted(table: Table, diff: TableDiff, document: Callable[[str], Document | None]) -> Unaccepted:
    """``document``: of a verified rewrite, by its id; asked for each rewrite that added a file and is kept.

    A rewrite counts if its document's digest is that of the files which its manifests say it exchanged, the
    difference has all of these, and no other one removed any of them. All other files stay.
    """
    came = dict[int | None, list[str]]()
    for one in diff.added:
        came.setdefault(one.snapshot_id, []).append(one.file.file_path)
    gone = {one.file_path for one in diff.removed}
    old, new = set[str](), set[tuple[int | None, str]]()
    for snapshot in table.metadata.snapshots:
        rewrite = rewrite_of(snapshot)
        # A batch, or a change, is none.
        if snapshot.snapshot_id not in came or (is_own(snapshot) and not rewrite):
            continue
        found = document(rewrite or id_of_foreign(snapshot.snapshot_id))
        said = said_digest(found, snapshot.snapshot_id)
        if said is None:
            continue
        removed, added = _exchanged(table, snapshot, said)
        # As lists: a file that the rewrite has listed twice is there twice.
        if added and sorted(added) == sorted(came[snapshot.snapshot_id]) and removed <= gone - old:
            old |= removed
            # Another commit may list one of them again.
            new |= {(snapshot.snapshot_id, path) for path in added}
    if new:
        log.info("verified rewrites of %s: files_removed=%d files_added=%d", table.name(), len(old), len(new))
    return Unaccepted(
        [one for one in diff.removed if one.file_path not in old],
        [one for one in diff.added if (one.snapshot_id, one.file.file_path) not in new],
    )


def _exchanged(table: Table, snapshot: Snapshot, said: str) -> tuple[set[str], list[str]]:
    """The names of the files that the snapshot exchanged; none if the digest is not theirs."""
    try:
        removed, added, has_deletes = exchanged(table, snapshot)
    except Refused as error:
        if error.code is not ErrorCode.LAKE_FILE_MISSING:
            raise
        # Its parent's manifests may be deleted already.
        return set(), []
    old, new = [one.file_path for one in removed], [one.file_path for one in added]
    return (set(old), new) if not has_deletes and file_names_digest(old, new) == said else (set(), [])
