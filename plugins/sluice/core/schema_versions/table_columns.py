"""The columns of an Iceberg table as Arrow's, with the field ids by which Iceberg finds them in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
