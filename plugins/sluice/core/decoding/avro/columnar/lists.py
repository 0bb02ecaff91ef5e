"""Items of arrays and entries of maps: the first ones of all instances at once, then the second ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.core.decoding.avro.columnar.bodies import Bodies, Rows, selected
from sluice.core.decoding.avro.columnar.columns import Column, Lists, concatenated, taken
from sluice.core.record_batches.cursor import Flags, Ints

if TYPE_CHECKING:
    from sluice.core.decoding.avro.columnar.readers import Reader

# Count and size of a block.
_MAX_HEADER = 20
# A round for few instances costs as much as the reference does for them: so after as many such rounds in a
# portion, their records are odd.
_FEW, _MAX_ROUNDS_FOR_FEW = 16, 256


class ListReader:
    """Reads arrays of items of at least ``least`` bytes."""

    def __init__(self, item: Reader, least: int) -> None:
        self._item, self._least = item, least
        self.margin = _MAX_HEADER + item.margin

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        count, at = len(at), at.copy()
        records: Ints = selected(rows, np.arange(count))
        # Items left in the block that an instance is in; instances that are not at their end.
        left, live = np.zeros(count, np.int64), np.arange(count)
        owning, columns = list[Ints](), list[Column]()
        while True:
            live = self._blocks(bodies, records, at, left, live)
            if 0 < len(live) < _FEW:
                bodies.rounds_for_few += 1
                if bodies.rounds_for_few > _MAX_ROUNDS_FOR_FEW:
                    bodies.is_odd[records[live]] = True
                    live = live[:0]
            if not len(live) and columns:
                break
            column, behind = self._item.read(bodies, records[live], at[live])
            at[live] = behind
            owning.append(live)
            columns.append(column)
            left[live] -= 1
            live = live[self._is_within(bodies, records[live], behind)]
            if not len(live):
                break
        return _lists(owning, columns, count), at

    def _blocks(self, bodies: Bodies, records: Ints, at: Ints, left: Ints, live: Ints) -> Ints:
        """Read what is between two blocks; which instances have another item."""
        begins = np.flatnonzero(left[live] == 0)
        if not len(begins):
            return live
        which = live[begins]
        counts, behind = bodies.varints(records[which], at[which])
        # With the size of the block in bytes, which readers may skip it by.
        sized = np.flatnonzero(counts < 0)
        if len(sized):
            _, after = bodies.varints(records[which[sized]], behind[sized])
            behind[sized] = after
            counts[sized] = -counts[sized]
        # The least long is no count, and its negative is itself.
        out = (counts < 0) | (counts > (bodies.ends[records[which]] - behind) // self._least)
        bodies.mark(records[which], out)
        counts[out] = 0
        at[which] = behind
        left[which] = counts
        return live[left[live] > 0]

    def _is_within(self, bodies: Bodies, records: Ints, at: Ints) -> Flags:
        """Whether instances go on: their records are not odd, and end behind the positions."""
        out = at > bodies.ends[records]
        bodies.mark(records, out)
        within: Flags = ~bodies.is_odd[records]
        return within


def _lists(owning: list[Ints], columns: list[Column], count: int) -> Lists:
    """Items that were read round by round, in the order of their instances."""
    items = concatenated(columns)
    if len(owning) == 1:
        counts = np.zeros(count, np.int64)
        counts[owning[0]] = 1
        return Lists(counts, items)
    instances = np.concatenate(owning)
    # Stable: the first item of each instance first.
    order = np.argsort(instances, kind="stable")
    return Lists(np.bincount(instances, minlength=count), taken(items, order))
