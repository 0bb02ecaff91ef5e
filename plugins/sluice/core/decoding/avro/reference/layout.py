"""Whether one body is laid out as its schema says, and if not why: the words of its rejection.

fastavro, which reads the values, takes more than the format allows: what is behind a body, a negative place
of a branch, a number that is too large for an int or has more bytes than it must, any byte for false, a map's
key twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sluice.core.decoding.avro.types import AGAIN, RECURSIVE, Schema, Type, min_bytes
from sluice.core.decoding.wire_formats import wire_format

BEYOND = "a value is beyond its type, or a map's key is there twice or not UTF-8"
# Arrays and maps of a schema that contains itself have no bound of their own.
NESTED = "its values are nested too deeply"
# A value that reaches further beyond the body's end than this is no sign of a body that was cut.
_MAX_MISSING = 65_536
# Records inside of each other where a schema contains itself, as Google's library has it of messages.
MAX_LEVELS = 100
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


class _Cut(Exception):
    """The body ends before its last field does."""


class _Other(Exception):
    """The bytes are no body of the schema."""


class _Deep(Exception):
    """Records are inside of too many others."""


class _Body:
    """One body, read from its start. ``is_beyond``: whether a value is beyond its type. ``not_text``: the
    path of the first text that is not UTF-8. ``level``: records of a recursive type that it is in;
    ``too_deep``: the path of one that is in too many."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.level = data, 0, 0
        self.is_beyond, self.not_text, self.too_deep = False, "", ""

    def number(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data):
                raise _Cut
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise _Other
        if (shift and not byte) or value >> 64:
            self.is_beyond = True
        value &= (1 << 64) - 1
        return (value >> 1) ^ -(value & 1)

    def bytes(self, size: int) -> bytes:
        missing = size - (len(self.data) - self.at)
        if size < 0 or missing > _MAX_MISSING:
            raise _Other
        if missing > 0:
            raise _Cut
        self.at += size
        return self.data[self.at - size : self.at]

    def items(self, least: int) -> Iterator[None]:
        """One for each item, which are read between two."""
        while count := self.number():
            if count < 0:
                count = -count
                # The size of the block, which readers may skip it by.
                self.number()
            if count * least - (len(self.data) - self.at) > _MAX_MISSING:
                raise _Other
            for _ in range(count):
                yield


_Walk = Callable[[_Body], None]
# The walks of what a recursive type defines, by its names.
_Named = dict[str, _Walk]


class Layout:
    """The layout of a schema's bodies."""

    def __init__(self, schema: Schema) -> None:
        self._title, self._walk = schema.title, _walk(schema.record, "", in_items=False)

    def why_malformed(self, value: bytes) -> str | None:
        """Why a body is not accepted, None if it is."""
        body, why = _Body(value), ""
        try:
            self._walk(body)
            behind = len(value) - body.at
            if behind:
                why = f"{behind} bytes are behind the body of {self._title}"
            elif body.is_beyond:
                why = BEYOND
            else:
                return f"{body.not_text} is not UTF-8" if body.not_text else None
        except _Cut:
            why = "it ends before its last field does"
        except _Other:
            pass
        except _Deep:
            many = f"more than {MAX_LEVELS} records inside of each other"
            return f"not an Avro body of {self._title}: {body.too_deep} has {many}"
        except RecursionError:
            return f"not an Avro body of {self._title}: {NESTED}"
        if not value:
            why = "it is empty"
        elif framed := wire_format(value):
            why = f"{framed}; or {why}" if why else framed
        elif not why and value[:1] in (b"{", b"["):
            why = "it seems to be JSON"
        named = f"not an Avro body of {self._title}"
        return f"{named}: {why}" if why else named


def _walk(kind: Type, path: str, *, in_items: bool, named: _Named | None = None) -> _Walk:
    """``path``: the value's, as a reason names it; ``in_items``: whether it is within an array or map;
    ``named``: within a recursive type, whose values all have its path."""
    if kind.kind == RECURSIVE:
        return _walk(kind.item, path, in_items=in_items, named={})
    if named is not None:
        return _in_recursive(kind, path, named)
    if kind.kind == "record":
        return _record(
            [_walk(f.type, _inner(path, f.name, in_items=in_items), in_items=in_items) for f in kind.fields]
        )
    if kind.kind == "union":
        return _union(kind, path, in_items=in_items)
    if kind.kind == "array":
        return _array(_walk(kind.item, f"an element of {path}", in_items=True), min_bytes(kind.item))
    if kind.kind == "map":
        return _map(_walk(kind.item, f"a value of {path}", in_items=True), 1 + min_bytes(kind.item))
    return _single(kind, path)


