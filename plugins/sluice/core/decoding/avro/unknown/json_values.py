"""Values of a type as JSON: one by one, in the form of :func:`arrow_value`, and those of a column."""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.types import Type, without_times

Text = Callable[[Any], str]
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
# Characters that JSON escapes in a text.
_ESCAPED = '["\\\\\\x00-\\x1f]'
# The first and the last that Python has, in days and microseconds since 1970.
_READABLE = {
    "date": (-719_162, 2_932_896),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}


def text_of(kind: Type) -> Text:
    """The function from a value, which may be None, to its JSON text."""
    inner = _not_null(kind.optional)
    return lambda value: "null" if value is None else inner(value)


def _not_null(kind: Type) -> Text:
    if kind.kind == "union":
        return _of_union(kind)
    if kind.logical == "decimal":
        return lambda value: f'"{value:f}"'
    if kind.logical:
        return _date if kind.logical == "date" else _time(kind.logical.startswith("local-"))
    if kind.kind == "record":
        return _of_record(kind)
    if kind.kind == "array":
        item = text_of(kind.item)
        return lambda value: f"[{','.join(map(item, value))}]"
    if kind.kind == "map":
        entry = text_of(kind.item)
        return lambda value: joined((key, entry(one)) for key, one in value)
    return _PLAIN[kind.kind]


def joined(members: Any) -> str:
    """An object of names and JSON texts."""
    return "{%s}" % ",".join(f"{_text(name)}:{text}" for name, text in members)  # noqa: UP031  (braces)


def _of_record(kind: Type) -> Text:
    fields = [(field.name, text_of(field.type)) for field in kind.fields]
    return lambda value: joined((name, of(value[name])) for name, of in fields)


def _of_union(kind: Type) -> Text:
    if not kind.values:
        return _null
    if kind.is_widened:
        return _whole if kind.values[0].kind in ("int", "long") else _double
    members = {f"member{n}": text_of(branch) for n, branch in enumerate(kind.values)}

    def text(value: Any) -> str:
        # A column has the members of the other branches, as nulls.
        return next((of(value[name]) for name, of in members.items() if value.get(name) is not None), "null")

    return text


def _null(value: Any) -> str:
    return "null"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _whole(value: int) -> str:
    return str(value)


def _double(value: float) -> str:
    return repr(value) if math.isfinite(value) else _not_finite(value)


def _float(value: float) -> str:
    # The shortest text of 32 bits, which is no text of the same number in 64.
    return str(np.float32(value)) if math.isfinite(value) else _not_finite(value)


def _not_finite(value: float) -> str:
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _bytes(value: bytes) -> str:
    return f'"{binascii.b2a_base64(value, newline=False).decode()}"'


def _date(days: int) -> str:
    first, last = _READABLE["date"]
    return f'"{_DAY + timedelta(days=days)}"' if first <= days <= last else str(days)


def _time(is_local: bool) -> Callable[[int], str]:
    first, last = _READABLE["timestamp"]
    zone = "" if is_local else "Z"

    def text(micros: int) -> str:
        if not first <= micros <= last:
            return str(micros)
        time = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)
        return f'"{time.isoformat(timespec="microseconds")}{zone}"'

    return text


_PLAIN: dict[str, Text] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "fixed": _bytes,
    "string": _text,
    "enum": _text,
}


def texts_of(kind: Type) -> Callable[[pa.Array], pa.StringArray]:
    """The function from a column of the type to its JSON texts, none of which is null."""
    optional, one = kind.optional, text_of(kind)

    def one_by_one(column: pa.Array) -> pa.StringArray:
        values = column.cast(without_times(column.type)).to_pylist()
        return pa.array(map(one, values), pa.utf8(), size=len(values))

    if optional.logical in ("decimal", ""):
        fast = _COLUMNS.get("" if optional.logical else optional.kind)
    else:
        fast = _times
    if fast is None:
        return one_by_one

    def texts(column: pa.Array) -> pa.StringArray:
        found = fast(column)
        return one_by_one(column) if found is None else pc.fill_null(found, "null")

    return texts


def _numbers(column: pa.Array) -> pa.StringArray | None:
    return column.cast(pa.utf8())


def _texts(column: pa.Array) -> pa.StringArray | None:
    escaped = pc.match_substring_regex(column, _ESCAPED)
    found = pc.binary_join_element_wise('"', column, '"', "")
    if not pc.any(escaped).as_py():
        return found
    mask = pc.fill_null(escaped, False)
    values = column.filter(mask).to_pylist()
    return pc.replace_with_mask(found, mask, pa.array(map(_text, values), pa.utf8(), size=len(values)))


def _times(column: pa.Array) -> pa.StringArray | None:
    is_date = pa.types.is_date(column.type)
    first, last = _READABLE["date" if is_date else "timestamp"]
    ends = pc.min_max(column.view(pa.int32() if is_date else pa.int64()))
    if ends["min"].is_valid and (ends["min"].as_py() < first or ends["max"].as_py() > last):
        return None
    texts = column.cast(pa.utf8())
    if not is_date:
        texts = pc.replace_substring(texts, " ", "T")
    return pc.binary_join_element_wise('"', texts, '"', "")


# By kind: those of which all values are written at once; None of a column for which that does not do.
_COLUMNS: dict[str, Callable[[pa.Array], pa.StringArray | None]] = {
    "boolean": _numbers,
    "int": _numbers,
    "long": _numbers,
    "string": _texts,
    "enum": _texts,
}
