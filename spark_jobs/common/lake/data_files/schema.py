"""The columns of an Iceberg table as Arrow's, with the field ids by which Iceberg finds them in a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

# https://iceberg.apache.org/spec/#primitive-types
_PRIMITIVES = {
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
    found = next((name for name, other in _PRIMITIVES.items() if other == kind), None)
    if found is None:
        raise ValueError(f"a column of Arrow's type {kind}, which no table of a stream has")
    return found


def column_ids(schema: Mapping[str, Any]) -> dict[int, str]:
    """Field id -> path and type of a table's columns and their parts, from Iceberg's JSON of a schema."""
    return dict(_ids({**schema, "type": "struct"}, ""))


def _ids(kind: str | Mapping[str, Any], path: str) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        return
    match kind["type"]:
        case "struct":
            parts = [(one["id"], one["name"], one["type"]) for one in kind["fields"]]
        case "list":
            parts = [(kind["element-id"], "element", kind["element"])]
        case _:
            parts = [(kind[f"{part}-id"], part, kind[part]) for part in ("key", "value")]
    for number, name, inner in parts:
        own = f"{path}.{name}" if path else name
        yield number, f"{own} {inner if isinstance(inner, str) else inner['type']}"
        yield from _ids(inner, own)


def other_columns(written: Mapping[int, str], found: Mapping[int, str]) -> list[str]:
    """What a table does not have of the columns of files, each by its field id as :func:`column_ids` has
    them: readers would see its values as null, or in another column."""
    return [f"{name} with id {number}" for number, name in written.items() if found.get(number) != name]


def leaf_ids(schema: pa.Schema) -> list[int]:
    """The field ids of the columns of a Parquet file with this schema, in their order."""
    return [number for field in schema for number, _ in _leaves(field)]


def leaf_types(schema: pa.Schema) -> dict[int, pa.DataType]:
    """Field id -> type of the columns of a Parquet file with this schema."""
    return {number: kind for field in schema for number, kind in _leaves(field)}


def _leaves(field: pa.Field) -> Iterator[tuple[int, pa.DataType]]:
    kind = field.type
    if pa.types.is_struct(kind):
        parts = list(kind)
    elif pa.types.is_map(kind):
        parts = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        parts = [kind.value_field]
    else:
        yield int(field.metadata[b"PARQUET:field_id"]), kind
        return
    for part in parts:
        yield from _leaves(part)


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
        if kind not in _PRIMITIVES:
            raise ValueError(f"a column of Iceberg's type {kind}, which no table of a stream has")
        return _PRIMITIVES[kind]
    match kind["type"]:
        case "struct":
            return pa.struct([_field(field["name"], field) for field in kind["fields"]])
        case "list":
            return pa.list_(_field("element", kind, "element"))
        case "map":
            return pa.map_(_field("key", kind, "key"), _field("value", kind, "value"))
    raise ValueError(f"a column of Iceberg's type {kind['type']}, which no table of a stream has")
