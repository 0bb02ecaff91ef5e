"""The types that a CSV column may have, from its Avro schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXT, BOOLEAN, INT, LONG, FLOAT, DOUBLE = "text", "boolean", "int", "long", "float", "double"
DATE, LOCAL_TIME, INSTANT, DECIMAL, ENUM, MAP = "date", "local time", "instant", "decimal", "enum", "map"
# What is wrong with a text that is none, in a reason: "'5f' is not a number".
NAMES = {
    BOOLEAN: "a boolean",
    INT: "an int",
    LONG: "a long",
    FLOAT: "a number",
    DOUBLE: "a number",
    DATE: "a date",
    LOCAL_TIME: "a time",
    INSTANT: "a time with a zone",
}
# The same for those whose columns have types of DDL.
_DDL_NAMES = {
    NAMES[BOOLEAN]: "a BOOLEAN",
    NAMES[INT]: "an INT",
    NAMES[LONG]: "a BIGINT",
    NAMES[DATE]: "a DATE",
    NAMES[LOCAL_TIME]: "a TIMESTAMP_NTZ",
    NAMES[INSTANT]: "a TIMESTAMP",
}
_PRIMITIVE = {
    "string": TEXT,
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
}
_LOGICAL = {
    "date": (DATE, 0),
    "timestamp-millis": (INSTANT, 1000),
    "timestamp-micros": (INSTANT, 1),
    "local-timestamp-millis": (LOCAL_TIME, 1000),
    "local-timestamp-micros": (LOCAL_TIME, 1),
}


class UnsupportedType(ValueError):
    """A field of an Avro schema that no CSV cell can be."""


@dataclass(frozen=True)
class Kind:
    """``name``: one of this module's. ``symbols``: of an enum, the only texts. ``precision``, ``scale``: of a
    decimal. ``unit``: microseconds of a timestamp's unit. ``null_branch``: the index of null in the field's
    union, and the other branch is the value; None for a field that is required."""

    name: str
    symbols: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0
    unit: int = 1
    null_branch: int | None = None

    @property
    def title(self) -> str:
        """In "is not …"."""
        if self.name == ENUM:
            return f"one of {', '.join(self.symbols)}"
        if self.name == DECIMAL:
            return f"a decimal({self.precision}, {self.scale})"
        return NAMES[self.name]

    @property
    def is_required(self) -> bool:
        return self.null_branch is None


def ddl_title(title: str) -> str:
    """A kind's title in words of DDL."""
    return _DDL_NAMES.get(title, title.replace("a decimal", "a DECIMAL"))


def kind_of_field(avro: Mapping[str, Any]) -> Kind:
    try:
        return kind_of(avro["type"])
    except UnsupportedType as error:
        raise UnsupportedType(
            f"field {avro['name']!r} has {error}, which no CSV cell can be. Fix: use a text, a number, a "
            "boolean, a date, a timestamp, a decimal, an enum, or one of these with null"
        ) from error


def kind_of(avro: Any) -> Kind:
    """The kind of a field's type. Raises UnsupportedType."""
    null_branch = None
    if isinstance(avro, list):
        if len(avro) != 2 or "null" not in avro:
            raise UnsupportedType(f"a union of {', '.join(map(_name, avro))}")
        null_branch = avro.index("null")
        avro = avro[1 - null_branch]
    found = _of_type(avro)
    return Kind(found.name, found.symbols, found.precision, found.scale, found.unit, null_branch)


def _of_type(avro: Any) -> Kind:
    if isinstance(avro, str) and avro in _PRIMITIVE:
        return Kind(_PRIMITIVE[avro])
    if isinstance(avro, Mapping):
        logical, kind = avro.get("logicalType"), avro.get("type")
        if logical in _LOGICAL:
            name, unit = _LOGICAL[logical]
            return Kind(name, unit=unit or 1)
        if logical == "decimal" and kind == "bytes":
            return Kind(DECIMAL, precision=avro["precision"], scale=avro.get("scale", 0))
        if kind == "enum":
            return Kind(ENUM, tuple(avro["symbols"]))
        if kind == "map" and avro.get("values") == "string":
            return Kind(MAP)
        if logical is None and kind is not avro:
            return _of_type(kind)
    raise UnsupportedType(f"type {_name(avro)}")


def _name(avro: Any) -> str:
    return str(avro.get("logicalType") or avro.get("type")) if isinstance(avro, Mapping) else str(avro)
