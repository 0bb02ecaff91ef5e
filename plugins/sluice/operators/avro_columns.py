"""Whether a table has the columns that a stream's Avro schema and Sluice's coordinates call for."""

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
# A table may have been widened (Iceberg specification, schema evolution); no value is lost by that.
_WIDER = {"int": "long", "float": "double"}
_NESTED = {"map": "map<", "array": "list<", "record": "struct<"}
COORDINATES = {
    "_kafka_partition": "int",
    "_kafka_offset": "long",
    "_kafka_timestamp": "timestamptz",
    "_source_id": "string",
    "_source_row": "long",
    "_source_base": "long",
}


def schema_problems(table: str, schema: Mapping[str, Any], columns: Mapping[str, str]) -> list[str]:
    """One sentence for each column of ``schema`` (a parsed .avsc) or of the coordinates that the table lacks
    or has with another type. Columns beyond these are no problem: an older schema may have had them."""
    wanted = {field["name"]: iceberg_type(field["type"]) for field in schema["fields"]} | COORDINATES
    problems = []
    for name, kind in wanted.items():
        present = columns.get(name)
        if present is None:
            problems.append(
                f"schema: table {table} has no column {name} ({kind}); restart the stream's consumer"
            )
        elif not (present in (kind, _WIDER.get(kind)) or (kind.endswith("<") and present.startswith(kind))):
            problems.append(
                f"schema: column {name} of table {table} is {present}, the stream declares {kind}"
            )
    return problems


def iceberg_type(avro: Any) -> str:
    """The Iceberg type of an Avro type; of a nested one its beginning (``map<``); of a union with null the
    other branch's. Raises ValueError for a type that has no column of its own."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return iceberg_type(branches[0])
    elif isinstance(avro, Mapping):
        if avro.get("logicalType") == "decimal":
            return f"decimal({avro['precision']}, {avro.get('scale', 0)})"
        logical = _TYPES.get(str(avro.get("logicalType")))
        if logical:
            return logical
        return _NESTED.get(avro["type"]) or iceberg_type(avro["type"])
    elif avro in _TYPES:
        return _TYPES[avro]
    raise ValueError(
        f"Avro type {avro!r} has no Iceberg type here; use a primitive, a map, an array or a record"
    )
