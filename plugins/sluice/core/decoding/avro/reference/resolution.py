"""A value of an earlier schema as one of the current schema, by Avro's rules ("Schema Resolution" in
https://avro.apache.org/docs/1.12.0/specification/), as Avro's Java library has them.

Values are in the form of :mod:`values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro import meaning
from sluice.core.decoding.avro.reference.values import arrow_value, json_text
from sluice.core.decoding.avro.types import JSON, RECURSIVE, Field, Type, arrow_type

Resolve = Callable[[Any], Any]
# By a writer's type: the types that it may be read as, beside itself.
PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
# What JSON has for a default, if no text.
_JSON: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "record": (dict,),
    "map": (dict,),
    "array": (list,),
}


class Unresolvable(ValueError):
    """A value of the writer's schema, or each of its values, is none of the current schema."""


def resolver(writer: Type, reader: Type, path: str = "") -> Resolve:
    """The function from values of ``writer`` to values of ``reader``. Raises Unresolvable if it has no
    results; so does the function for a value that it has no result for."""
    if writer == reader:
        return _same
    if writer.kind == "union":
        return _from_union(writer, reader, path)
    if reader.kind == "union":
        return _into_union(writer, reader, path)
    if reader.kind == JSON:
        return _as_json(writer, path)
    if not meaning.is_same(writer, reader):
        raise Unresolvable(f"{path} is {meaning.why_not(writer, reader)}")
    if meaning.is_decimal(writer, reader):
        return _decimal(reader, path)
    if meaning.is_millis(writer, reader):
        return lambda value: value * 1000
    if writer.kind != reader.kind:
        return _promoted(writer, reader, path)
    if writer.kind == "record":
        return _record(writer, reader, path)
    if writer.kind in ("array", "map"):
        return _items(writer, reader, path)
    if writer.kind == "enum":
        return _enum(writer, reader, path)
    if writer.kind == "fixed" and (writer.size != reader.size or not is_same_name(writer, reader)):
        raise Unresolvable(f"{path} has another size or name")
    return _same


def is_same_name(writer: Type, reader: Type) -> bool:
    """Whether a type has the name of another one, or one of its aliases has; without namespaces."""
    return _last(writer.name) in map(_last, (reader.name, *reader.aliases))


def writers_field(reader: Field, writer: Type) -> Field | None:
    """The field of the writer's record that a field is read from, None for none: then it has its default."""
    names = (reader.name, *reader.aliases)
    return next((writer.by_name[name] for name in names if name in writer.by_name), None)


def default_value(kind: Type, default: Any) -> Any:
    """A default, as JSON has it, in the form of :mod:`values`. Raises ValueError and others for one that is
    none."""
    if kind.kind == "union":
        if default is None:
            return None
        # A union's default is one of its first branch's, but for writers of Avro 1.12.
        branch = next(branch for branch in kind.values if _may_have(branch, default))
        found = default_value(branch, default)
        return found if len(kind.values) == 1 else {f"member{kind.values.index(branch)}": found}
    if kind.kind == "record":
        return {
            field.name: default_value(field.type, default.get(field.name, field.default))
            for field in kind.fields
        }
    if kind.kind == "array":
        return [default_value(kind.item, one) for one in default]
    if kind.kind == "map":
        return [{"key": key, "value": default_value(kind.item, one)} for key, one in default.items()]
    if (kind.kind == "enum" and default not in kind.symbols) or (
        kind.kind == "fixed" and len(default) != kind.size
    ):
        raise ValueError
    if kind.kind in ("bytes", "fixed"):
        return default.encode("latin-1")
    return float(default) if kind.kind in ("float", "double") else default


def _may_have(kind: Type, default: Any) -> bool:
    if kind.kind == "enum":
        return default in kind.symbols
    if isinstance(default, bool):
        return kind.kind == "boolean"
    kinds = _JSON.get(kind.kind, (str,))
    return isinstance(default, kinds)


def _same(value: Any) -> Any:
    return value


def _as_json(writer: Type, path: str) -> Resolve:
    if writer.kind == "null":
        # A null is one, and no text.
        raise Unresolvable(f"{path} is {meaning.described(Type(JSON))}, and was null")
    whole, known = (writer.item, writer.definitions) if writer.kind == RECURSIVE else (writer, {})
    return lambda value: None if value is None else json_text(whole, value, known)


def _promoted(writer: Type, reader: Type, path: str) -> Resolve:
    # Not by Avro's rules; but a table's column of an enum is a text anyway.
    if (writer.kind, reader.kind) == ("enum", "string"):
        return _same
    if reader.kind not in PROMOTIONS.get(writer.kind, ()):
        raise Unresolvable(f"{path} is {meaning.why_not(writer, reader)}")
    if reader.kind == "bytes":
        return str.encode
    if reader.kind == "string":
        return _text
    if reader.kind == "long":
        return _same
    return float if writer.kind == "float" else _rounded(reader.kind, path)


