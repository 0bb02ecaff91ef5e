"""Iceberg's schemas as Arrow's, with the ids of every field."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from sluice.core.schema_versions.table_columns import arrow_schema
from spark_jobs.common.lake.data_files.schema import (
    column_ids,
    iceberg_type,
    leaf_ids,
    leaf_types,
    other_columns,
)
from tests.support.raising import raising

ID = b"PARQUET:field_id"
POINT = StructType(NestedField(10, "x", DoubleType(), required=True), NestedField(11, "y", StringType()))
PRIMITIVES: list[tuple[IcebergType, pa.DataType]] = [
    (BooleanType(), pa.bool_()),
    (IntegerType(), pa.int32()),
    (LongType(), pa.int64()),
    (FloatType(), pa.float32()),
    (DoubleType(), pa.float64()),
    (StringType(), pa.string()),
    (BinaryType(), pa.binary()),
    (DateType(), pa.date32()),
    (TimestampType(), pa.timestamp("us")),
    (TimestamptzType(), pa.timestamp("us", tz="UTC")),
    (DecimalType(38, 0), pa.decimal128(38, 0)),
    (DecimalType(9, 2), pa.decimal128(9, 2)),
]
NESTED: list[IcebergType] = [
    POINT,
    ListType(12, LongType(), element_required=True),
    ListType(12, POINT, element_required=False),
    MapType(13, StringType(), 14, DoubleType(), value_required=True),
    MapType(13, StringType(), 14, ListType(15, POINT, element_required=False), value_required=False),
]


def document(kind: IcebergType, *, required: bool = False) -> dict[str, Any]:
    return Schema(NestedField(1, "a", kind, required=required)).model_dump(mode="json", by_alias=True)


def said(field: pa.Field) -> tuple[Any, ...]:
    """A field with all below it: name, id, whether it may be null, and the type of one that has no fields."""
    kind = field.type
    below: list[pa.Field] = []
    if pa.types.is_struct(kind):
        below = list(kind)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        below = [kind.value_field]
    elif pa.types.is_map(kind):
        below = [kind.key_field, kind.item_field]
    return field.name, field.metadata[ID], field.nullable, [said(one) for one in below] or str(kind)


@pytest.mark.parametrize(("kind", "expected"), PRIMITIVES, ids=str)
@pytest.mark.parametrize("required", [True, False])
def test_a_type_is_arrows_of_the_same_values(
    kind: IcebergType, expected: pa.DataType, required: bool
) -> None:
    (field,) = arrow_schema(document(kind, required=required))
    assert (field.name, field.type, field.nullable) == ("a", expected, not required)
    assert field.metadata == {ID: b"1"}


@pytest.mark.parametrize("kind", NESTED, ids=str)
@pytest.mark.parametrize("required", [True, False])
def test_every_level_of_a_nested_type_has_its_id(kind: IcebergType, required: bool) -> None:
    """As PyIceberg's own, which it writes files by."""
    (field,) = arrow_schema(document(kind, required=required))
    (expected,) = schema_to_pyarrow(Schema(NestedField(1, "a", kind, required=required)))
    assert said(field) == _small(said(expected))


def _small(one: Any) -> Any:
    """PyIceberg's texts are large ones."""
    if isinstance(one, str):
        return one.replace("large_", "")
    return type(one)(map(_small, one)) if isinstance(one, list | tuple) else one


def test_columns_stay_in_their_order() -> None:
    fields = [NestedField(number, name, LongType()) for number, name in ((7, "b"), (2, "a"), (9, "c"))]
    found = arrow_schema(Schema(*fields).model_dump(mode="json", by_alias=True))
    assert [(one.name, one.metadata[ID]) for one in found] == [("b", b"7"), ("a", b"2"), ("c", b"9")]


@pytest.mark.parametrize("kind", [*NESTED, LongType()], ids=str)
def test_ids_of_leaves_are_in_the_order_of_the_files_columns(kind: IcebergType) -> None:
    fields = [
        NestedField(30, "first", LongType()),
        NestedField(1, "a", kind),
        NestedField(20, "c", BinaryType()),
    ]
    schema = arrow_schema(Schema(*fields).model_dump(mode="json", by_alias=True))
    file = pa.BufferOutputStream()
    with parquet.ParquetWriter(file, schema):
        pass
    columns = parquet.read_metadata(pa.BufferReader(file.getvalue())).schema
    # A leaf is what ends there: ``optional int64 field_id=30 first;``.
    expected = [int(found) for found in re.findall(r"field_id=(\d+) [^{};]*;", str(columns))]
    assert leaf_ids(schema) == [*leaf_types(schema)] == expected
    assert all(not pa.types.is_nested(kind) for kind in leaf_types(schema).values())
    assert len(expected) == len(columns)


@pytest.mark.parametrize("kind", ["uuid", "time", "fixed[4]", "decimal(9)", {"type": "variant"}])
def test_a_type_that_no_table_of_a_stream_has_is_named(kind: Any) -> None:
    name = kind if isinstance(kind, str) else kind["type"]
    with raising(ValueError, name):
        arrow_schema({"fields": [{"id": 1, "name": "a", "required": False, "type": kind}]})


@pytest.mark.parametrize("kind", [*NESTED, *(one for one, _ in PRIMITIVES)], ids=str)
def test_arrows_type_is_icebergs_of_the_same_values(kind: IcebergType) -> None:
    (field,) = arrow_schema(document(kind))
    said = iceberg_type(pa.struct([field.with_nullable(True)]), count(1))
    (again,) = arrow_schema(Schema.model_validate(said).model_dump(mode="json", by_alias=True))
    assert again.type == _nullable(field.type)


def _nullable(kind: pa.DataType) -> pa.DataType:
    """A type whose every part may be null, but for a map's key."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _nullable(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type)) if pa.types.is_map(kind) else kind


def test_a_type_that_no_table_has_is_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        iceberg_type(pa.uint8(), count(1))


def test_columns_of_files_are_those_of_a_table_by_ids_names_and_types() -> None:
    given = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", ListType(12, POINT, element_required=False)),
        NestedField(3, "of", MapType(13, StringType(), 14, DoubleType(), value_required=True)),
    )
    found = column_ids(given.model_dump(mode="json", by_alias=True))
    assert found == {
        1: "id long",
        2: "at list",
        12: "at.element struct",
        10: "at.element.x double",
        11: "at.element.y string",
        3: "of map",
        13: "of.key string",
        14: "of.value double",
    }
    assert not other_columns(found, {**found, 15: "new string"})
    swapped = {**found, 10: "at.element.y string", 11: "at.element.x double"}
    others = ["at.element.x double with id 10", "at.element.y string with id 11"]
    assert other_columns(found, swapped) == others
