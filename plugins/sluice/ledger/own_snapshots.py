"""Which snapshots of a table were the stream's, or of a rewrite that was verified, by records."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from sluice.clients.lake.commits import summary_of
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.storage import REWRITE_ID
from sluice.ledger.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger


class OwnSnapshots:
    """``ledger``: the stream's; ``batch_log``: the log of its table, asked only if need be."""

    def __init__(self, ledger: Ledger, batch_log: Callable[[], BatchLog]) -> None:
        self._rewrites, self._batch_log = VerifiedRewrites(ledger), batch_log

    def among(self, table: Table, snapshots: Collection[int], documents: int) -> set[int]:
        """Those of the ``snapshots`` that are of a verified rewrite or, of expired ones, recorded batches.

        Reads a document for each rewrite that is kept; of expired ones at most so many ``documents`` of each
        kind, those of the newest first: the number does not grow with the history. One that is further back
        is not found.
        """
        kept = {one.snapshot_id: one for one in table.metadata.snapshots if one.snapshot_id in snapshots}
        named = {summary_of(one).get(REWRITE_ID, "") for one in kept.values()} - {""}
        found = self._rewrites.snapshots(named) & kept.keys()
        expired = set(snapshots) - kept.keys()
        if not expired:
            return found
        found |= self._batch_log().recorded_before_kept(expired, documents)
        if missing := expired - found:
            newest = Rewrites.of(table.properties).newest[-documents:]
            found |= missing & self._rewrites.snapshots(newest)
        return found
