"""``[records]``: what a stream may declare of records that others send, and the columns that follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config import stream_columns, streams
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from tests.support.declarations import OF_OTHERS_RECORDS as STREAM
from tests.support.raising import raising

DDL = "id BIGINT\ntotal DECIMAL(10, 2)\n"
LIST = "list<"


def parsed(records: str, schema: str = "", more: str = "") -> StreamSpec:
    line = f'schema = "{schema}"' if schema else ""
    return streams.parse(STREAM.format(schema=line, records=records) + more, "stream.toml")


def types(spec: StreamSpec, folder: Path, text: str = DDL) -> dict[str, str]:
    """As the stream's check reads them."""
    file = folder / spec.schema
    if spec.schema:
        file.write_text(text)
    stream_columns.check(spec, file)
    return stream_columns._declared_types(spec, stream_columns._text(spec, file), file)


def test_text_and_bytes_need_no_schema(tmp_path: Path) -> None:
    spec = parsed('format = "text"')
    assert types(spec, tmp_path) == {"value": "string"}
    assert (spec.schema, spec.is_avro, spec.ddl_columns) == ("", False, {"value": "string"})
    assert stream_columns.declared_types(spec) == {"value": "string"}
    spec = parsed('format = "bytes"\nvalue_column = "body"\nkey = "bytes"\nheaders = "headers"')
    assert types(spec, tmp_path) == {"body": "binary", "key": "binary", "headers": LIST}


def test_formats_with_a_schema_have_its_columns_and_those_of_the_section(tmp_path: Path) -> None:
    spec = parsed('format = "json"\nkey = "json"\nkey_column = "_key"', "schema.ddl")
    own = {"id": "long", "total": "decimal(10, 2)"}
    assert types(spec, tmp_path) == {**own, "_key": "string", "_unknown_fields": "string"}
    assert types(parsed('format = "json"\nunknown_fields = ""', "schema.ddl"), tmp_path) == own
    avro = '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}'
    spec = parsed('format = "text"\nregistry = true\nkey = "protobuf"')
    assert types(spec, tmp_path) == {"value": "string", "key": "string"}
    spec = parsed('format = "avro"\nregistry = true\nkey = "avro"', "schema.avsc")
    assert types(spec, tmp_path, avro) == {"id": "long", "key": "string", "_unknown_fields": "string"}
    assert spec.is_avro
    assert parsed('format = "avro"', "schema.ddl").is_avro
    assert not parsed('format = "json"', "schema.ddl").is_avro


