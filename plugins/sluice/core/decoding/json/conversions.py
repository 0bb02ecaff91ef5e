"""What Arrow's parser read into a column's type, all rows at once, and the rows that are odd: they have a
value that the reference must judge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.json.columns import Column
from sluice.core.decoding.json.parts import Flags, in_parts
from sluice.core.decoding.json.values import from_base64

_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
_PATTERNS = {
    "date": _DAY + "$",
    "timestamp": _DAY + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$",
    "timestamp_ntz": _DAY + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
}
_SECONDS = b"0000-00-00T00:00:00"
# The usual forms of each, with digits as 0: texts of one length have one.
_USUAL = {
    "date": [b"0000-00-00"],
    "timestamp": [_SECONDS + rest for rest in (b"Z", b".000Z", b".000000Z")],
    "timestamp_ntz": [_SECONDS + rest for rest in (b"", b".000", b".000000")],
}
# Days since 1970 of the first of year 1 and of year 10000.
_FIRST_DAY, _END = -719_162, 2_932_897
_MICROS = 86_400_000_000
# A cast costs less than a record by the reference.
_MAX_FAILURES = 1 / 8


def converted(column: Column, read: pa.Array) -> tuple[pa.Array, Flags]:
    """The column of its type, and whether a row is odd; an odd row's value is of no use."""
    if column.kind in ("float", "double"):
        # Arrow reads NaN and Infinity, and a number without exponent beyond the range as infinite.
        return read, _flags(pc.invert(pc.is_finite(read)))
    if column.kind == "decimal":
        return cast(read, column.type)
    if column.kind == "binary":
        return _binary(read)
    if column.kind in _PATTERNS:
        return _time(column, read)
    return read, np.zeros(len(read), np.bool_)


def cast(array: pa.Array, to: pa.DataType) -> tuple[pa.Array, Flags]:
    """Cast, and whether a row is odd: it has a value that cannot be cast, or is a neighbour; it is null."""
    parts, is_odd = in_parts(
        array, lambda part: part.cast(to), lambda rows: pa.nulls(rows, to), _MAX_FAILURES
    )
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), is_odd


def _time(column: Column, texts: pa.Array) -> tuple[pa.Array, Flags]:
    # Arrow takes more forms: without seconds, with an offset of hours, year 0.
    if _are_usual(texts, column.kind):
        matches = pa.repeat(True, len(texts))
    else:
        matches = pc.match_substring_regex(texts, _PATTERNS[column.kind])
        if pc.any(pc.invert(matches)).as_py():
            # Nanoseconds of which the last are zeros, as Go and Java write them.
            texts = pc.replace_substring_regex(pc.ascii_upper(texts), r"(\.[0-9]{6})0+(Z|[+-]|$)", r"\1\2")
            matches = pc.match_substring_regex(texts, _PATTERNS[column.kind])
        texts = pc.if_else(matches, texts, None)
    values, is_odd = cast(texts, column.type)
    is_date = column.kind == "date"
    numbers = values.view(pa.int32() if is_date else pa.int64())
    unit = 1 if is_date else _MICROS
    is_beyond = pc.or_(pc.less(numbers, _FIRST_DAY * unit), pc.greater_equal(numbers, _END * unit))
    return values, is_odd | _flags(is_beyond) | _flags(pc.invert(matches))


def _are_usual(texts: pa.Array, kind: str) -> bool:
    """Whether all that are not null have one of the usual forms: a tenth of the cost of a pattern."""
    texts = texts.drop_null()
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return not len(texts)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    size = int(bounds[1] - bounds[0])
    form = next((one for one in _USUAL[kind] if len(one) == size), None)
    if form is None or not (np.diff(bounds) == size).all():
        return False
    rows = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]].reshape(len(texts), size)
    least = np.frombuffer(form, np.uint8)
    # Unsigned: what is less than the least is far more.
    return bool((rows - least <= np.where(least == ord("0"), 9, 0).astype(np.uint8)).all())


def _binary(texts: pa.Array) -> tuple[pa.Array, Flags]:
    is_odd = np.zeros(len(texts), np.bool_)
    values: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else from_base64(text))
        except ValueError:
            values.append(None)
            is_odd[row] = True
    return pa.array(values, pa.binary()), is_odd


def _flags(array: pa.BooleanArray) -> Flags:
    """Null is false."""
    flags: Flags = array.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
