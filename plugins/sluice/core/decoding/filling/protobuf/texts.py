"""A value of a message's field out of its JSON text: the inverse of ``protobuf.json_text``.

Of the fields whose column has no fields of its own. Values are in the form of ``messages.fields_of``.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.filling.from_json import Members, NotWritten, Number, written
from sluice.core.decoding.protobuf.json_text import single_text
from sluice.core.decoding.protobuf.messages import ReadMessage
from sluice.core.decoding.protobuf.types import WRAPPERS, is_map, scalar_kind

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_SECOND = 1_000_000_000
# Digits of a second in a text of microseconds, and in one of nanoseconds.
_MICROS, _NANOS = 6, 9
# Kinds of whole numbers -> the first, and the one behind the last.
_WHOLE = {
    "int": (-(1 << 31), 1 << 31),
    "uint": (0, 1 << 32),
    "long": (-(1 << 63), 1 << 63),
    "ulong": (0, 1 << 64),
}


def single(source: FieldDescriptor, value: Any) -> Any:
    """One value of a field, whose text ``from_json.read`` gave as ``value``. Raises NotWritten if no value of
    the field has this text."""
    kind = scalar_kind(source)
    try:
        if kind in _TIMES:
            seconds, nanos = _TIMES[kind](_checked(value, str))
            found: Any = ReadMessage({1: seconds, 2: nanos})
        elif source.message_type is not None and source.message_type.full_name in WRAPPERS:
            found = ReadMessage({1: _scalar(source.message_type.fields_by_number[1], kind, value)})
        else:
            found = _scalar(source, kind, value)
        text = single_text(source, found)
    except (ValueError, OverflowError, InvalidOperation, Malformed) as error:
        raise NotWritten from error
    # What is not the same in all of its digits is another value's.
    if text != written(value):
        raise NotWritten
    return found


def key(source: FieldDescriptor, text: str) -> Any:
    """The key of a map's entry, of the name of a member. Raises NotWritten."""
    kind = scalar_kind(source)
    if kind == "string":
        return text
    if kind == "bool":
        if text not in ("true", "false"):
            raise NotWritten
        return text == "true"
    try:
        found = _whole(kind, int(text))
    except ValueError as error:
        raise NotWritten from error
    if str(found) != text:
        raise NotWritten
    return found


def may_be(source: FieldDescriptor, value: Any) -> bool:
    """Whether a value may be one of the field, by its outer form."""
    if is_map(source):
        return type(value) is Members
    values = value if source.is_repeated else [value]
    if type(values) is not list:
        return False
    kind = scalar_kind(source)
    if kind == "struct":
        names = source.message_type.fields_by_name
        return all(
            type(one) is Members and all(n in names or n.isdecimal() for n, _ in one) for one in values
        )
    return kind == "json" or all(_is_one(source, one) for one in values)


def _are_of(message: Descriptor, members: Members) -> bool:
    return all(name in message.fields_by_name or name.isdecimal() for name, _ in members)


def _is_one(source: FieldDescriptor, value: Any) -> bool:
    try:
        single(source, value)
    except NotWritten:
        return False
    return True


def _scalar(source: FieldDescriptor, kind: str, value: Any) -> Any:
    if kind in _WHOLE:
        return _whole(kind, _checked(value, int))
    if kind == "enum":
        numbers = {one.name: one.number for one in source.enum_type.values}
        return numbers[value] if _checked(value, str) in numbers else _whole("int", int(value))
    if kind in ("float", "double"):
        if type(value) not in (Number, str):
            raise NotWritten
        # Rounded once, from the decimal digits.
        return float(np.float32(value)) if kind == "float" else float(value)
    if kind == "bytes":
        return binascii.a2b_base64(_checked(value, str), strict_mode=True)
    if kind not in ("bool", "string"):
        raise NotWritten
    return _checked(value, bool if kind == "bool" else str)


def _checked(value: Any, kind: type) -> Any:
    # A Number is a text to Python, and true a whole number.
    if type(value) is not kind:
        raise NotWritten
    return value


def _whole(kind: str, value: int) -> int:
    first, end = _WHOLE[kind]
    if not first <= value < end:
        raise NotWritten
    return value


def _time(text: str) -> tuple[int, int]:
    whole, _, digits = text.removesuffix("Z").partition(".")
    if len(digits) not in (_MICROS, _NANOS):
        raise NotWritten
    at = datetime.fromisoformat(whole).replace(tzinfo=UTC)
    micros = (at - _EPOCH) // _MICROSECOND
    return micros // 1_000_000, int(f"{digits:0<{_NANOS}}")


def _length(text: str) -> tuple[int, int]:
    nanos = int(Decimal(text).scaleb(_NANOS))
    # Both have the sign of the whole.
    sign = -1 if nanos < 0 else 1
    seconds, rest = divmod(abs(nanos), _SECOND)
    return sign * seconds, sign * rest


_TIMES: dict[str, Callable[[str], tuple[int, int]]] = {"timestamp": _time, "duration": _length}
