"""What a published change exchanged, from manifests and data files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.lake.commits import ancestors, summary_of
from sluice.clients.lake.snapshots.digest import digest_of
from sluice.clients.lake.snapshots.rewrites import exchanged, rewrite_of, without_binary
from sluice.core.changes.published import CHANGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.storage import FileSetDigest
from sluice.core.tables.summary import CHANGE_DOCUMENT, CHANGE_ID, KIND


@dataclass(frozen=True)
class PublishedChange:
    """``snapshot_id``: the change's snapshot with the stream's state; ``snapshots``: all of it;
    ``rewrite``: the id of its rewrite; ``document``: the address of its result. ``removed``, ``added``: the
    data files that it exchanged."""

    snapshot_id: int
    snapshots: Sequence[int]
    rewrite: str
    document: str
    removed: Sequence[DataFile]
    added: Sequence[DataFile]


def find(table: Table, change_id: str) -> PublishedChange | None:
    """None if no snapshot that is kept has it: they are kept for KEEP_REWRITES."""
    own = _of_change(table, change_id)
    said = _published(table, change_id)
    if said is None:
        return None
    removed, added = list[DataFile](), list[DataFile]()
    for snapshot in own:
        gone, come, _ = exchanged(table, snapshot)
        removed += gone
        added += come
    document = summary_of(said)[CHANGE_DOCUMENT]
    snapshots = [snapshot.snapshot_id for snapshot in own]
    return PublishedChange(said.snapshot_id, snapshots, rewrite_of(said), document, removed, added)


def snapshot_of(table: Table, change_id: str) -> int | None:
    """The snapshot that published a change; None if no snapshot that is kept has it."""
    said = _published(table, change_id)
    return None if said is None else said.snapshot_id


def document_of(table: Table, change_id: str) -> str | None:
    """The address of a change's result; None if no snapshot that is kept has it."""
    said = _published(table, change_id)
    return None if said is None else summary_of(said)[CHANGE_DOCUMENT]


def _published(table: Table, change_id: str) -> Snapshot | None:
    """The change's snapshot with the stream's state."""
    own = _of_change(table, change_id)
    return next((s for s in own if summary_of(s).get(KIND) == CHANGE), None)


def _of_change(table: Table, change_id: str) -> list[Snapshot]:
    """Those of ``main``; else all, if the history between has expired. If ``main`` was moved back by hand, an
    earlier attempt's are kept beside it."""
    own = [s for s in table.metadata.snapshots if summary_of(s).get(CHANGE_ID) == change_id]
    on_main = {snapshot.snapshot_id for snapshot in ancestors(table)} if own else set()
    return [snapshot for snapshot in own if snapshot.snapshot_id in on_main] or own


def digest_without(table: Table, files: Sequence[DataFile], offsets: OffsetRanges) -> FileSetDigest:
    """Number and hash of the rows of ``files`` but those at ``offsets``: all columns but bytes."""
    return digest_of(table, files, without_binary(table), offsets)


def digest_of_others(table: Table, files: Sequence[DataFile], columns: Collection[str]) -> FileSetDigest:
    """The same of all rows, in all columns but these, and bytes."""
    return digest_of(table, files, [name for name in without_binary(table) if name not in columns])
