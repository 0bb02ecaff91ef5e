"""Offsets of many files, read portion by portion: each is recorded, so that a task that was ended, or looks
again, goes on where it was.

A file of a table never changes. So what a portion's files held counts for as long as all of them are to be
read; if one is not any more, since the table moved, the whole portion is read again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.core.tables.rewrites import file_names_digest
from sluice.ledger.keys import portion_key, portion_prefix

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from sluice.core.offsets.counts import Counts
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)

# Rows of a portion: some seconds. Fewer rows than that are read without a record.
PORTION_ROWS = 20_000_000


@dataclass(frozen=True)
class Portions:
    """``scope``: what the portions are of, as the state that a verification starts from, or the run that
    verifies everything: another one's are not taken."""

    ledger: Ledger
    scope: str

    def count(
        self, table: Table, data_files: Sequence[DataFile], rows: BooleanExpression | None = None
    ) -> Counts[int]:
        """The offsets in these files (of the rows that match), by partition."""
        from sluice.clients.lake.snapshots import table_diff
        from sluice.core.offsets.counts import Counts, counts_from_json, counts_to_json

        chosen = table_diff.ALWAYS if rows is None else rows
        if sum(one.record_count for one in data_files) <= PORTION_ROWS:
            return table_diff.count_offsets(table, data_files, chosen)
        found, left = Counts[int](), {one.file_path: one for one in data_files}
        of_rows = hashlib.sha256(f"{table.metadata.table_uuid} {self.scope} {chosen}".encode()).hexdigest()
        for key in self.ledger.keys(portion_prefix(of_rows)):
            document = self.ledger.get(key) or {}
            names: dict[str, int] = document.get("files", {})
            if not names or any(left[n].record_count != c if n in left else True for n, c in names.items()):
                continue
            found.add_counts(counts_from_json(document["offsets"]))
            for name in names:
                del left[name]
        log.info(
            "offsets of %s: files_known=%d files_left=%d",
            table.name(),
            len(data_files) - len(left),
            len(left),
        )
        for portion in _portions(left.values()):
            counted = table_diff.count_offsets(table, portion, chosen)
            names = {one.file_path: one.record_count for one in portion}
            key = portion_key(of_rows, file_names_digest((), names))
            self.ledger.put(key, {"files": names, "offsets": counts_to_json(counted)})
            found.add_counts(counted)
        return found


def _portions(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    portion, rows = list["DataFile"](), 0
    for file in files:
        portion.append(file)
        rows += file.record_count
        if rows >= PORTION_ROWS:
            yield portion
            portion, rows = [], 0
    if portion:
        yield portion
