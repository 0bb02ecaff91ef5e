"""Columns of Arrow as those of an Iceberg table, and the field ids by which Iceberg finds them in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from sluice.core.schema_versions.table_columns import PRIMITIVES


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