@pytest.mark.parametrize(
    ("records", "schema", "said"),
    [
        ('format = "xml"', "schema.ddl", '[records] format \'xml\'. Fix: use one of "avro", "json"'),
        ('format = "text"\nkey = "xml"', "", "[records] key 'xml'"),
        (
            'format = "text"\ntombstones = "drop"',
            "",
            'tombstones \'drop\'. Fix: use one of "row", "skip", "rej',
        ),
        ('format = "json"', "", "format 'json' without schema"),
        ('format = "text"', "schema.ddl", "schema 'schema.ddl' with [records] format 'text'"),
        ('format = "json"', "schema.avsc", "format 'json' with schema 'schema.avsc'"),
        ('format = "text"\nregistry = true', "", "registry with format 'text': its values have no schema"),
        ('format = "avro"\nkey = "avro"', "schema.avsc", "key 'avro' without registry"),
        ('format = "text"\nkey = "protobuf"', "", "key 'protobuf' without registry"),
        ('format = "text"\nkey = "text"\nkey_column = ""', "", "key_column is empty"),
        ('format = "text"\nvalue_column = ""', "", "value_column is empty"),
        ('format = "text"\nkey = "text"\nkey_column = "VALUE"', "", "'value' and 'VALUE' differ in case"),
        ('format = "text"\nheaders = "value"', "", "column 'value' is there twice"),
        ('format = "text"\nheaders = "_kafka_offset"', "", "'_kafka_offset': names in _kafka_"),
        ('format = "text"\nheaders = "a b"', "", "column 'a b' cannot be a column"),
        ('format = "json"\nunknown_fields = "_pos"', "schema.ddl", "'_pos': the name is Iceberg's own"),
        ('format = "avro"', "schema.json", "schema 'schema.json'"),
        ('format = "avro"\nnew_fields = "x"', "schema.avsc", "new_fields 'x'. Fix: use one of \"column\""),
        ('format = "json"\nnew_fields = "column"', "schema.ddl", "new_fields 'column' with format 'json'"),
        (
            'format = "json"\nregistry = true\non_incompatible = "stop"',
            "schema.ddl",
            "on_incompatible 'stop' with format 'json': a JSON Schema is not evaluated",
        ),
        (
            'format = "json"\nregistry = true\nnew_fields = "column"',
            "schema.ddl",
            "so a table cannot follow its versions. Fix: remove new_fields; members without a column",
        ),
        (
            'format = "protobuf"\nnew_fields = "column"',
            "schema.proto",
            "new_fields 'column' with format 'protobuf' and registry false",
        ),
        (
            'format = "json"\nregistry = true\nsubjects = ["a-value"]',
            "schema.ddl",
            "subjects with format 'json' and registry true",
        ),
        (
            'format = "avro"\nsubjects = ["a-value"]',
            "schema.avsc",
            "subjects with format 'avro' and registry false",
        ),
        ('format = "avro"\nregistry = true\nsubjects = ["a", "a"]', "schema.avsc", "is there twice"),
        ('format = "avro"\nregistry = true\nsubjects = [" "]', "schema.avsc", "one has no name"),
        ("registry = true", "schema.avsc", "key 'format' is missing"),
    ],
)
def test_what_no_stream_can_be_is_refused(records: str, schema: str, said: str) -> None:
    with raising(ConfigError, "stream.toml", said, "Fix: "):
        parsed(records, schema)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (
            'key = "text"\nkey_column = "ID"',
            "key_column 'ID': schema.ddl has the column 'id'. Fix: set key_column",
        ),
        ('headers = "total"', "headers 'total': schema.ddl has the column 'total'"),
        ('unknown_fields = "id"', "unknown_fields 'id': schema.ddl has the column 'id'"),
    ],
)
def test_a_column_of_the_table_is_none_of_the_section(records: str, said: str, tmp_path: Path) -> None:
    with raising(ConfigError, "orders/stream.toml", said):
        types(parsed(f'format = "json"\n{records}', "schema.ddl"), tmp_path)


@pytest.mark.parametrize(
    ("before", "of_topic", "said"),
    [
        ("", "partitions = 1", "[records] and a topic of Sluice's own"),
        ('decode = "m:f"\n', "managed = false", "[records] with decode 'm:f'"),
    ],
)
def test_a_stream_that_makes_its_own_records_has_no_section(before: str, of_topic: str, said: str) -> None:
    text = STREAM.format(schema='schema = "schema.ddl"', records='format = "json"')
    with raising(ConfigError, "stream.toml", said, "Fix: "):
        streams.parse(before + text.replace("managed = false", of_topic), "stream.toml")


def test_a_key_may_partition_a_table_and_be_queried(tmp_path: Path) -> None:
    spec = parsed('format = "json"\nkey = "text"\nheaders = "headers"', "schema.ddl")
    assert spec.records is not None
    assert spec.records.query_columns == {"key": "string", "_unknown_fields": "string"}

    def partitioned(records: str) -> StreamSpec:
        text = STREAM.format(schema="", records=records)
        return streams.parse(f'partition_by = ["key"]\n{text}', "stream.toml")

    types(partitioned('format = "text"\nkey = "text"'), tmp_path)
    with raising(ConfigError, "partition_by 'key': 'key' is no column of the table"):
        types(partitioned('format = "text"'), tmp_path)


PROTO = 'syntax = "proto3"; package shop; import "parts/item.proto"; message A { int32 a = 1; }\n'
ORDER = "message Order { uint64 id = 1; repeated Item items = 2; map<string, int32> by = 3; Item one = 4; }"
ITEM = 'syntax = "proto3"; package shop; message Item { string sku = 1; Item inner = 2; }'


