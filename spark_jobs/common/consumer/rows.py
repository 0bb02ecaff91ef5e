"""What the writer asks of a batch's rows, however they are read and decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame

from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake.written.written_batch import WrittenBatch

if TYPE_CHECKING:
    from spark_jobs.common.consumer.writer import StreamWriter


class Rows(Protocol):
    """The rows of one batch, to be written as often as needed: they are read and decoded each time."""

    @property
    def epochs(self) -> Mapping[int, int]:
        """Partition -> the leader epoch of the newest record, as far as known; after :meth:`write`."""

    def flag_duplicates(self, loaded: LoadedRows, sources: set[str]) -> None:
        """Reject rows of ``sources`` that are in ``loaded``, or twice in the batch, when it is written
        next."""

    def write(
        self, writer: StreamWriter, ranges: OffsetRanges, summary: Mapping[str, str], *, is_small: bool
    ) -> WrittenBatch:
        """Append the good records of ``ranges`` to the writer's branch, in a snapshot with ``summary``, and
        stage the others. Raises what the writer's ``write_branch`` raises, and what reading raises."""


# The writer, and what Structured Streaming gives for a batch, which need not be evaluated.
RowsOf = Callable[["StreamWriter", DataFrame], Rows]
