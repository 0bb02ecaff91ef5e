"""What the quarantine has of a load, counted record batch by record batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sluice.clients.lake import counting
from sluice.clients.lake.reading import files
from sluice.core.offsets.counts import Counts, present_offsets, repeated_offsets
from sluice.core.offsets.quarantine import CONSUMER_STAGE, DUPLICATE, WITHHELD
from sluice.core.offsets.ranges import OffsetRanges

COLUMNS = ("stage", "reason", files.PARTITION, files.OFFSET, files.SOURCE, files.ROW)


@dataclass
class RejectedRows:
    """``offsets``: of the records that the consumer rejected; ``repeated``: of these the ones that are there
    more than once. Row numbers by source id: ``withheld``, and
    ``others``, without duplicates of published rows."""

    offsets: OffsetRanges = field(default_factory=OffsetRanges)
    repeated: OffsetRanges = field(default_factory=OffsetRanges)
    withheld: Counts[str] = field(default_factory=Counts)
    others: Counts[str] = field(default_factory=Counts)

    @classmethod
    def counted(cls, batches: Iterable[pa.RecordBatch], source_ids: Collection[str]) -> RejectedRows:
        """``batches``: rows of the quarantine with COLUMNS; those of other sources than ``source_ids`` count
        with their offsets alone."""
        found, offsets = cls(), Counts[int]()
        for batch in batches:
            of_consumer = batch.filter(pc.equal(batch["stage"], CONSUMER_STAGE))
            counting.add_offsets(offsets, of_consumer)
            rows = batch.filter(pc.is_in(batch[files.SOURCE], pa.array(source_ids, pa.string())))
            is_withheld = pc.starts_with(rows["reason"], WITHHELD)
            is_other = pc.invert(pc.or_(is_withheld, pc.starts_with(rows["reason"], DUPLICATE)))
            counting.add_rows(found.withheld, rows.filter(is_withheld))
            counting.add_rows(found.others, rows.filter(is_other))
        found.offsets, found.repeated = present_offsets(offsets), repeated_offsets(offsets)
        return found
