"""One record by the standard library's parser, which is the reference of what is JSON."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from sluice.core.decoding.decoder import TOMBSTONE, Malformed
from sluice.core.decoding.wire_formats import wire_format

# The parser calls itself for each level, and Python's stack ends at about 1,000 levels.
MAX_DEPTH = 500
NESTED_TOO_DEEPLY = f"nested too deeply: more than {MAX_DEPTH} levels"
WHITE_SPACE = " \t\r\n"
_MAX_SHOWN = 100
# A text, or a bracket outside of texts. A text without an end goes to the end of all, so that no position is
# looked at twice.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


class Number(str):
    """A number's literal: it says more than a float or a decimal."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """An object's keys and values in their order; a key may be there twice."""


def members(value: bytes | None) -> tuple[str, Members]:
    """The text that a record is, and the members of the object in it: texts, Numbers, booleans, None, lists,
    Members. Raises Malformed."""
    if value is None:
        raise Malformed(TOMBSTONE)
    text, found = parsed(value)
    if not isinstance(found, Members):
        raise Malformed(f"not a JSON object: it is {described(found)}")
    return text, found


def parsed(value: bytes) -> tuple[str, Any]:
    """The text that a value is, and the one JSON value in it. Raises Malformed."""
    stripped = value.strip(WHITE_SPACE.encode())
    if not stripped.startswith(b"{"):
        framed = wire_format(value) if stripped else "it is empty"
        if framed:
            raise Malformed(f"not JSON: {framed}")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: byte {error.object[error.start]:02X} at {error.start + 1}") from None
    if text.startswith("\ufeff"):
        raise Malformed("not JSON: it starts with a byte order mark")
    if text.count("[") + text.count("{") > MAX_DEPTH and deepest(text) > MAX_DEPTH:
        raise Malformed(NESTED_TOO_DEEPLY)
    found, end = _value(text, _after_space(text, 0))
    if end < len(text):
        raise Malformed(_behind(text, end))
    return text, found


def described(found: object) -> str:
    """A JSON value for a reason, as it may have been sent; at most _MAX_SHOWN characters of it."""
    if isinstance(found, str):
        cut = found[:_MAX_SHOWN]
        shown = cut if isinstance(found, Number) else json.dumps(cut, ensure_ascii=False)
        return f"{shown}…" if len(found) > _MAX_SHOWN else shown
    if found is None or isinstance(found, bool):
        return json.dumps(found)
    return "an object" if isinstance(found, Members) else "an array"


def _value(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and the position behind it and the white space that follows."""
    try:
        found, end = PARSER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise Malformed(f"not JSON: {error.msg} (character {error.pos + 1})") from None
    except RecursionError:
        raise Malformed(NESTED_TOO_DEEPLY) from None
    return found, _after_space(text, end)


def _behind(text: str, end: int) -> str:
    """The reason for text behind the value."""
    try:
        _value(text, end)
    except Malformed:
        return f"not JSON: text behind the value (character {end + 1})"
    return "more than one JSON value"


def _after_space(text: str, start: int) -> int:
    return len(text) - len(text[start:].lstrip(WHITE_SPACE))


def deepest(text: str) -> int:
    """How deep the brackets outside of texts are nested, valid or not."""
    depth = most = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            most = max(most, depth)
        elif token[0] in ("]", "}"):
            depth -= 1
    return most


def _constant(literal: str) -> NoReturn:
    raise Malformed(f"not JSON: {literal} is not a number")


PARSER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=_constant
)
