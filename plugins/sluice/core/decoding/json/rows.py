"""All records of a piece by Arrow's JSON parser, and those that it reads differently from the reference.

Arrow 26 reads a stream of values, wherever they begin and end (``cpp/src/arrow/json/parser.cc``). It does not
check that keys and texts are UTF-8, takes NaN and Infinity for numbers, and dies of a ``null`` that is no
object's member (https://github.com/apache/arrow/issues/47409).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import json

from sluice.core.decoding.json.columns import Column
from sluice.core.decoding.json.conversions import cast
from sluice.core.decoding.json.document import MAX_DEPTH, WHITE_SPACE
from sluice.core.decoding.json.parts import Flags, in_parts

# The name of a member at each record's end, which must be there. Drawn by this process, so no record can
# contain it: then each line is exactly one object, whatever a record has. A record that ends its object
# early has one without it, and Arrow stops there; one that does not end its object stops it with the next.
_MARK = f"mark_{os.urandom(8).hex()}"
_MARKED_END = f',"{_MARK}":0}}\n'
# An object for Arrow in place of what is not to be read; no record has this name, either.
BLANK = f"blank_{os.urandom(8).hex()}"
_NO_COLUMN = f'{{"{BLANK}":0}}'
# Ten records by the reference cost as much as a call.
_MAX_FAILURES = 1 / 32
_NOT_CONVERTED = "Failed to convert JSON"
# Longer than any line.
_ALL = 2**31 - 1
_NOT_A_NUMBER = r"[:,\[][ \t\r\n]*-?(NaN|Inf(inity)?)[ \t\r\n]*[,\]}]"
# Arrow reads beyond a table of powers of ten if a decimal has 77 digits more behind the point than its column
# (https://github.com/apache/arrow/issues/50964): wrong values, and crashes. These patterns leave 59 of them,
# and 9 by an exponent.
_MANY_DIGITS = "[.][0-9]{60}"
_LARGE_EXPONENT = "[eE]-0*[1-9][0-9]"
# A decimal may be a text, with escapes of what the patterns look for.
_ESCAPED_NUMBER = r"\\u00(2[bBdDeE]|3[0-9]|[46]5)"


@dataclass(frozen=True)
class Rows:
    """``arrays``: of its ``read`` or ``read_again`` type for each column; ``is_odd``: whether the reference
    must read a row, whose values here are of no use; ``texts``: of all rows but the odd and those without a
    member, which have another object instead; ``is_whole``: whether these have the columns alone."""

    arrays: list[pa.Array]
    is_odd: Flags
    texts: pa.StringArray
    is_whole: bool


def read(values: pa.BinaryArray, columns: Sequence[Column], *, is_strict: bool = False) -> Rows:
    """Read at most 100,000 rows, and one at least. ``is_strict``: it is asked whether there is a member that
    no column has; else ``is_whole`` is false."""
    texts, is_odd = cast(values, pa.utf8())
    is_odd |= values.is_null().to_numpy(zero_copy_only=False)
    texts = _without(texts, is_odd)
    if not _is_object(texts).all():
        texts = pc.ascii_trim(texts, WHITE_SPACE)
        is_odd |= ~_is_object(texts)
        texts = _without(texts, is_odd)
    is_odd |= _has_no_number(texts) | _is_deep(texts)
    if any(column.kind == "decimal" for column in columns):
        is_odd |= _has_many_decimals(texts)
    # An object without members has no member to set the mark behind.
    texts = _without(texts, is_odd | (_lengths(texts) == 2))
    lines = pc.binary_replace_slice(texts, -1, _ALL, _MARKED_END.encode())
    types = {column.name: column.read for column in columns}
    if is_strict and (whole := _whole(lines, types)) is not None:
        return Rows([whole.column(column.name) for column in columns], is_odd, texts, is_whole=True)
    try:
        batches = [_parsed(lines, _schema(types))]
    except pa.ArrowInvalid as error:
        if _NOT_CONVERTED in str(error):
            is_other = _has_other_number(lines, columns)
            is_odd |= is_other
            lines = _without(lines, is_other, _NO_COLUMN[:-1] + _MARKED_END)
        schema = _schema({column.name: column.read_again for column in columns})
        batches, is_refused = in_parts(
            lines, lambda part: _parsed(part, schema), lambda rows: _nothing(rows, schema), _MAX_FAILURES
        )
        is_odd |= is_refused
    table = pa.Table.from_batches(batches).combine_chunks()
    arrays = [table.column(column.name).chunk(0) for column in columns]
    return Rows(arrays, is_odd, _without(texts, is_odd), is_whole=False)


def _whole(lines: pa.Array, types: Mapping[str, pa.DataType]) -> pa.RecordBatch | None:
    """The rows, if each has columns alone, and Arrow reads all of them."""
    schema = _schema({**types, BLANK: pa.int8()})
    try:
        return _parsed(lines, schema, "error")
    except pa.ArrowInvalid:
        return None


def _schema(types: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*types.items(), pa.field(_MARK, pa.int8(), nullable=False)])


def _parsed(lines: pa.Array, schema: pa.Schema, unexpected: str = "ignore") -> pa.RecordBatch:
    """The rows of ``lines``. Raises ArrowInvalid."""
    offsets, data = _buffers(lines)
    text = data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    table = json.read_json(
        pa.BufferReader(text),
        # One block: lines do not end at line breaks for Arrow's parser, blocks do.
        read_options=json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )
    if table.num_rows != len(lines):
        raise pa.ArrowInvalid(f"{table.num_rows} rows of {len(lines)} lines")
    (batch,) = table.drop_columns([_MARK]).to_batches()
    return batch


def _nothing(rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """As many rows of nulls, without the mark."""
    nulls = [pa.nulls(rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(nulls[:-1], schema.names[:-1])


def _has_other_number(lines: pa.Array, columns: Sequence[Column]) -> Flags:
    """Whether a row seems to have a number in a column of whole numbers that is none, or too large."""
    limits = {"int": 10, "bigint": 19}
    patterns = [
        rf'"{re.escape(column.name)}"[ \t\r\n]*:[ \t\r\n]*-?[0-9]+([.eE]|[0-9]{{{limits[column.kind] - 1}}})'
        for column in columns
        if column.kind in limits
    ]
    found: Flags = np.zeros(len(lines), np.bool_)
    for pattern in patterns:
        found |= pc.match_substring_regex(lines, pattern).to_numpy(zero_copy_only=False)
    return found


def _without(texts: pa.Array, is_odd: Flags, instead: str = _NO_COLUMN) -> pa.Array:
    return pc.if_else(pa.array(is_odd), instead, texts) if is_odd.any() else texts


def _buffers(array: pa.Array) -> tuple[NDArray[np.int32], pa.Buffer]:
    """Where each row begins, and the last ends, in the bytes."""
    _, offsets, data = array.buffers()
    rows = slice(array.offset, array.offset + len(array) + 1)
    return np.frombuffer(offsets, np.int32)[rows], data or pa.py_buffer(b"")


def _lengths(texts: pa.Array) -> NDArray[np.int32]:
    return np.diff(_buffers(texts)[0])


def _is_object(texts: pa.Array) -> Flags:
    """Whether a text seems to be an object: by its first and last bytes."""
    offsets, data = _buffers(texts)
    array = np.frombuffer(data, np.uint8)
    found: Flags = np.diff(offsets) >= 2
    found[found] = (array[offsets[:-1][found]] == ord("{")) & (array[offsets[1:][found] - 1] == ord("}"))
    return found


def _has_no_number(texts: pa.Array) -> Flags:
    """Whether a row has NaN or Infinity in place of a value, or in a text what looks so."""
    array = _bytes(texts)
    at = np.flatnonzero((array == ord("N")) | (array == ord("I")))
    # A row ends with another byte.
    before, behind = array[at - 1], array[at + 1]
    is_first = (before <= ord(" ")) | (before == ord(":")) | (before == ord(","))
    is_first |= (before == ord("[")) | (before == ord("-"))
    return _matches(texts, at[is_first & ((behind == ord("a")) | (behind == ord("n")))], _NOT_A_NUMBER)


def _has_many_decimals(texts: pa.Array) -> Flags:
    """Whether a row may have a decimal that Arrow's parser must not see."""
    array = _bytes(texts)
    at = np.flatnonzero(array == ord("-"))
    found = _matches(texts, at[(array[at - 1] | 0x20) == ord("e")], _LARGE_EXPONENT)
    for pattern in (_MANY_DIGITS, _ESCAPED_NUMBER):
        found |= pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return found


def _bytes(texts: pa.Array) -> NDArray[np.uint8]:
    """All rows' bytes, one behind the other; the first row begins with a bracket, or there is none."""
    offsets, data = _buffers(texts)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]


def _matches(texts: pa.Array, at: NDArray[np.int64], pattern: str) -> Flags:
    """Whether a row matches, of those that have one of these positions in :func:`_bytes`."""
    found: Flags = np.zeros(len(texts), np.bool_)
    if len(at):
        offsets, _ = _buffers(texts)
        rows = np.unique(np.searchsorted(offsets, at + offsets[0], side="right") - 1)
        matches = pc.match_substring_regex(texts.take(pa.array(rows)), pattern)
        found[rows] = matches.to_numpy(zero_copy_only=False)
    return found


def _is_deep(texts: pa.Array) -> Flags:
    """Whether a row may be nested more deeply than the reference reads."""
    found: Flags = np.zeros(len(texts), np.bool_)
    rows = np.flatnonzero(_lengths(texts) > 2 * MAX_DEPTH)
    if len(rows):
        long = texts.take(pa.array(rows))
        brackets = pc.add(pc.count_substring(long, "["), pc.count_substring(long, "{"))
        found[rows] = brackets.to_numpy() > MAX_DEPTH
    return found
