"""An Iceberg schema as DuckDB's reader of Parquet takes it: columns by field id, at every depth."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from sluice.clients.lake.reading.arrow_sql import quoted

_TYPES: dict[type[PrimitiveType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMPTZ",
    TimestampNanoType: "TIMESTAMP_NS",
    StringType: "VARCHAR",
    FixedType: "BLOB",
    BinaryType: "BLOB",
}


def column(field_id: int) -> str:
    """Its name within a query: names of tables may differ from those of files, and need quotes."""
    return f"f{field_id}"


def schema_map(schema: Schema) -> str:
    """DuckDB's `schema` of these columns, which it calls by :func:`column`. Those that a file lacks are null,
    as Iceberg says. Raises NotImplementedError for a type that DuckDB cannot read, or a default value."""
    return _map([(column(field.field_id), field) for field in schema.fields])


def _map(fields: list[tuple[str, NestedField]]) -> str:
    return f"map {{{', '.join(f'{field.field_id}: {_entry(name, field)}' for name, field in fields)}}}"


def _entry(name: str, field: NestedField) -> str:
    if field.initial_default is not None:
        raise NotImplementedError(f"column {field.name!r} has a default value for files without it")
    said = f"name: {_text(name)}, type: {_text(_type(field.field_type))}, default_value: null"
    children = _children(field.field_type)
    return f"{{{said}, children: {_map(children)}}}" if children else f"{{{said}}}"


def _children(kind: IcebergType) -> list[tuple[str, NestedField]]:
    """With the names that DuckDB calls them by."""
    match kind:
        case StructType():
            return [(field.name, field) for field in kind.fields]
        case ListType():
            return [("element", kind.element_field)]
        case MapType():
            return [("key", kind.key_field), ("value", kind.value_field)]
    return []


def _type(kind: IcebergType) -> str:
    match kind:
        case StructType():
            inside = ", ".join(f"{quoted(field.name)} {_type(field.field_type)}" for field in kind.fields)
            return f"STRUCT({inside})"
        case ListType():
            return f"{_type(kind.element_type)}[]"
        case MapType():
            return f"MAP({_type(kind.key_type)}, {_type(kind.value_type)})"
        case DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
    found = _TYPES.get(type(kind))  # type: ignore[arg-type]
    if found is None:
        raise NotImplementedError(f"DuckDB reads no {kind}")
    return found


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
