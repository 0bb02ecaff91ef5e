"""Which snapshots of a table were the stream's, or of a rewrite that was verified, by records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sluice.clients.lake.commits import summary_of
from sluice.core.json_record import Document
from sluice.core.tables.batches import time_of
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.storage import REWRITE_ID
from sluice.ledger.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger


class OwnSnapshots:
    """``ledger``: the stream's; ``batch_log``: the log of its table; ``state``: the newest that a
    reconciliation verified of that. Both are asked only if need be."""

    def __init__(
        self, ledger: Ledger, batch_log: Callable[[], BatchLog], state: Callable[[], Document | None]
    ) -> None:
        self._rewrites, self._batch_log, self._state = VerifiedRewrites(ledger), batch_log, state

    def among(self, table: Table, snapshots: Mapping[int, int], documents: int) -> set[int]:
        """Those of the ``snapshots`` whose files hold each of their offsets once: of expired ones the
        recorded batches, and verified rewrites of what a reconciliation had verified.

        ``snapshots``: each with the highest data sequence number of its files. Reads a document for each
        rewrite that is kept; of expired ones at most so many ``documents`` of each kind, those of the newest
        first: the number does not grow with the history. One that is further back is not found.
        """
        kept = {one.snapshot_id: one for one in table.metadata.snapshots if one.snapshot_id in snapshots}
        named = {summary_of(one).get(REWRITE_ID, "") for one in kept.values()} - {""}
        rewrites = self._rewrites.snapshots(named) & kept.keys()
        expired = snapshots.keys() - kept.keys()
        batches = self._batch_log().recorded_before_kept(expired, documents) if expired else set[int]()
        if missing := expired - batches:
            newest = Rewrites.of(table.properties).newest[-documents:]
            rewrites |= missing & self._rewrites.snapshots(newest)
        return batches | self._of_verified(table, {number: snapshots[number] for number in rewrites})

    def _of_verified(self, table: Table, rewrites: Mapping[int, int]) -> set[int]:
        """A rewrite's verification shows that it has the rows that were there, not that these were exact.
        A compaction's files have the sequence number of the state that it compacted: if that is not newer
        than the state that a reconciliation verified, this one had the removed files, or has the added ones.
        """
        from sluice.clients.lake.snapshots.table_diff import is_on_main

        state = self._state() if rewrites else None
        if state is None or state["table_uuid"] != str(table.metadata.table_uuid):
            return set()
        until = state["sequence_number"]
        is_of_main = is_on_main(table, state["snapshot_id"], until)
        if is_of_main is None:
            is_of_main = not self._batch_log().has_lost(time_of(state["committed_at"]))
        return {one for one, number in rewrites.items() if is_of_main and 0 < number <= until}