def test_protobuf_has_the_columns_of_its_message(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "item.proto").write_text(ITEM)
    spec = parsed(
        'format = "protobuf"\nregistry = true\nkey = "text"\nmessage = "shop.Order"\n'
        'json_fields = ["items", "one.inner"]',
        "schema.proto",
    )
    assert types(spec, tmp_path, PROTO + ORDER) == {
        "id": "decimal(20, 0)",
        "items": "string",
        "by": "map<",
        "one": "struct<",
        "key": "string",
        "_unknown_fields": "string",
    }
    assert (spec.is_protobuf, spec.is_avro, spec.is_ddl) == (True, False, False)
    first = parsed('format = "protobuf"', "schema.proto")
    assert types(first, tmp_path, PROTO + ORDER) == {"a": "int", "_unknown_fields": "string"}


@pytest.mark.parametrize(
    ("records", "text", "said"),
    [
        ("", "message A { B b = 1; }", '"B" is not defined'),
        ('message = "B"', "message A { int32 a = 1; }", "the schema has no message 'B'; it has A"),
        ("", "message A { A a = 1; int32 b = 2; }", "a is a A inside of another one"),
        ('json_fields = ["c"]', "message A { int32 a = 1; }", "A has no field 'c', which is to be a text"),
        ("", "message A { int32 _pos = 1; }", "column '_pos': the name is Iceberg's own"),
        (
            "",
            "message A { repeated B b = 1; } message B { int32 x = 1; int32 X = 2; }",
            "differ in case only",
        ),
        ("", "message A { string _unknown_fields = 1; }", "schema.proto has the column '_unknown_fields'"),
    ],
)
def test_a_message_that_can_be_no_table_is_a_wrong_declaration(
    tmp_path: Path, records: str, text: str, said: str
) -> None:
    spec = parsed(f'format = "protobuf"\n{records}', "schema.proto")
    with raising(ConfigError, "orders/", said, "Fix: ") as found:
        types(spec, tmp_path, f'syntax = "proto3"; {text}')
    assert str(found.value).count("Fix: ") == 1


@pytest.mark.parametrize(
    ("records", "schema", "said"),
    [
        ('format = "protobuf"', "schema.avsc", "[records] format 'protobuf' with schema 'schema.avsc'"),
        ('format = "avro"', "schema.proto", "[records] format 'avro' with schema 'schema.proto'"),
        ('format = "protobuf"', "", "without schema"),
        ('format = "protobuf"\nkey = "protobuf"', "schema.proto", "[records] key 'protobuf'"),
        ('format = "avro"\nmessage = "A"', "schema.avsc", "[records] message with format 'avro'"),
        ('format = "avro"\njson_fields = ["a"]', "schema.avsc", "[records] json_fields with format 'avro'"),
        ('format = "avro"\nrecursive_fields = "json"', "schema.avsc", "recursive_fields 'json' with format"),
        ('format = "protobuf"\nrecursive_fields = "text"', "schema.proto", "recursive_fields 'text'"),
    ],
)
def test_what_does_not_go_with_protobuf(records: str, schema: str, said: str) -> None:
    with raising(ConfigError, said, "Fix: "):
        parsed(records, schema)


NODE = """{"type": "record", "name": "Node", "fields": [{"name": "id", "type": "int"},
  {"name": "in", "type": {"type": "record", "name": "In", "fields": [
    {"name": "of", "type": ["null", "Node"]}]}},
  {"name": "parts", "type": {"type": "array", "items": "Node"}}]}"""
RECURSIVE = 'recursive_fields = "json"'


def test_a_record_in_itself_is_refused_with_the_path_or_is_a_text(tmp_path: Path) -> None:
    avro = 'format = "avro"\nregistry = true'
    with raising(ConfigError, "in.of is a Node inside of another one", RECURSIVE, "Fix: "):
        types(parsed(avro, "schema.avsc"), tmp_path, NODE)
    found = types(parsed(f"{avro}\n{RECURSIVE}", "schema.avsc"), tmp_path, NODE)
    assert found == {"id": "int", "in": "struct<", "parts": "string", "_unknown_fields": "string"}
    text = 'syntax = "proto3"; message A { A a = 1; repeated A parts = 2; int32 b = 3; }'
    found = types(parsed(f'format = "protobuf"\n{RECURSIVE}', "schema.proto"), tmp_path, text)
    assert found == {"a": "string", "parts": "string", "b": "int", "_unknown_fields": "string"}
