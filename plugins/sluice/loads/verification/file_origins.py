"""Whose files a table has: by the metadata of another program's nothing is verified.

A batch's file, and an own rewrite's, was verified before it was published. The snapshot that added a file is
in its manifest entry, also after it has expired; then only records say whose it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.core.offsets.verify import FileStats

# As OwnSnapshots.among: of expired snapshots of a table those that are own, by at most so many documents.
Recorded = Callable[["Table", Collection[int], int], set[int]]


def nothing_recorded(table: Table, expired: Collection[int], documents: int) -> set[int]:
    """All of them count as another program's."""
    return set()


class FileOrigins:
    """The snapshots that added the files that were noted, but for own ones that are kept."""

    def __init__(self, table: Table, recorded: Recorded = nothing_recorded) -> None:
        from sluice.clients.lake.snapshots.table_diff import is_own

        self._table, self._recorded = table, recorded
        self._kept = {one.snapshot_id: is_own(one) for one in table.metadata.snapshots}
        self._others = dict[str, int | None]()

    def note(self, entry: ManifestEntry) -> bool:
        """True: each file counts."""
        if not self._kept.get(entry.snapshot_id or 0, False):
            self._others[entry.data_file.file_path] = entry.snapshot_id
        return True

    def marked(self, stats: Sequence[FileStats], wanted: OffsetRanges) -> list[FileStats]:
        """``stats``, each with whose file it is. The records are asked about the files of expired snapshots
        that may hold ``wanted``, by no more documents than these are files, which would be read otherwise."""
        expired = {
            one.path: number
            for one in stats
            if (number := self._others.get(one.path)) and number not in self._kept and one.may_contain(wanted)
        }
        own = self._recorded(self._table, set(expired.values()), len(expired)) if expired else set()
        return [
            replace(one, is_own=one.path not in self._others or expired.get(one.path) in own) for one in stats
        ]
