"""Values that a reader of the table cannot read: DuckDB, PyArrow, pandas or Spark.

One of them makes its whole column unreadable. So a record that has one is rejected: a text that is not UTF-8,
a time or date beyond what Python's datetime holds, which is less than DuckDB and pandas do, a decimal of more
digits than its column has, a map with two equal keys, which DuckDB refuses. The first and the last day are
left out of times with a zone: readers show them in their own zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.arrays import bytes_of
from sluice.core.record_batches.cursor import Flags, Ints

# Types whose every value can be read; so could times of the day and bytes of a fixed size, which none has.
_ALWAYS = (
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.binary(),
)
_DAY = 86_400_000_000
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))


@dataclass(frozen=True)
class _Bounds:
    """The ``first`` and ``last`` value that can be read, and the ``words`` of a reason."""

    first: int
    last: int
    words: str


_DATES = _Bounds(_FIRST_DAY, _LAST_DAY, "a date beyond the years 1 to 9999")
_LOCAL_TIMES = _Bounds(_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1, "a time beyond the years 1 to 9999")
_TIMES = _Bounds((_FIRST_DAY + 1) * _DAY, _LAST_DAY * _DAY - 1, "a time beyond 0001-01-02 to 9999-12-30")


@dataclass(frozen=True)
class _Values:
    """Values of one type, of which a record may have many (``is_many``): ``rows`` has the record of each, and
    ``name`` is their path in it."""

    name: str
    array: pa.Array
    rows: Ints
    is_many: bool

    def wrong(self, index: int, words: str, value: str = "") -> tuple[int, str]:
        """The row of a value, and the reason. Of many values none is shown, as in Spark."""
        shown = f": {value}" if value and not self.is_many else ""
        return int(self.rows[index]), f"{self.name} is {words}{shown}"


def unreadable(columns: pa.RecordBatch) -> dict[int, str]:
    """The rows with a value that cannot be read, and the reason, which names the first one by its path.

    Raises TypeError for a column of a type that no table has, ArrowInvalid for a damaged array.
    """
    reasons: dict[int, str] = {}
    rows = np.arange(columns.num_rows)
    for field, column in zip(columns.schema, columns.columns, strict=True):
        for row, reason in _wrong(_Values(field.name, column, rows, is_many=False)):
            reasons.setdefault(row, reason)
    return reasons


def readable_times(times: pa.Array) -> tuple[pa.TimestampArray, dict[int, str]]:
    """The records' times in Kafka, since 1970 in milliseconds (also as plain numbers) or microseconds, as
    microseconds in UTC.

    Null where they cannot be read, as the quarantine can be then; and the reasons of these rows.
    """
    per_second = 1_000_000 if pa.types.is_timestamp(times.type) and times.type.unit == "us" else 1_000
    numbers, micros = times.view(pa.int64()), 1_000_000 // per_second
    is_beyond = _beyond(numbers, _TIMES.first // micros, _TIMES.last // micros)
    if numbers.null_count:
        is_beyond |= numbers.is_null().to_numpy(zero_copy_only=False)
    beyond = np.flatnonzero(is_beyond).tolist()
    texts = [_time_text(numbers[row].as_py(), per_second) for row in beyond]
    reasons = {
        row: f"its timestamp in Kafka is beyond what can be read: {text}"
        for row, text in zip(beyond, texts, strict=True)
    }
    if reasons:
        numbers = pc.if_else(pa.array(is_beyond), None, numbers)
    return pc.multiply(numbers, micros).view(pa.timestamp("us", tz="UTC")), reasons


def _wrong(values: _Values) -> Iterator[tuple[int, str]]:
    """The rows of what cannot be read, and the reasons, in the order of the fields."""
    kind, array = values.array.type, values.array
    if pa.types.is_string(kind):
        yield from _texts(values)
    elif pa.types.is_decimal128(kind):
        yield from _decimals(values)
    elif bounds := _bounds(kind):
        yield from _times(values, bounds)
    elif pa.types.is_struct(kind):
        # Without what lies behind a null.
        for field, column in zip(kind, array.flatten(), strict=True):
            name = f"{field.name} of {values.name}" if values.is_many else f"{values.name}.{field.name}"
            yield from _wrong(_Values(name, column, values.rows, values.is_many))
    elif pa.types.is_list(kind):
        yield from _wrong(_elements(values, array, f"an element of {values.name}"))
    elif pa.types.is_map(kind):
        yield from _entries(values)
    elif kind not in _ALWAYS and not pa.types.is_time(kind) and not pa.types.is_fixed_size_binary(kind):
        raise TypeError(f"{values.name} is of Arrow's type {kind}, which no table has")


def _texts(values: _Values) -> Iterator[tuple[int, str]]:
    try:
        values.array.validate(full=True)
    except pa.ArrowInvalid:
        found = list(_not_utf8(values.array))
        # It is not the texts that are wrong.
        if not found:
            raise
        yield from (values.wrong(index, "not UTF-8") for index in found)


def _not_utf8(texts: pa.StringArray) -> Iterator[int]:
    data, bounds = bytes_of(texts)
    # ASCII is.
    others = bounds[0] + np.flatnonzero(data[bounds[0] : bounds[-1]] > 0x7F)
    for index in np.unique(np.searchsorted(bounds, others, "right") - 1).tolist():
        try:
            data[bounds[index] : bounds[index + 1]].tobytes().decode()
        except UnicodeDecodeError:
            if texts[index].is_valid:
                yield index


def _decimals(values: _Values) -> Iterator[tuple[int, str]]:
    try:
        values.array.validate(full=True)
    except pa.ArrowInvalid:
        found = list(_too_long(values.array))
        if not found:
            raise
        words = f"a decimal of more than {values.array.type.precision} digits"
        yield from (values.wrong(index, words, f"{values.array[index].as_py():f}") for index in found)


def _too_long(decimals: pa.Decimal128Array) -> Iterator[int]:
    limit = 10**decimals.type.precision
    data = memoryview(decimals.buffers()[1])[16 * decimals.offset :]
    for index in range(len(decimals)):
        number = int.from_bytes(data[16 * index : 16 * index + 16], "little", signed=True)
        if abs(number) >= limit and decimals[index].is_valid:
            yield index


def _elements(values: _Values, lists: pa.ListArray, name: str) -> _Values:
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    return _Values(name, lists.flatten(), np.repeat(values.rows, lengths), is_many=True)


def _entries(values: _Values) -> Iterator[tuple[int, str]]:
    kind = values.array.type
    lists = values.array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    entries = _elements(values, lists, values.name)
    keys, items = entries.array.flatten()
    yield from _wrong(_Values(f"a key of {values.name}", keys, entries.rows, is_many=True))
    yield from _wrong(_Values(f"a value of {values.name}", items, entries.rows, is_many=True))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    # Nested keys come only from Spark, which refuses equal ones itself.
    if len(lengths) and lengths.max() > 1 and not pa.types.is_nested(keys.type):
        codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        maps = np.repeat(np.arange(len(lengths)), lengths)
        pairs = maps * len(codes) + codes
        if not np.diff(np.sort(pairs)).all():
            _, firsts = np.unique(pairs, return_index=True)
            for row in np.delete(entries.rows, firsts).tolist():
                yield row, f"two keys of {values.name} are equal"


def _bounds(kind: pa.DataType) -> _Bounds | None:
    if pa.types.is_date32(kind):
        return _DATES
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return _TIMES if kind.tz else _LOCAL_TIMES
    return None


def _times(values: _Values, bounds: _Bounds) -> Iterator[tuple[int, str]]:
    numbers = values.array.view(pa.int32() if bounds is _DATES else pa.int64())
    for index in np.flatnonzero(_beyond(numbers, bounds.first, bounds.last)).tolist():
        number = numbers[index].as_py()
        text = _date_text(number) if bounds is _DATES else _time_text(number, 1_000_000)
        yield values.wrong(index, bounds.words, text)


def _beyond(numbers: pa.Array, first: int, last: int) -> Flags:
    ends = pc.min_max(numbers)
    if not (ends["min"].is_valid and (ends["min"].as_py() < first or ends["max"].as_py() > last)):
        return np.zeros(len(numbers), np.bool_)
    found = numbers.fill_null(first).to_numpy()
    return np.asarray((found < first) | (found > last))


def _time_text(time: int | None, per_second: int) -> str:
    """A time as Spark writes it, of any year."""
    if time is None:
        return "null"
    seconds, fraction = divmod(time, per_second)
    days, second = divmod(seconds, 86_400)
    text = f"{_date_text(days)} {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return text + (f"{fraction / per_second:.6f}"[1:].rstrip("0") if fraction else "")


def _date_text(days: int) -> str:
    day = np.datetime64(days, "D")
    month = day.astype("datetime64[M]")
    years, months = divmod(int(month.astype(np.int64)), 12)
    year = 1970 + years
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{months + 1:02d}-{int((day - month).astype(np.int64)) + 1:02d}"
