"""Values of a type as JSON, one by one, in the form of :func:`arrow_value`."""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from sluice.core.decoding.avro.types import JSON, RECURSIVE, Type

Text = Callable[[Any], str]
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
# The first and the last that Python has, in days and microseconds since 1970.
READABLE = {
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
    first, last = READABLE["date"]
    return f'"{_DAY + timedelta(days=days)}"' if first <= days <= last else str(days)


def _time(is_local: bool) -> Callable[[int], str]:
    first, last = READABLE["timestamp"]
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
    # Texts of JSON already.
    RECURSIVE: str,
    JSON: str,
}
