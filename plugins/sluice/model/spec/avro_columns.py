"""The types of columns that are declared in Avro, as Iceberg writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Avro's types (and logical types) as Iceberg writes them (Iceberg specification, appendix A).
_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "date": "date",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
}
_NESTED = {"map": "map<", "array": "list<", "record": "struct<"}


def avro_iceberg_columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """Column -> Iceberg type of a parsed .avsc; of a nested type its beginning (``map<``)."""
    return {field["name"]: avro_iceberg_type(field["type"]) for field in schema["fields"]}


def avro_iceberg_type(avro: Any) -> str:
    """The Iceberg type of an Avro type; of a nested one its beginning (``map<``); of a union with null the
    other branch's. Raises ValueError for a type that has no column of its own."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return avro_iceberg_type(branches[0])
    elif isinstance(avro, Mapping):
        if avro.get("logicalType") == "decimal":
            return f"decimal({avro['precision']}, {avro.get('scale', 0)})"
        logical = _TYPES.get(str(avro.get("logicalType")))
        if logical:
            return logical
        return _NESTED.get(avro["type"]) or avro_iceberg_type(avro["type"])
    elif avro in _TYPES:
        return _TYPES[avro]
    raise ValueError(
        f"Avro type {avro!r} has no Iceberg type here; use a primitive, a map, an array or a record"
    )
