"""Rows of CSV lines in their usual form, typed column by column with Arrow and NumPy.

Here is only what Spark's parser (:mod:`spark_jobs.common.producer.csv`) reads in the same way; a row that is
quoted, padded in a text column's way of its own, or not of its types is left to that parser, which alone
rejects rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from sluice.config.sending_rules import MAX_REQUEST_BYTES
from spark_jobs.common.producer.lines import Lines, Mask

# Longer lines are left to Spark's parser, whose buffer they may exceed.
_MAX_LINE = 64 * 1024
_NUMBER = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$"
# Up to this number, a double has no neighbour within the six digits after which Spark rounds.
_MAX_INT = 2**31 - 1
# "-2147483648.0": with more digits Spark's decimals round, and exponents have limits.
_MAX_INT_TEXT = 13
_MONTHS = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
_QUOTED = re.compile(r"'([^']*)'|([A-Za-z])\2*|(.)", re.DOTALL)
_WIDTHS = {
    "y": {4},
    "M": {2},
    "d": {2},
    "H": {2},
    "h": {2},
    "m": {2},
    "s": {2},
    "a": {1},
}


@dataclass(frozen=True)
class TimeFormat:
    """A pattern whose texts all have one width: where each letter's digits and the other characters stand."""

    width: int
    digits: dict[str, tuple[int, int]]
    literals: dict[int, int]

    @classmethod
    def of(cls, pattern: str) -> TimeFormat | None:
        """None for a pattern that is left to Spark's parser, as one with fractions of a second."""
        if pattern != pattern.strip():
            return None
        digits, literals, at = dict[str, tuple[int, int]](), dict[int, int](), 0
        for match in _QUOTED.finditer(pattern):
            letter, text = match[2], match[1] or match[3] or ""
            if letter is None:
                if not text or re.search(r"[^-/:., TZ]", text) or (match[1] is None and text in "TZ"):
                    return None
                literals |= {at + n: ord(char) for n, char in enumerate(text)}
                at += len(text)
                continue
            count = len(match[0])
            if letter in digits or count not in _WIDTHS.get(letter, ()):
                return None
            digits[letter] = (at, 2 if letter == "a" else count)
            at += digits[letter][1]
        clock = {letter for letter in digits if letter in "Hhmsa"}
        names = {frozenset("Hms"), frozenset("hmsa"), frozenset()}
        return cls(at, digits, literals) if set("yMd") <= set(digits) and frozenset(clock) in names else None

    def parse(self, chars: NDArray[np.uint8]) -> tuple[Mask, NDArray[np.int64]]:
        """Which rows of a matrix of characters are times, and their microseconds since 1970."""
        usual = np.ones(len(chars), bool)
        for at, char in self.literals.items():
            usual &= chars[:, at] == char
        values = dict.fromkeys("Hhmsa", np.zeros(1, np.int64))
        for letter, (at, count) in self.digits.items():
            if letter == "a":
                usual &= ((chars[:, at] == ord("A")) | (chars[:, at] == ord("P"))) & (
                    chars[:, at + 1] == ord("M")
                )
                values["a"] = (chars[:, at] == ord("P")).astype(np.int64)
                continue
            value = np.zeros(len(chars), np.int32)
            for column in range(at, at + count):
                digit = chars[:, column] - np.uint8(ord("0"))
                usual &= digit <= 9
                value = value * 10 + digit
            values[letter] = value.astype(np.int64)
        month, hour = values["M"], values["H"]
        usual &= (values["y"] >= 1) & (month >= 1) & (month <= 12)
        index = np.where(usual, (values["y"] - 1) * 12 + month - 1, 0)
        day = values["d"]
        usual &= (day >= 1) & (day <= _MONTHS[index + 1] - _MONTHS[index])
        usual &= (hour < 24) & (values["m"] < 60) & (values["s"] < 60)
        if "h" in self.digits:
            usual &= (values["h"] >= 1) & (values["h"] <= 12)
            hour = values["h"] % 12 + 12 * values["a"]
        seconds = ((_MONTHS[index] + day - 1) * 24 + hour) * 3600 + values["m"] * 60 + values["s"]
        return usual, seconds * 1_000_000


@dataclass(frozen=True)
class Column:
    """The field ``name`` of the record. ``kind``: Spark's name of its type; ``position``: in the lines, or
    None; ``required``: a line without its value is rejected; ``symbols``: the only texts of an enum."""

    name: str
    kind: str
    position: int | None
    required: bool
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """How lines become records of ``columns``. ``width``: the lines' number of columns; ``rest``: the name of
    the record's map, with the columns that go there, ``extra``, as (name, position). ``time_formats``:
    Spark's patterns, tried in this order. ``max_value_bytes``: of a record that is sent."""

    width: int
    columns: tuple[Column, ...]
    rest: str
    extra: tuple[tuple[str, int], ...]
    time_formats: tuple[str, ...]
    max_value_bytes: int = MAX_REQUEST_BYTES

    @property
    def max_line(self) -> int:
        """Bytes of a line of which the record's value surely has ``max_value_bytes`` at most: each value may
        be longer than its text by 12 bytes, and names of extra columns come from the header."""
        names = sum(len(name.encode()) + 12 for name, _ in self.extra)
        return min(_MAX_LINE, self.max_value_bytes - 12 * len(self.columns) - names - 12)

    def usual(self, lines: Lines) -> tuple[Mask, pa.StructArray]:
        """Which lines are in their usual form, and the records of those."""
        usual = lines.plain(self.width, self.max_line)
        cells = _cells(lines.only(usual), self.width)
        count = len(cells[0]) if cells else 0
        fine = np.ones(count, bool)
        formats = [TimeFormat.of(pattern) for pattern in self.time_formats]
        arrays = []
        for column in self.columns:
            if column.name == self.rest:
                array = _map([(name, _text(cells[at])[0]) for name, at in self.extra], count)
                if column.position is not None:
                    fine &= _valid(array) | ~_valid(_text(cells[column.position])[0])
            elif column.position is None:
                array = pa.nulls(count, KINDS[column.kind])
            else:
                array, odd = _CONVERT[column.kind](cells[column.position], formats)
                fine &= ~odd
                if column.symbols:
                    is_symbol = pc.is_in(array, pa.array(column.symbols, pa.string()))
                    fine &= ~_valid(array) | is_symbol.to_numpy(zero_copy_only=False)
                if column.required and array.null_count:
                    fine &= _valid(array)
            arrays.append(array)
        records = pa.StructArray.from_arrays(arrays, [column.name for column in self.columns])
        if not fine.all():
            records = records.filter(pa.array(fine))
            usual[np.flatnonzero(usual)[~fine]] = False
        return usual, records


