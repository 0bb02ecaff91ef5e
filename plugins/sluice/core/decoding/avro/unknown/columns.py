"""Columns of a type as JSON texts: all values at once, and one by one those of which that text is another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.types import Type, without_times
from sluice.core.decoding.avro.unknown.json_values import READABLE, Text, joined, text_of

# From a column to a text for each value, null for some, or for none.
Texts = Callable[[pa.Array], pa.StringArray]
# The same of all values that are not null; None for a column of which it cannot be told.
_Usual = Callable[[pa.Array], pa.StringArray | None]
# Characters that JSON escapes in a text.
_ESCAPED = '["\\\\\\x00-\\x1f]'
# Between these, Arrow and Python write the same digits, without an exponent; but Arrow writes 1.0 as 1. Arrow
# 26 has exponents from 1e10, Python from 1e16 and below 1e-4.
_LEAST, _MOST = 1e-3, 1e9
# Arrow writes decimals of more digits behind the point with an exponent, if they are small.
_MAX_SCALE = 6


def texts_of(kind: Type) -> Texts:
    """The function from a column of the type to its JSON texts, none of which is null."""
    usual, one = _usual(kind.optional), text_of(kind)

    def texts(column: pa.Array) -> pa.StringArray:
        found = None if usual is None else usual(column)
        return _one_by_one(column, one) if found is None else pc.fill_null(found, "null")

    return texts


def begin(name: str) -> str:
    """A member without its value."""
    return joined([(name, "")])[1:-1]


def in_lists(column: pa.ListArray, texts: pa.StringArray) -> pa.StringArray:
    """The texts of items, of which none is null, as those of their lists, which are not null if these are
    not."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    items = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    return _if_valid(column, pc.binary_join_element_wise("[", items, "]", ""))


def _one_by_one(column: pa.Array, one: Text) -> pa.StringArray:
    values = column.cast(without_times(column.type)).to_pylist()
    return pa.array(map(one, values), pa.utf8(), size=len(values))


def _if_valid(column: pa.Array, texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _usual(kind: Type) -> _Usual | None:
    if kind.logical == "decimal":
        return _quoted if kind.digits[1] <= _MAX_SCALE else None
    if kind.logical:
        return _times
    if kind.kind == "record":
        return _of_record(kind)
    if kind.kind == "array":
        item = texts_of(kind.item)
        return lambda column: in_lists(column, item(column.flatten()))
    return _USUAL.get(kind.kind)


def _of_record(kind: Type) -> _Usual:
    parts = [(place, field.name, texts_of(field.type)) for place, field in enumerate(kind.fields)]

    def texts(column: pa.StructArray) -> pa.StringArray:
        members = [
            member
            for place, name, of in parts
            for member in (f"{',' if place else ''}{begin(name)}", of(column.field(place)))
        ]
        # An array is among them, even of a record without fields.
        all_of_it = pc.binary_join_element_wise("{", *members, pa.repeat("}", len(column)), "")
        return _if_valid(column, all_of_it)

    return texts


def _plain(column: pa.Array) -> pa.StringArray:
    return column.cast(pa.utf8())


def _quoted(column: pa.Array) -> pa.StringArray:
    return pc.binary_join_element_wise('"', column.cast(pa.utf8()), '"', "")


def _doubles(column: pa.Array) -> pa.StringArray:
    size = pc.abs(column)
    is_usual = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _MOST)))
    rest = pc.if_else(pc.equal(column, pc.floor(column)), ".0", "")
    texts = pc.binary_join_element_wise(_plain(column), rest, "")
    return _corrected(column, texts, pc.invert(is_usual), text_of(Type("double")))


def _texts(column: pa.Array) -> pa.StringArray:
    return _corrected(
        column, _quoted(column), pc.match_substring_regex(column, _ESCAPED), text_of(Type("string"))
    )


def _corrected(
    column: pa.Array, texts: pa.StringArray, are_others: pa.BooleanArray, one: Text
) -> pa.StringArray:
    """The texts, with those of others written one by one."""
    mask = pc.fill_null(are_others, False)
    if not pc.any(mask).as_py():
        return texts
    return pc.replace_with_mask(texts, mask, _one_by_one(column.filter(mask), one))


def _times(column: pa.Array) -> pa.StringArray | None:
    is_date = pa.types.is_date(column.type)
    first, last = READABLE["date" if is_date else "timestamp"]
    ends = pc.min_max(column.view(pa.int32() if is_date else pa.int64()))
    if ends["min"].is_valid and (ends["min"].as_py() < first or ends["max"].as_py() > last):
        return None
    texts = column.cast(pa.utf8())
    if not is_date:
        texts = pc.replace_substring(texts, " ", "T")
    return pc.binary_join_element_wise('"', texts, '"', "")


# By kind; the others are rare, or written one by one only.
_USUAL: dict[str, _Usual] = {
    "boolean": _plain,
    "int": _plain,
    "long": _plain,
    "double": _doubles,
    "string": _texts,
    "enum": _texts,
}
