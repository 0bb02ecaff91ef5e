"""Whose files a table has: by the metadata of another program's nothing is verified.

A batch's file was verified before it was published; an own rewrite's only later, by task verify_compaction,
which compares its rows with those that were there. Until a reconciliation had verified these too, it is as
another program's. The snapshot that added a file is in its manifest entry, also after it
has expired; then only records say whose it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.core.offsets.verify import FileStats

# As OwnSnapshots.among: of snapshots of a table, expired ones or rewrites, those that are own and verified,
# by at most so many documents.
Recorded = Callable[["Table", Mapping[int, int], int], set[int]]
# The number of a file that has none.
_NO_NUMBER = 2**63


def nothing_recorded(table: Table, snapshots: Mapping[int, int], documents: int) -> set[int]:
    """All of them count as another program's."""
    return set()


class FileOrigins:
    """The snapshots that added the files that were noted, but for batches that are kept."""

    def __init__(self, table: Table, recorded: Recorded = nothing_recorded) -> None:
        from sluice.clients.lake.snapshots.rewrites import rewrite_of
        from sluice.clients.lake.snapshots.table_diff import is_own

        self._table, self._recorded = table, recorded
        kept = table.metadata.snapshots
        self._batches = {one.snapshot_id for one in kept if is_own(one) and not rewrite_of(one)}
        self._foreign = {one.snapshot_id for one in kept if not is_own(one)}
        self._others = dict[str, int | None]()
        # Snapshot -> the highest data sequence number of its files.
        self._numbers = dict[int | None, int]()

    def note(self, entry: ManifestEntry) -> bool:
        """True: each file counts."""
        if entry.snapshot_id not in self._batches:
            number, at = entry.snapshot_id, entry.sequence_number
            self._others[entry.data_file.file_path] = number
            highest = self._numbers.get(number, 0)
            self._numbers[number] = max(highest, _NO_NUMBER if at is None else at)
        return True

    def marked(self, stats: Sequence[FileStats], wanted: OffsetRanges) -> list[FileStats]:
        """``stats``, each with whose file it is. The records are asked about the files of expired snapshots
        and rewrites that may hold ``wanted``, by no more documents than these are files, which would be read
        otherwise."""
        asked = {
            one.path: number
            for one in stats
            if (number := self._others.get(one.path))
            and number not in self._foreign
            and one.may_contain(wanted)
        }
        numbers = {number: self._numbers[number] for number in asked.values()}
        own = self._recorded(self._table, numbers, len(asked)) if asked else set()
        return [
            replace(one, is_own=one.path not in self._others or asked.get(one.path) in own) for one in stats
        ]
