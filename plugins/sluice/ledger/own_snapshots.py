"""Which snapshots that a table does not keep any more were the stream's, or its maintenance's, by records."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from sluice.core.tables.rewrites import Rewrites
from sluice.ledger.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger


class OwnSnapshots:
    """``ledger``: the stream's; ``batch_log``: the log of its table, asked only if need be."""

    def __init__(self, ledger: Ledger, batch_log: Callable[[], BatchLog]) -> None:
        self._rewrites, self._batch_log = VerifiedRewrites(ledger), batch_log

    def among(self, table: Table, expired: Collection[int], documents: int) -> set[int]:
        """Those of the ``expired`` snapshots that are recorded batches, or of a verified rewrite.

        Reads at most so many ``documents`` of each kind, those of the newest first: the number does not grow
        with the history. One that is further back is not found.
        """
        found = self._batch_log().recorded_before_kept(expired, documents)
        if missing := set(expired) - found:
            newest = Rewrites.of(table.properties).newest[-documents:]
            found |= missing & self._rewrites.snapshots(newest)
        return found