def _rounded(kind: str, path: str) -> Resolve:
    """Whole numbers as floats or doubles, which Avro's rules round."""

    def resolve(value: int) -> float:
        # Rounded once: not to a double before.
        found = float(np.int64(value).astype(np.float32)) if kind == "float" else float(value)
        if int(found) != value:
            raise Unresolvable(f"{path} is {kind}, and was a whole number that has more digits")
        return found

    return resolve


def _decimal(reader: Type, path: str) -> Resolve:
    most = 10 ** reader.digits[0]

    def resolve(value: bytes) -> bytes:
        if abs(int.from_bytes(value, "big", signed=True)) >= most:
            raise Unresolvable(f"{path} is {meaning.described(reader)}, and was a number of more digits")
        return value

    return resolve


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unresolvable("bytes that are no text") from None


def _record(writer: Type, reader: Type, path: str) -> Resolve:
    sources: dict[str, tuple[str, Resolve]] = {}
    defaults: dict[str, Any] = {}
    for field in reader.fields:
        inner = f"{path}.{field.name}" if path else field.name
        source = writers_field(field, writer)
        if source is not None:
            sources[field.name] = (source.name, resolver(source.type, field.type, inner))
        else:
            defaults[field.name] = default_of(field, inner)

    def resolve(value: Any) -> Any:
        return {name: of(value[source]) for name, (source, of) in sources.items()} | defaults

    return resolve


def default_of(field: Field, path: str = "") -> Any:
    """The default of a field that records do not have, in the form of :mod:`values`. Raises Unresolvable
    without one, and for one that is none of its values."""
    if not field.has_default:
        raise Unresolvable(f"{path} is new, and has no default")
    try:
        found = default_value(field.type, field.default)
        pa.array([arrow_value(field.type, found)], arrow_type(field.type))
    except (AttributeError, KeyError, OverflowError, StopIteration, TypeError, ValueError) as error:
        raise Unresolvable(f"{path} is new, and its default is none of its values") from error
    return found


def _items(writer: Type, reader: Type, path: str) -> Resolve:
    item = resolver(writer.item, reader.item, path)
    if writer.kind == "array":
        return lambda value: [item(one) for one in value]
    return lambda value: [{"key": one["key"], "value": item(one["value"])} for one in value]


def _enum(writer: Type, reader: Type, path: str) -> Resolve:
    if not is_same_name(writer, reader):
        raise Unresolvable(f"{path} is the enum {reader.name}, and was {writer.name}")

    def resolve(value: str) -> str:
        if value in reader.symbols:
            return value
        if reader.default is None:
            raise Unresolvable(f"{path} has no symbol {value}")
        return reader.default

    return resolve


def _from_union(writer: Type, reader: Type, path: str) -> Resolve:
    branches: dict[str | None, Resolve] = {}
    reasons: dict[str | None, str] = {}
    # A union of one type and null has its value as it is.
    names = iter([f"member{n}" for n in range(len(writer.values))] if len(writer.values) > 1 else [""])
    for branch in writer.branches:
        key = None if branch.kind == "null" else next(names)
        try:
            branches[key] = resolver(branch, reader, path)
        except Unresolvable as error:
            reasons[key] = str(error)
    if not branches:
        of_values = [text for key, text in reasons.items() if key is not None]
        raise Unresolvable("; ".join(of_values or reasons.values()))

    def resolve(value: Any) -> Any:
        key, one = None if value is None else "", value
        if value is not None and len(writer.values) > 1:
            ((key, one),) = value.items()
        if key not in branches:
            raise Unresolvable(reasons[key])
        return branches[key](one)

    return resolve


def _into_union(writer: Type, reader: Type, path: str) -> Resolve:
    branch = branch_of(writer, reader, path)
    found = resolver(writer, branch, path)
    if branch.kind == "null" or len(reader.values) == 1:
        return found
    return _as_member(f"member{reader.values.index(branch)}", found)


def branch_of(writer: Type, reader: Type, path: str = "") -> Type:
    """The branch of the union ``reader`` that values of ``writer``, which is none, are read as. Raises
    Unresolvable."""
    why = Unresolvable(f"{path} is {meaning.why_not(writer, reader)}")
    # Stable: of equal ones the first.
    for branch in sorted(reader.branches, key=lambda branch: _distance(writer, branch)):
        try:
            resolver(writer, branch, path)
        except Unresolvable as error:
            # A column that may be null is said to be what it is otherwise.
            if branch is reader.optional:
                why = error
            continue
        return branch
    raise why


def _distance(writer: Type, branch: Type) -> int:
    """The least for the branch to try first: one of the same name, of the same type, to be promoted to."""
    if branch.kind == JSON:
        # A record with a column goes on in one.
        return 3 if any(one.type.kind != "null" for one in writer.fields) else 0
    if branch.kind != writer.kind:
        return 3
    if branch.name == writer.name:
        return 0
    return 1 if is_same_name(writer, branch) else 2


def _as_member(member: str, resolve: Resolve) -> Resolve:
    return lambda value: {member: resolve(value)}


def _last(name: str) -> str:
    return name.rpartition(".")[2]
