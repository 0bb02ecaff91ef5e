"""The columns of an Iceberg table as Arrow's, with the field ids by which Iceberg finds them in a file; and
Arrow's as Iceberg's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import pyarrow as pa

# https://iceberg.apache.org/spec/#primitive-types
PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def arrow_schema(schema: Mapping[str, Any]) -> pa.Schema:
    """From Iceberg's JSON of a schema. Raises ValueError for a type that no table of Sluice has."""
    return pa.schema([_field(field["name"], field) for field in schema["fields"]])


def _field(name: str, field: Mapping[str, Any], part: str = "") -> pa.Field:
    """``part``: of a list or map, the begin of its keys: ``element-id``, ``element-required``."""
    kind, number = field[part or "type"], field[f"{part}-id" if part else "id"]
    required = field.get(f"{part}-required" if part else "required", True)
    return pa.field(name, _type(kind), not required, {"PARQUET:field_id": str(number)})


def _type(kind: str | Mapping[str, Any]) -> pa.DataType:
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if kind not in PRIMITIVES:
            raise ValueError(f"a column of Iceberg's type {kind}, which no table of a stream has")
        return PRIMITIVES[kind]
    match kind["type"]:
        case "struct":
            return pa.struct([_field(field["name"], field) for field in kind["fields"]])
        case "list":
            return pa.list_(_field("element", kind, "element"))
        case "map":
            return pa.map_(_field("key", kind, "key"), _field("value", kind, "value"))
    raise ValueError(f"a column of Iceberg's type {kind['type']}, which no table of a stream has")


def iceberg_type(kind: pa.DataType, numbers: Iterable[int]) -> Any:
    """Iceberg's JSON of a type whose every part may be null; ``numbers``: of its fields. Raises ValueError
    for a type that no table of Sluice has."""
    ids = iter(numbers)
    if pa.types.is_struct(kind):
        fields = [
            {"id": next(ids), "name": one.name, "required": False, "type": iceberg_type(one.type, ids)}
            for one in kind
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "key-id": next(ids),
            "key": iceberg_type(kind.key_type, ids),
            "value-id": next(ids),
            "value": iceberg_type(kind.item_type, ids),
            "value-required": False,
        }
    if pa.types.is_list(kind):
        element = {"element-id": next(ids), "element": iceberg_type(kind.value_type, ids)}
        return {"type": "list", **element, "element-required": False}
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    found = next((name for name, other in PRIMITIVES.items() if other == kind), None)
    if found is None:
        raise ValueError(f"a column of Arrow's type {kind}, which no table of a stream has")
    return found


def type_text(kind: pa.DataType) -> str:
    """A type as Iceberg writes it, for people; Arrow's text of one that no table of Sluice has."""
    try:
        return _text(iceberg_type(kind, count()))
    except ValueError:
        return str(kind)


def _text(kind: str | Mapping[str, Any]) -> str:
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "struct":
            fields = (f"{one['name']}: {_text(one['type'])}" for one in kind["fields"])
            return f"struct<{', '.join(fields)}>"
        case "list":
            return f"list<{_text(kind['element'])}>"
    return f"map<{_text(kind['key'])}, {_text(kind['value'])}>"
