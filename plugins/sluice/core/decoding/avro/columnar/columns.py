"""Values of many instances of one type, as NumPy reads them, before they are arrays of Arrow.

An instance is a place where a value is: of a record's field one per record, of an array's items as many as
there are items. A column can be concatenated, permuted, and spread over more instances, the others null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sluice.core.record_batches.cursor import Flags, Ints


@dataclass
class Values:
    """Numbers, an instance to a row of ``values``; an enum's are the places of its symbols. ``valid``: which
    instances have a value, None for all of them, as in the other columns."""

    values: NDArray[Any]
    valid: Flags | None = None


@dataclass
class Slices:
    """Texts and bytes, as parts of the piece's bytes."""

    starts: Ints
    lengths: Ints
    valid: Flags | None = None


@dataclass
class Structs:
    """Records, and unions of several types, as a column to a field."""

    fields: list[Column]
    count: int
    valid: Flags | None = None


@dataclass
class Lists:
    """Arrays, and maps as arrays of records of key and value. ``items``: of all instances in their order."""

    counts: Ints
    items: Column
    valid: Flags | None = None


@dataclass
class Nulls:
    """Instances without a value."""

    count: int
    valid: Flags | None = field(default=None, init=False)


Column: TypeAlias = Values | Slices | Structs | Lists | Nulls


def length(column: Column) -> int:
    """How many instances it has."""
    if isinstance(column, Values):
        return len(column.values)
    if isinstance(column, Slices | Lists):
        return len(column.starts if isinstance(column, Slices) else column.counts)
    return column.count


def concatenated(columns: Sequence[Column]) -> Column:
    """Columns of one type, one behind the other. At least one."""
    if len(columns) == 1:
        return columns[0]
    first, parts = columns[0], list[Any](columns)
    if isinstance(first, Nulls):
        return Nulls(sum(map(length, parts)))
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate(
            [np.ones(length(part), np.bool_) if part.valid is None else part.valid for part in parts]
        )
    if isinstance(first, Values):
        return Values(np.concatenate([part.values for part in parts]), valid)
    if isinstance(first, Slices):
        starts, lengths = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("starts", "lengths")
        )
        return Slices(starts, lengths, valid)
    if isinstance(first, Lists):
        counts = np.concatenate([part.counts for part in parts])
        return Lists(counts, concatenated([part.items for part in parts]), valid)
    fields = [concatenated(each) for each in zip(*(part.fields for part in parts), strict=True)]
    return Structs(fields, sum(map(length, parts)), valid)


def taken(column: Column, order: Ints) -> Column:
    """The instances at these places, in this order."""
    if isinstance(column, Nulls):
        return Nulls(len(order))
    valid = None if column.valid is None else column.valid[order]
    if isinstance(column, Values):
        return Values(column.values[order], valid)
    if isinstance(column, Slices):
        return Slices(column.starts[order], column.lengths[order], valid)
    if isinstance(column, Structs):
        return Structs([taken(each, order) for each in column.fields], len(order), valid)
    counts = column.counts[order]
    firsts = (np.cumsum(column.counts) - column.counts)[order]
    # The items of each list: from its first one on.
    shift = np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    return Lists(counts, taken(column.items, np.arange(len(shift)) + shift), valid)


def spread(column: Column, places: Ints, count: int) -> Column:
    """``count`` instances, of which those at ``places`` are the column's and the others null."""
    if isinstance(column, Nulls):
        return Nulls(count)
    valid: Flags = np.zeros(count, np.bool_)
    valid[places] = True if column.valid is None else column.valid

    def placed(values: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros((count, *values.shape[1:]), values.dtype)
        found[places] = values
        return found

    if isinstance(column, Values):
        return Values(placed(column.values), valid)
    if isinstance(column, Slices):
        return Slices(placed(column.starts), placed(column.lengths), valid)
    if isinstance(column, Lists):
        return replace(column, counts=placed(column.counts), valid=valid)
    return Structs([spread(each, places, count) for each in column.fields], count, valid)