def _cells(data: bytes, width: int) -> list[pa.StringArray]:
    names = [str(number) for number in range(width)]
    if not data:
        return [pa.array([], pa.string())] * width
    table = csv.read_csv(
        pa.py_buffer(data),
        csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
        csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        ),
    )
    return [_whole(column) for column in table.columns]


def _whole(column: pa.ChunkedArray) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _valid(array: pa.Array) -> Mask:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)


def _text(cells: pa.StringArray, _: Any = None) -> tuple[pa.StringArray, Mask]:
    trimmed = pc.utf8_trim(cells, " ")
    filled = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    return filled, np.zeros(len(cells), bool)


def _double(cells: pa.StringArray, _: Any = None) -> tuple[pa.DoubleArray, Mask]:
    odd = np.zeros(len(cells), bool)
    try:
        numbers = pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        texts = _text(cells)[0]
        is_number = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), True)
        odd = ~np.asarray(is_number.to_numpy(zero_copy_only=False), bool)
        numbers = pc.cast(pc.if_else(is_number, texts, pa.scalar(None, pa.string())), pa.float64())
    values = numbers.to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all():
        odd |= ~np.isfinite(values) & _valid(numbers)
    return numbers, odd


def _whole_number(kind: pa.DataType) -> Callable[[pa.StringArray, Any], tuple[pa.Array, Mask]]:
    def convert(cells: pa.StringArray, _: Any) -> tuple[pa.Array, Mask]:
        numbers, odd = _double(cells)
        values = numbers.to_numpy(zero_copy_only=False)
        valid = _valid(numbers)
        with np.errstate(invalid="ignore"):
            small = (np.abs(values) <= _MAX_INT) & (values == np.floor(values))
        lengths = pc.binary_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
        # Spark reads no number of more than 38 digits before its point, as 0e38 has: left to it.
        has_exponent = pc.match_substring_regex(cells, "[eE]").fill_null(False).to_numpy(zero_copy_only=False)
        odd |= valid & (~(small & (lengths <= _MAX_INT_TEXT)) | has_exponent)
        integers = np.where(valid & ~odd, values, 0).astype(kind.to_pandas_dtype())
        return pa.array(integers, kind, mask=~valid), odd

    return convert


def _times(cells: pa.StringArray, formats: Sequence[TimeFormat | None]) -> tuple[pa.Array, Mask]:
    offsets = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + len(cells) + 1]
    data = cells.buffers()[2]
    chars = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    lengths, valid = np.diff(offsets), _valid(cells)
    times, left = np.zeros(len(cells), np.int64), valid.copy()
    for layout in formats:
        if layout is None:
            # A text may be a time of this format, so none of a later one.
            break
        rows = np.flatnonzero(left & (lengths == layout.width))
        if not len(rows):
            continue
        if len(rows) == len(cells):
            matrix = chars[offsets[0] : offsets[-1]].reshape(len(cells), layout.width)
        else:
            matrix = chars[offsets[rows][:, None] + np.arange(layout.width)]
        usual, values = layout.parse(matrix)
        times[rows[usual]] = values[usual]
        left[rows[usual]] = False
    return pa.array(times, mask=~valid).view(pa.timestamp("us")), left


def _map(columns: Sequence[tuple[str, pa.StringArray]], count: int) -> pa.Array:
    kind = pa.map_(pa.string(), pa.string())
    if not columns:
        return pa.nulls(count, kind)
    filled = np.column_stack([_valid(cells) for _, cells in columns])
    each = filled.sum(axis=1)
    rows, numbers = np.nonzero(filled)
    keys = pa.array([name for name, _ in columns]).take(pa.array(numbers))
    items = pa.concat_arrays([cells for _, cells in columns]).take(pa.array(numbers * count + rows))
    offsets = np.concatenate([[0], np.cumsum(each)]).astype(np.int32)
    nulls = np.concatenate([each == 0, [False]])
    return pa.MapArray.from_arrays(pa.array(offsets, mask=nulls), keys, items, type=kind)


KINDS = {
    "string": pa.string(),
    "double": pa.float64(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "timestamp_ntz": pa.timestamp("us"),
}
_CONVERT: dict[str, Callable[..., tuple[Any, Mask]]] = {
    "string": _text,
    "double": _double,
    "integer": _whole_number(pa.int32()),
    "long": _whole_number(pa.int64()),
    "timestamp_ntz": _times,
}
