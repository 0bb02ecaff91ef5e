"""A value of a writer's type out of its JSON text: the inverse of ``unknown.json_values``.

Values are in the form of ``reference.values``, as a resolver takes them.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from sluice.core.decoding.avro.reference.values import arrow_value
from sluice.core.decoding.avro.types import RECURSIVE, Type
from sluice.core.decoding.avro.unknown.json_values import joined, text_of

_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_BITS = {"int": 31, "long": 63}
_MICROSECOND = timedelta(microseconds=1)
# Reasons have nothing of a value: each is counted by itself.
OTHER_TEXT = "not the text of further fields"
IN_ITSELF = "its type contains itself, and is not read back from a text"


class Members(tuple[tuple[str, Any], ...]):
    """Names and values of an object, in their order: a map may have a key twice."""

    __slots__ = ()


class Number(str):
    """A number that is not whole, as it was written."""

    __slots__ = ()


class NotWritten(ValueError):
    """No value of the type has this text."""


class Undecided(ValueError):
    """Values of two branches of a union have this text."""


def read(text: str) -> Members:
    """The members of an object. Raises NotWritten for another text."""
    try:
        found = json.loads(text, object_pairs_hook=Members, parse_float=Number)
    except (ValueError, RecursionError) as error:
        raise NotWritten(OTHER_TEXT) from error
    if not isinstance(found, Members):
        raise NotWritten(OTHER_TEXT)
    return found


def written(value: Any) -> str:
    """The text of a value that :func:`read` gave."""
    if isinstance(value, Members):
        return joined((name, written(one)) for name, one in value)
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return value if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


def raw(kind: Type, value: Any) -> Any:
    """The value of ``kind`` whose text :func:`read` gave as ``value``. Raises NotWritten, Undecided."""
    if value is None and (kind.kind == "null" or any(one.kind == "null" for one in kind.branches)):
        return None
    kind = kind.optional
    if kind.kind == RECURSIVE:
        raise Undecided(IN_ITSELF)
    if kind.kind == "union":
        return _of_union(kind, value)
    if kind.kind == "record":
        names = [field.name for field in kind.fields]
        if [name for name, _ in _checked(value, Members)] != names:
            raise NotWritten
        return {field.name: raw(field.type, one) for field, (_, one) in zip(kind.fields, value, strict=True)}
    if kind.kind == "array":
        return [raw(kind.item, one) for one in _checked(value, list)]
    if kind.kind == "map":
        return [{"key": key, "value": raw(kind.item, one)} for key, one in _checked(value, Members)]
    return _plain(kind, value)


def _of_union(kind: Type, value: Any) -> Any:
    if kind.is_widened:
        # As the wider of the two, which has the same numbers.
        wider = next(one for one in kind.values if one.kind in ("long", "double"))
        return {f"member{kind.values.index(wider)}": raw(wider, value)}
    found = []
    for place, branch in enumerate(kind.values):
        try:
            found.append({f"member{place}": raw(branch, value)})
        except NotWritten:
            continue
    if len(found) > 1:
        raise Undecided(f"it may be of {len(found)} branches of the union")
    if not found:
        raise NotWritten
    return found[0]


def _plain(kind: Type, value: Any) -> Any:
    found: Any
    try:
        if kind.logical == "decimal":
            found = _decimal(kind, value)
        elif kind.logical:
            found = _time(kind, value)
        else:
            found = _PLAIN[kind.kind](kind, value)
        text = text_of(kind)(arrow_value(kind, found))
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise NotWritten from error
    # What is not the same in all of its digits is another value's.
    if text != written(value):
        raise NotWritten
    return found


def _checked(value: Any, kind: type) -> Any:
    # A Number is a text to Python, and true a whole number.
    if type(value) is not kind:
        raise NotWritten
    return value


def _whole(kind: Type, value: Any) -> int:
    found: int = _checked(value, int)
    bits = _BITS[kind.kind]
    if not -(1 << bits) <= found < 1 << bits:
        raise NotWritten
    return found


def _float(kind: Type, value: Any) -> float:
    if type(value) not in (Number, str):
        raise NotWritten
    # Rounded once, from the decimal digits.
    return float(np.float32(value)) if kind.kind == "float" else float(value)


def _bytes(kind: Type, value: Any) -> bytes:
    found = binascii.a2b_base64(_checked(value, str), strict_mode=True)
    if kind.kind == "fixed" and len(found) != kind.size:
        raise NotWritten
    return found


def _symbol(kind: Type, value: Any) -> str:
    found: str = _checked(value, str)
    if found not in kind.symbols:
        raise NotWritten
    return found


def _decimal(kind: Type, value: Any) -> bytes:
    number, scale = Decimal(_checked(value, str)), kind.digits[1]
    sign, digits, exponent = number.as_tuple()
    if exponent != -scale:
        raise NotWritten
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = kind.size if kind.kind == "fixed" else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _time(kind: Type, value: Any) -> int:
    if kind.logical == "date":
        return value if type(value) is int else (date.fromisoformat(_checked(value, str)) - _DAY).days
    if type(value) is int:
        micros: int = value
    else:
        at = datetime.fromisoformat(_checked(value, str))
        micros = (at.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    # The text is compared with that of the result, so less than a millisecond is lost by none.
    return micros // 1000 if kind.logical.endswith("millis") else micros


_PLAIN: dict[str, Callable[[Type, Any], Any]] = {
    "boolean": lambda kind, value: _checked(value, bool),
    "int": _whole,
    "long": _whole,
    "float": _float,
    "double": _float,
    "bytes": _bytes,
    "fixed": _bytes,
    "string": lambda kind, value: _checked(value, str),
    "enum": _symbol,
}
