"""Offsets of many files, read portion by portion: each is recorded, so that a task that was ended, or looks
again, goes on where it was.

Sluice never changes a file of a table. So what a portion's files held counts for as long as all of them are
to be read; if one is not any more, since the table moved, the whole portion is read again; also if one was
overwritten since, as by a repair: a portion names the content that each file had before it was read. What a
store does not tell is read.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.ledger.keys import portion_key, portion_prefix

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from sluice.core.offsets.counts import Counts
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)

# A portion's most: some seconds, or minutes of small files. Fewer are read without a record.
PORTION_ROWS = 20_000_000
PORTION_FILES = 2_000


@dataclass
class UsedPortions:
    """What a verification used of the ledger: ``prefixes`` of the portions that are its own, and the
    ``keys`` of those whose files it has counted."""

    prefixes: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Portions:
    """``scope``: what the portions are of, as the state that a verification starts from, or the run that
    verifies everything once more: another one's are not taken. ``used``: is told which these are."""

    ledger: Ledger
    scope: str
    used: UsedPortions = field(default_factory=UsedPortions)

    def count(
        self, table: Table, data_files: Sequence[DataFile], rows: BooleanExpression | None = None
    ) -> Counts[int]:
        """The offsets in these files (of the rows that match), by partition."""
        from sluice.clients.lake.snapshots import table_diff
        from sluice.core.offsets.counts import Counts, counts_from_json, counts_to_json

        chosen = table_diff.ALWAYS if rows is None else rows
        rows_in_all = sum(one.record_count for one in data_files)
        if rows_in_all <= PORTION_ROWS and len(data_files) <= PORTION_FILES:
            return table_diff.count_offsets(table, data_files, chosen)
        found, left = Counts[int](), {one.file_path: one for one in data_files}
        of_rows = hashlib.sha256(f"{table.metadata.table_uuid} {self.scope} {chosen}".encode()).hexdigest()
        self.used.prefixes.add(portion_prefix(of_rows))
        for key in self.ledger.keys(portion_prefix(of_rows)):
            document = self.ledger.get(key) or {}
            names: Contents = document.get("files", {})
            if not names or not names.keys() <= left.keys():
                continue
            if None in names.values() or names != _contents(table, [left[name] for name in names]):
                continue
            found.add_counts(counts_from_json(document["offsets"]))
            self.used.keys.add(key)
            for name in names:
                del left[name]
        log.info(
            "offsets of %s: files_known=%d files_left=%d",
            table.name(),
            len(data_files) - len(left),
            len(left),
        )
        for portion in _portions(left.values()):
            # Before they are read: one that is overwritten meanwhile is another one then.
            names = _contents(table, portion)
            counted = table_diff.count_offsets(table, portion, chosen)
            found.add_counts(counted)
            if None not in names.values():
                digest = hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()
                key = portion_key(of_rows, digest)
                self.ledger.put(key, {"files": names, "offsets": counts_to_json(counted)})
                self.used.keys.add(key)
        return found


# Name of a file -> its content, as manifest and store say it; None if the store does not.
Contents = dict[str, list[int | str] | None]


def _contents(table: Table, files: Sequence[DataFile]) -> Contents:
    """One HEAD for each file."""
    from sluice.clients.lake.snapshots.stored_files import states

    said = states(table.io, [one.file_path for one in files])
    return {
        one.file_path: None if state is None else [one.record_count, one.file_size_in_bytes, state]
        for one, state in zip(files, said, strict=True)
    }


def _portions(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    portion, rows = list["DataFile"](), 0
    for file in files:
        portion.append(file)
        rows += file.record_count
        if rows >= PORTION_ROWS or len(portion) >= PORTION_FILES:
            yield portion
            portion, rows = [], 0
    if portion:
        yield portion
