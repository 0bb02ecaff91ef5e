"""Offsets of records in quarantine, by what a change asks for: an offset, a reason, a source."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sluice.core.offsets.quarantine import CONSUMER_STAGE, DUPLICATE, WITHHELD
from sluice.core.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.core.changes.result import ChangeResult
    from sluice.core.offsets.bitmaps import Bitmap


class QuarantinedRecords:
    """The records that the consumer rejected of one stream; ``table`` is its quarantine. Each method reads
    it once."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake, self.table = lake, table

    def among(self, asked: OffsetRanges) -> OffsetRanges:
        """Those of ``asked`` that are there."""
        from pyiceberg.expressions import And, EqualTo

        from sluice.clients.lake import counting
        from sluice.clients.lake.reading import files
        from sluice.core.offsets.counts import present_offsets

        table = self._lake.table(self.table)
        rows = And(EqualTo("stage", CONSUMER_STAGE), files.overlapping(asked.bounds()))
        found = counting.count_offsets(table, files.committed_since(table, 0), rows)
        return present_offsets(found).intersect(asked)

    def withheld(self) -> OffsetRanges:
        """The records that are withheld."""
        from pyiceberg.expressions import StartsWith

        from sluice.clients.lake import counting
        from sluice.clients.lake.reading import files
        from sluice.core.offsets.counts import present_offsets

        table = self._lake.table(self.table)
        rows = StartsWith("reason", WITHHELD)
        return present_offsets(counting.count_offsets(table, files.committed_since(table, 0), rows))

    def one_per_row(self, source_id: str, published: Bitmap) -> OffsetRanges:
        """Return one record for each withheld row of a source that is not ``published`` (row numbers): a
        producer that was believed dead may have sent copies."""
        import numpy as np
        from pyiceberg.expressions import And, EqualTo, StartsWith

        from sluice.clients.lake.reading import files

        table, columns = self._lake.table(self.table), (files.PARTITION, files.OFFSET, files.ROW)
        chosen = And(StartsWith("reason", WITHHELD), EqualTo(files.SOURCE, source_id))
        found = files.read(table, chosen, columns).read_all()
        partitions, offsets, rows = (found[name].to_numpy().astype(np.int64) for name in columns)
        unpublished = np.flatnonzero(~published.holds(rows))
        _, where = np.unique(rows[unpublished], return_index=True)
        one = unpublished[where]
        found = {int(p): offsets[one][partitions[one] == p] for p in np.unique(partitions[one])}
        return OffsetRanges.of_values(found)

    def to_retry(
        self, reason: str, sources: Collection[str] | None, feeds: OffsetRanges, before: ChangeResult
    ) -> OffsetRanges:
        """Those whose reason contains ``reason``, of ``sources`` or at offsets of ``feeds`` (None: of all),
        without what a change took out (``before``). Withheld ones only if ``reason`` begins so."""
        from pyiceberg.expressions import And, EqualTo, NotStartsWith, StartsWith

        from sluice.clients.lake.reading import files

        of_reason = StartsWith if reason.startswith(WITHHELD) else NotStartsWith
        rows = And(
            EqualTo("stage", CONSUMER_STAGE),
            NotStartsWith("reason", DUPLICATE),
            of_reason("reason", WITHHELD),
        )
        reverted, removed = before.reverted_sources, before.removed
        offsets: dict[int, list[int]] = {}
        for row in files.quarantined(self._lake.table(self.table), rows):
            partition, offset = row[files.PARTITION], row[files.OFFSET]
            if reason not in row["reason"]:
                continue
            if row[files.SOURCE] in reverted or offset in removed[partition]:
                continue
            if sources is None or row[files.SOURCE] in sources or offset in feeds[partition]:
                offsets.setdefault(partition, []).append(offset)
        return OffsetRanges.of_values(offsets)
