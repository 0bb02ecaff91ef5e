"""Types of a schema: those of Spark's columns, and schemas that no table can have."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.types import UnsupportedSchema
from tests.support.avro_bodies import decoded, fields
from tests.support.raising import raising

UTC, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
RECORD = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}


def logical(kind: str, logical_name: str, /, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": logical_name, **more}


def member(*types: pa.DataType) -> pa.DataType:
    return pa.struct([(f"member{number}", kind) for number, kind in enumerate(types)])


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("null", pa.null()),
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.utf8()),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.utf8()),
        (logical("int", "date"), pa.date32()),
        (logical("long", "timestamp-millis"), UTC),
        (logical("long", "timestamp-micros"), UTC),
        (logical("long", "local-timestamp-millis"), LOCAL),
        (logical("long", "local-timestamp-micros"), LOCAL),
        (logical("long", "timestamp-nanos"), pa.int64()),
        (logical("int", "time-millis"), pa.int32()),
        (logical("long", "time-micros"), pa.int64()),
        (logical("string", "uuid"), pa.utf8()),
        (logical("string", "date"), pa.utf8()),
        (logical("bytes", "decimal", precision=9, scale=2), pa.decimal128(9, 2)),
        (logical("bytes", "decimal", precision=38), pa.decimal128(38, 0)),
        (logical("bytes", "decimal", precision=0), pa.binary()),
        (logical("bytes", "decimal"), pa.binary()),
        (logical("fixed", "decimal", name="F", size=4, precision=9), pa.decimal128(9, 0)),
        (logical("fixed", "duration", name="F", size=12), pa.binary()),
        (RECORD, pa.struct([("x", pa.int32())])),
        ({"type": "array", "items": ["null", "long"]}, pa.list_(pa.int64())),
        ({"type": "map", "values": RECORD}, pa.map_(pa.utf8(), pa.struct([("x", pa.int32())]))),
        (["null", "int"], pa.int32()),
        (["string", "null"], pa.utf8()),
        (["bytes"], pa.binary()),
        (["int", "long"], pa.int64()),
        (["long", "null", "int"], pa.int64()),
        ([logical("int", "date"), logical("long", "timestamp-micros")], pa.int64()),
        (["float", "double"], pa.float64()),
        (["int", "double"], member(pa.int32(), pa.float64())),
        (["int", "null", RECORD], member(pa.int32(), pa.struct([("x", pa.int32())]))),
        (["int", "long", "string"], member(pa.int32(), pa.int64(), pa.utf8())),
    ],
)
def test_a_column_has_the_type_that_it_has_in_spark(kind: object, column: pa.DataType) -> None:
    assert AvroDecoder(fields(kind)).schema == pa.schema([("a", column)])


def test_a_name_is_looked_up_in_its_namespace() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "F"}]}
    size = {"type": "fixed", "name": "F", "size": 2}
    other = {"type": "enum", "name": "o.E", "symbols": ["A", "B"]}
    schema = json.loads(fields(size, inner, "n.F", other, "o.E"))
    decoder = AvroDecoder(json.dumps({**schema, "namespace": "n"}))
    rows, reasons = decoded(decoder, [b"aabbcc\x00\x02"])
    assert reasons == [None]
    assert rows == [{"a": b"aa", "b": {"x": b"bb"}, "c": b"cc", "d": "A", "e": "B"}]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "not an Avro schema: JSONDecodeError"),
        ('"int"', "of type int, not of a record"),
        ('["null", "int"]', "of type union, not of a record"),
        (fields("Unknown"), "not an Avro schema: UnknownType: Unknown"),
        (fields(["null", "T"]), "the Avro schema is recursive: a is a T inside of another one"),
        (fields({"type": "array", "items": "null"}), "items that take no bytes"),
        (fields({"type": "array", "items": {**RECORD, "fields": []}}), "items that take no bytes"),
        (fields(logical("bytes", "decimal", precision=2, scale=3)), "not an Avro schema: "),
        (fields(logical("fixed", "decimal", name="F", size=4, precision=10)), "not an Avro schema: "),
        (fields(logical("bytes", "decimal", precision=39)), "39 digits, more than a table's 38"),
        ('{"type": "record", "name": "T"}', "not an Avro schema"),
    ],
)
def test_a_schema_that_no_table_can_have_is_refused(schema: str, words: str) -> None:
    with raising(UnsupportedSchema, words):
        AvroDecoder(schema)
