"""Records that a change takes out of table and quarantine: each of them, and which are malformed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow
import pyarrow.compute

from sluice.core.changes.plan import ChangePlan
from sluice.core.changes.result import ChangeResult, RemovedRecord
from sluice.core.offsets.quarantine import ON_PURPOSE
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader, by_partition, is_in
from spark_jobs.common.maintenance.staged_change import Touched


class Leaving:
    """Read once for all attempts to publish: a record at an offset is always the same, in whichever file.

    ``malformed``: of the records that leave the quarantine, and do not come again, those that were not
    rejected on purpose.
    """

    def __init__(
        self, reader: OffsetReader, plan: ChangePlan, touched: Touched, rejected: OffsetRanges
    ) -> None:
        self._reader, self._touched, self._rejected = reader, touched, rejected
        # Action remove names each of them.
        self._names_each = bool(plan.quarantined_out)
        self._of_table = removed_records(reader, touched) if self._names_each else []
        self._left, self._of_quarantine = Touched(), list[RemovedRecord]()
        self.malformed = OffsetRanges()

    def look_at(self, left: Touched) -> None:
        """``left``: what leaves the quarantine."""
        if left.offsets != self._left.offsets:
            self._of_quarantine = removed_records(self._reader, left) if self._names_each else []
            self.malformed = malformed_of(self._reader, left).minus(self._rejected)
        self._left = left

    def said_of(self, result: ChangeResult) -> ChangeResult:
        """Add to action remove's result each record that goes, also out of the quarantine."""
        if not self._names_each:
            return result
        return replace(
            result,
            out=self._touched.offsets.union(self._left.offsets),
            rows_out=self._touched.rows + self._left.rows,
            records=[*self._of_table, *self._of_quarantine],
        )


def removed_records(reader: OffsetReader, touched: Touched) -> list[RemovedRecord]:
    """The rows that go, each with its source."""
    columns = [*COLUMNS, "_source_id", "_source_row"]
    return [
        RemovedRecord(*values)
        for rows in _going(reader, touched, columns)
        for values in zip(*(rows[name].to_pylist() for name in columns), strict=True)
    ]


def malformed_of(reader: OffsetReader, touched: Touched) -> OffsetRanges:
    """Return those of a quarantine's rows that go which were not rejected on purpose."""
    found = OffsetRanges()
    for rows in _going(reader, touched, [*COLUMNS, "reason"]):
        # As bytes: a reason may be no text, which a removal repairs.
        reasons = rows["reason"].cast(pyarrow.binary())
        for begin in ON_PURPOSE:
            is_so = pyarrow.compute.starts_with(reasons, begin.encode())
            rows, reasons = (
                one.filter(pyarrow.compute.invert(pyarrow.compute.fill_null(is_so, False)))
                for one in (rows, reasons)
            )
        found = found.union(OffsetRanges.of_values(by_partition(rows.select(COLUMNS))))
    return found


def _going(reader: OffsetReader, touched: Touched, columns: Sequence[str]) -> Iterator[pyarrow.Table]:
    """These columns of the rows that go."""
    for table in reader.tables((one.stats.path for one in touched.files), columns):
        for partition, ranges in touched.offsets.partitions.items():
            rows = table.filter(pyarrow.compute.equal(table["_kafka_partition"], partition))
            yield rows.filter(pyarrow.array(is_in(rows["_kafka_offset"].to_numpy(), ranges)))
