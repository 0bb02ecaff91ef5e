"""Columns of each type that a table has, with values at the bounds of what its readers hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]

LOCAL_FIRST, LOCAL_LAST = datetime.combine(date.min, time.min), datetime.combine(date.max, time.max)
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
_PLAIN: dict[pa.DataType, Strategy] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.sampled_from([date.min, date.max]) | st.dates(),
    pa.timestamp("us"): st.sampled_from([LOCAL_FIRST, LOCAL_LAST]) | st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.sampled_from([FIRST, LAST])
    | st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None)).map(
        lambda one: one.replace(tzinfo=UTC)
    ),
    pa.time64("us"): st.sampled_from([time.min, time.max]) | st.times(),
}


def decimals(precision: int, scale: int) -> Strategy:
    """All decimals of as many digits; not by arithmetic, which rounds."""
    return st.integers(1 - 10**precision, 10**precision - 1).map(
        lambda number: Decimal((int(number < 0), tuple(int(digit) for digit in str(abs(number))), -scale))
    )


_DECIMALS = st.sampled_from([(1, 0), (9, 2), (18, 18), (20, 5), (38, 0), (38, 38)]).map(
    lambda digits: (pa.decimal128(*digits), decimals(*digits))
)


def _struct(fields: list[tuple[pa.DataType, Strategy]]) -> tuple[pa.DataType, Strategy]:
    names = [f"f{number}" for number in range(len(fields))]
    kind = pa.struct([pa.field(name, field[0]) for name, field in zip(names, fields, strict=True)])
    values = st.fixed_dictionaries(
        {name: st.none() | field[1] for name, field in zip(names, fields, strict=True)}
    )
    return kind, values


def _list(element: tuple[pa.DataType, Strategy]) -> tuple[pa.DataType, Strategy]:
    return pa.list_(element[0]), st.lists(st.none() | element[1], max_size=3)


def _map(value: tuple[pa.DataType, Strategy]) -> tuple[pa.DataType, Strategy]:
    entry = st.tuples(_PLAIN[pa.string()], st.none() | value[1])
    return pa.map_(pa.string(), value[0]), st.lists(entry, max_size=3, unique_by=lambda one: one[0])


def _kinds(leaves: Mapping[pa.DataType, Strategy]) -> st.SearchStrategy[tuple[pa.DataType, Strategy]]:
    return st.recursive(
        st.sampled_from(list(leaves.items())) | _DECIMALS,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3).map(_struct) | inner.map(_list) | inner.map(_map)
        ),
        max_leaves=4,
    )


@st.composite
def records(draw: st.DrawFn, *, time_of_day: bool = True) -> pa.RecordBatch:
    """A few columns of any type, or of each but ``time_of_day``, with a few rows."""
    leaves = {kind: values for kind, values in _PLAIN.items() if time_of_day or not pa.types.is_time(kind)}
    kinds = draw(st.lists(_kinds(leaves), min_size=1, max_size=4))
    count = draw(st.integers(0, 4))
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind)
        for kind, values in kinds
    ]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{number}" for number in range(len(columns))])


def same(one: Any, other: Any) -> bool:
    """Whether values of Python are equal, NaN to NaN, and a map to its entries."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    if isinstance(one, dict) and isinstance(other, list):
        one = list(one.items())
    if isinstance(one, list) and isinstance(other, dict):
        other = list(other.items())
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and type(one) is type(other)