def _in_recursive(kind: Type, path: str, named: _Named) -> _Walk:
    def inner(part: Type) -> _Walk:
        return _walk(part, path, in_items=True, named=named)

    if kind.kind == AGAIN:
        return lambda body: named[kind.name](body)
    if kind.kind == "union":
        return _branches([inner(branch) for branch in kind.branches])
    if kind.kind == "array":
        return _array(inner(kind.item), min_bytes(kind.item))
    if kind.kind == "map":
        return _map(inner(kind.item), 1 + min_bytes(kind.item))
    is_record = kind.kind == "record"
    found = _level([inner(one.type) for one in kind.fields], path) if is_record else _single(kind, path)
    if kind.name:
        named[kind.name] = found
    return found


def _level(fields: list[_Walk], path: str) -> _Walk:
    def walk(body: _Body) -> None:
        body.level += 1
        if body.level > MAX_LEVELS:
            body.too_deep = path
            raise _Deep
        for field in fields:
            field(body)
        body.level -= 1

    return walk


def _single(kind: Type, path: str) -> _Walk:
    if kind.logical == "decimal":
        return _decimal(kind)
    if kind.kind == "enum":
        return _enum(len(kind.symbols))
    if kind.kind == "string":
        return _text(path)
    if kind.kind in ("int", "long"):
        return _number(kind)
    if kind.kind == "boolean":
        return _boolean
    if kind.kind == "bytes":
        return _bytes
    sizes = {"null": 0, "fixed": kind.size, "float": 4, "double": 8}
    return _sized(sizes[kind.kind])


def _inner(path: str, name: str, *, in_items: bool) -> str:
    return name if not path else f"{name} of {path}" if in_items else f"{path}.{name}"


def _record(fields: list[_Walk]) -> _Walk:
    def walk(body: _Body) -> None:
        for field in fields:
            field(body)

    return walk


def _union(kind: Type, path: str, *, in_items: bool) -> _Walk:
    is_several = len(kind.values) > 1 and not kind.is_widened
    branches, member = list[_Walk](), 0
    for branch in kind.branches:
        named = _inner(path, f"member{member}", in_items=in_items) if is_several else path
        branches.append(_walk(branch, named, in_items=in_items))
        member += branch.kind != "null"
    return _branches(branches)


def _branches(branches: list[_Walk]) -> _Walk:
    def walk(body: _Body) -> None:
        place = body.number()
        if not 0 <= place < len(branches):
            raise _Other
        branches[place](body)

    return walk


def _array(item: _Walk, least: int) -> _Walk:
    def walk(body: _Body) -> None:
        for _ in body.items(least):
            item(body)

    return walk


def _map(value: _Walk, least: int) -> _Walk:
    def walk(body: _Body) -> None:
        keys = set()
        for count, _ in enumerate(body.items(least), 1):
            key = body.bytes(body.number())
            keys.add(key)
            if len(keys) < count or not _is_utf8(key):
                body.is_beyond = True
            value(body)

    return walk


def _enum(count: int) -> _Walk:
    def walk(body: _Body) -> None:
        if not 0 <= body.number() < count:
            raise _Other

    return walk


def _text(path: str) -> _Walk:
    def walk(body: _Body) -> None:
        if not _is_utf8(body.bytes(body.number())):
            body.not_text = body.not_text or path

    return walk


def _number(kind: Type) -> _Walk:
    most = (1 << 31) - 1 if kind.kind == "int" else (1 << 63) - 1
    scale = 1000 if kind.logical in _MILLIS else 1

    def walk(body: _Body) -> None:
        if not ~most <= body.number() * scale <= most:
            body.is_beyond = True

    return walk


def _boolean(body: _Body) -> None:
    if body.bytes(1) > b"\x01":
        body.is_beyond = True


def _bytes(body: _Body) -> None:
    body.bytes(body.number())


def _sized(size: int) -> _Walk:
    def walk(body: _Body) -> None:
        body.bytes(size)

    return walk


def _decimal(kind: Type) -> _Walk:
    most = 10 ** kind.digits[0]

    def walk(body: _Body) -> None:
        number = body.bytes(kind.size if kind.kind == "fixed" else body.number())
        if not number or abs(int.from_bytes(number, "big", signed=True)) >= most:
            body.is_beyond = True

    return walk


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
