"""The decoder of a stream's records follows from its declaration, and has the columns of its table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform import Platform
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.config.stream_columns import declared_types
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import OwnRecords, RecordDecoder
from sluice.core.decoding.registered.fingerprints import id_of
from sluice.core.record_batches.records import SCHEMA
from spark_jobs.common.consumer.decoders import decoder_of
from spark_jobs.common.consumer.run import follower_of, registry_of
from tests.support.declarations import OF_OTHERS_RECORDS as STREAM
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro, framed

# Declares a stream by its [records], its schema's file, and more of its declaration.
Declare = Callable[..., StreamSpec]
FIELDS = [{"name": "id", "type": "int"}]
TREE = {"type": "record", "name": "O", "fields": FIELDS}
WIDER = {**TREE, "fields": [*FIELDS, {"name": "x", "type": "int"}]}
# By its fingerprint, too.
NUMBER = id_of(parsed(json.dumps(TREE)).fingerprint)
SCHEMAS = FakeSchemas({1: avro(WIDER), 2: ("JSON", "{}"), 3: avro("string"), NUMBER: avro(TREE)})


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    def declared(records: str, schema: str = "", more: str = "") -> StreamSpec:
        folder = tmp_path / "orders"
        folder.mkdir(exist_ok=True)
        (folder / "schema.avsc").write_text(json.dumps(TREE))
        (folder / "schema.ddl").write_text("id INT\n")
        line = f'schema = "{schema}"' if schema else ""
        (folder / "stream.toml").write_text(STREAM.format(schema=line, records=records) + more)
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        return streams.load("orders")

    return declared


def rows(decoder: RecordDecoder, key: bytes | None, value: bytes | None) -> list[object]:
    headers = pa.array([[{"key": b"h", "value": b"v"}]], SCHEMA.field("headers").type)
    found = decoder.decode(pa.array([key], pa.binary()), pa.array([value], pa.binary()), headers)
    return [found.reasons[0].as_py() or found.columns.to_pylist()[0]]


@pytest.mark.parametrize(
    ("records", "schema", "key", "value", "row"),
    [
        ('format = "text"\nkey = "text"', "", b"k", b"v", {"value": "v", "key": "k"}),
        ('format = "bytes"\nheaders = "h"', "", b"k", b"v",
         {"value": b"v", "h": [{"key": "h", "value": b"v"}]}),
        ('format = "text"\nregistry = true\nkey = "avro"', "", framed(3, b"\2a"), b"v",
         {"value": "v", "key": '"a"'}),
        ('format = "json"', "schema.ddl", None, b'{"id":1,"x":2}', {"id": 1, "_unknown_fields": '{"x":2}'}),
        ('format = "json"\nunknown_fields = ""', "schema.ddl", None, b'{"id":1,"x":2}', {"id": 1}),
        ('format = "json"\nregistry = true\nkey = "json"', "schema.ddl", b"7", framed(2, b'{"id":1}'),
         {"id": 1, "key": "7", "_unknown_fields": None}),
        ('format = "avro"', "schema.avsc", None, b"\2", {"id": 1, "_unknown_fields": None}),
        ('format = "avro"\nnew_fields = "column"', "schema.avsc", None, b"\2",
         {"id": 1, "_unknown_fields": None}),
        ('format = "avro"\nregistry = true\nkey = "bytes"', "schema.avsc", b"\0", framed(1, b"\2\4"),
         {"id": 1, "key": b"\0", "_unknown_fields": '{"x":2}'}),
        ('format = "avro"\nregistry = true', "schema.ddl", None, framed(1, b"\2\4"),
         {"id": 1, "_unknown_fields": '{"x":2}'}),
    ],
)  # fmt: skip
def test_each_format_has_its_decoder(
    records: str, schema: str, key: bytes | None, value: bytes, row: object, declare: Declare
) -> None:
    assert callable(declare)
    spec = declare(records, schema)
    decoder = decoder_of(spec, SCHEMAS)
    assert decoder is not None
    assert rows(decoder, key, value) == [row]
    assert not decoder.has_sources
    assert sorted(decoder.schema.names) == sorted(declared_types(spec)), "as its table has them"
    again = decoder_of(declare(records, schema, "[consumer]\nby_reference = true\n"), SCHEMAS)
    assert isinstance(again, ByReference)
    assert rows(again, key, value) == [row]


def test_a_registry_is_needed_only_by_streams_that_declare_one(declare: Declare) -> None:
    assert callable(declare)
    platform = Platform.__new__(Platform)
    object.__setattr__(platform, "registry", None)
    object.__setattr__(platform, "role", "consumer")
    assert registry_of(declare('format = "text"'), platform) is None
    assert registry_of(streams.load("nyc_taxi"), platform) is None
    spec = declare('format = "avro"\nregistry = true', "schema.avsc")
    with raising(ConfigError, "[registry]", "consumer"):
        registry_of(spec, platform)
    with raising(ValueError, "registry"):
        decoder_of(spec)


def test_own_records_are_of_the_value_alone() -> None:
    decoder = decoder_of(streams.load("nyc_taxi"))
    assert isinstance(decoder, OwnRecords)
    assert decoder.has_sources
    assert decoder_of(streams.load("isp_hits")) is None


def test_only_a_table_of_avro_whose_records_name_schemas_follows_them(declare: Declare) -> None:
    by_registry = 'format = "avro"\nregistry = true'
    assert follower_of(declare(by_registry, "schema.avsc"), SCHEMAS) is not None
    assert follower_of(declare('format = "json"\nregistry = true', "schema.ddl"), SCHEMAS) is None
    by_header = declare('format = "avro"\nnew_fields = "column"', "schema.avsc")
    assert follower_of(by_header, SCHEMAS) is not None
    own = replace(streams.load("nyc_taxi"), topic=replace(streams.load("nyc_taxi").topic, registry=True))
    assert own.is_avro
    assert follower_of(own, SCHEMAS) is None
    assert follower_of(declare(by_registry, "schema.avsc"), None) is None


def test_a_change_reads_with_the_names_that_the_table_has(declare: Declare) -> None:
    """What the consumer refuses for a name, or for a column that the table had earlier, a change does too."""
    kinds = {4: ("_source_system", "int"), 5: ("amount", "int"), 6: ("note", "int")}
    schemas = FakeSchemas(
        {
            number: avro({**TREE, "fields": [*FIELDS, {"name": name, "type": kind}]})
            for number, (name, kind) in kinds.items()
        }
    )
    records = 'format = "avro"\nregistry = true\nnew_fields = "column"\nunknown_fields = ""'
    spec = declare(records, "schema.avsc")
    schemas.versions.update({number: {f"{spec.topic.name}-value"} for number in kinds})
    follower = follower_of(spec, schemas)
    assert follower is not None
    columns = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate((("id", "int"), ("amount", "string")), 1)
    ]
    table = SimpleNamespace(schema=lambda: {"fields": columns}, partition_names=frozenset)
    decoder = follower.decoder_of("", cast("Any", table))
    refused = [str(rows(decoder, None, framed(number, b"\2\4"))[0]) for number in kinds]
    assert "cannot be followed: _source_system: " in refused[0]
    assert "an earlier column amount, string" in refused[1]
    # Not followed yet: its record is no row of a change, which follows nothing.
    assert refused[2] == "{'id': 1}"
