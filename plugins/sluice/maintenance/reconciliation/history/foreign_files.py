"""Which new files of a stream's table neither the stream nor its maintenance is known to have added.

The snapshot that added a file is in its manifest entry, also after it has expired, and whichever commit wrote
the manifest again. The stream's own are kept, or batches of the log beside the table, or of a rewrite that
was verified: a batch is recorded, and a rewrite verified, before its snapshot expires.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from sluice.core.tables.batches import time_of
from sluice.core.tables.rewrites import Rewrites
from sluice.ledger.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from sluice.clients.lake.snapshots.table_diff import AddedFile
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger
    from sluice.maintenance.reconciliation.verified_table import Verified

# Between the clocks of two writers.
_CLOCK_SLACK = timedelta(minutes=5)


class ForeignFiles:
    """Foreign files of one table. ``batch_log``: its log, asked only about batches that have expired: of
    those that it has ``batches`` are the snapshots and offset ranges."""

    def __init__(self, ledger: Ledger, batch_log: Callable[[], BatchLog]) -> None:
        self._rewrites, self._batch_log = VerifiedRewrites(ledger), batch_log
        self.batches: dict[int, OffsetRanges] = {}

    def since(
        self, table: Table, added: Sequence[AddedFile], earlier: Verified
    ) -> dict[int | None, list[str]]:
        """Snapshot -> those of the ``added`` files that it added after the ``earlier`` state.

        At most a GET per rewrite since then, a LIST of the batches since then and a GET for ten of them.
        """
        from sluice.clients.lake.snapshots.table_diff import is_own

        # By number, not by the earlier state's files: these may be deleted, or all files be compared.
        new = [one for one in added if one.is_later_than(earlier.sequence_number)]
        kept = {snapshot.snapshot_id: is_own(snapshot) for snapshot in table.metadata.snapshots}
        expired = {number for one in new if (number := one.snapshot_id) is not None and number not in kept}
        if expired:
            expired -= self._of_rewrites(table, earlier)
        if expired:
            since = time_of(earlier.committed_at) - _CLOCK_SLACK
            recorded = self._batch_log().recorded(expired, since)
            self.batches |= recorded
            expired -= recorded.keys()
        found = dict[int | None, list[str]]()
        for one in new:
            if one.snapshot_id is None or one.snapshot_id in expired or not kept.get(one.snapshot_id, True):
                found.setdefault(one.snapshot_id, []).append(one.file.file_path)
        return found

    def _of_rewrites(self, table: Table, earlier: Verified) -> set[int]:
        """The snapshots of the verified rewrites since the earlier state."""
        rewrites = Rewrites.of(table.properties)
        return self._rewrites.snapshots(rewrites.after(earlier.rewrites))
