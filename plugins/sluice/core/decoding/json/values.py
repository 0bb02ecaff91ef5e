"""A JSON value as a column's, or why it is none."""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.json.columns import Column
from sluice.core.decoding.json.document import Number, described

_WHOLE = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6})([0-9]*))?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# As Java's and Spark's.
_MAX_OFFSET = timedelta(hours=18)
_EXACT = Context(prec=100, Emax=999_999, Emin=-999_999, traps=[Inexact, InvalidOperation])


def value_of(column: Column, found: object) -> Any:
    """What a column has of a JSON value, as ``pa.Array.to_pylist`` gives it. Raises Malformed."""
    if found is None:
        return None
    is_text = isinstance(found, str) and not isinstance(found, Number)
    if is_text and _SURROGATE.search(str(found)):
        raise Malformed(
            f"{column.name} has half of a surrogate pair (an escape of D800 to DFFF alone), "
            f"not {column.words}"
        )
    try:
        return _READERS[column.kind](column, found)
    except (ValueError, OverflowError):
        raise Malformed(f"{column.name} is {described(found)}, not {column.words}") from None


def _boolean(column: Column, found: object) -> bool:
    if not isinstance(found, bool):
        raise ValueError(found)
    return found


def _whole(column: Column, found: object) -> int:
    literal = _number(found)
    # 19 digits and a sign; a longer one is none of 64 bits, and Python converts no more than 4,300.
    if len(literal) > 20 or not _WHOLE.fullmatch(literal):
        raise ValueError(literal)
    value, limit = int(literal), 1 << (column.type.bit_width - 1)
    if not -limit <= value < limit:
        raise ValueError(literal)
    return value


def _float(column: Column, found: object) -> float:
    literal = _number(found)
    value = float(literal)
    if column.kind == "float":
        value = _nearest_float(literal, value)
    if math.isinf(value):
        raise ValueError(literal)
    return value


def _nearest_float(literal: str, nearest: float) -> float:
    """The nearest number of 32 bits; ``nearest`` is that of 64 bits. Rounding twice could move a literal to
    the middle of two, and from there away from it: so the first step rounds to odd."""
    if nearest and not math.isinf(nearest):
        exact, rounded = Decimal(literal), Decimal(nearest)
        if exact != rounded and not np.float64(nearest).view(np.int64) & 1:
            nearest = math.nextafter(nearest, math.inf if exact > rounded else -math.inf)
    with np.errstate(over="ignore"):
        return float(np.float32(nearest))


def _decimal(column: Column, found: object) -> Decimal:
    literal = found if isinstance(found, str) else _number(found)
    if not _DECIMAL.fullmatch(literal):
        raise ValueError(literal)
    precision, scale = column.type.precision, column.type.scale
    try:
        value = Decimal(literal)
        if value and value.adjusted() >= precision - scale:
            raise ValueError(literal)
        fixed = (value or Decimal(0)).quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except ArithmeticError:
        raise ValueError(literal) from None
    return fixed


def _text(column: Column, found: object) -> str:
    if not isinstance(found, str) or isinstance(found, Number):
        raise ValueError(found)
    return found


def _binary(column: Column, found: object) -> bytes:
    return from_base64(_text(column, found))


def from_base64(text: str) -> bytes:
    """The bytes of base64 in its canonical form. Raises ValueError."""
    value = binascii.a2b_base64(text, strict_mode=True)
    if binascii.b2a_base64(value, newline=False) != text.encode():
        raise ValueError(text)
    return value


def _date(column: Column, found: object) -> date:
    text = _text(column, found)
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _timestamp(column: Column, found: object) -> datetime:
    parts = _TIME.fullmatch(_text(column, found))
    is_local = column.kind == "timestamp_ntz"
    if parts is None or (parts[4] and parts[4].strip("0")) or (parts[5] is None) != is_local:
        raise ValueError(found)
    day, time, micros, _, zone = parts.groups()
    value = datetime.fromisoformat(f"{day}T{time}.{micros or '0':0<6}")
    if is_local:
        return value
    return (value.replace(tzinfo=UTC) - _offset(zone)).replace(tzinfo=UTC)


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[4:])
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _MAX_OFFSET:
        raise ValueError(zone)
    return -offset if zone[0] == "-" else offset


def _number(found: object) -> str:
    if not isinstance(found, Number):
        raise ValueError(found)
    return found


_READERS: Mapping[str, Callable[[Column, object], Any]] = {
    "boolean": _boolean,
    "int": _whole,
    "bigint": _whole,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
}
