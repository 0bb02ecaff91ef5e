"""A stream's schema from its table's metadata, its documents and a registry."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from sluice.clients.registry.client import Version as OfSubject
from sluice.clients.s3.requests import split
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.reading.protoc import compiled
from sluice.core.decoding.protobuf.following.written import row_text
from sluice.core.decoding.protobuf.types import type_of
from sluice.core.decoding.registered.protobuf import schema_of
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.registry.errors import RegistryUnreachable, UnknownSchema
from sluice.core.registry.schemas import AVRO, PROTOBUF, RegisteredSchema
from sluice.core.schema_versions import columns, followed
from sluice.core.schema_versions.columns import Came
from sluice.core.schema_versions.offsets import PROPERTY, SchemaOffsets, address
from sluice.trace.stream_schema import MAX_VERSIONS, stream_schema
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.orders_versions import V1, V2, schema

LOCATION = "s3://lake/raw/nyc_taxi"
DECLARED = """
name = "orders"
schema = "schema.avsc"
table = "raw.nyc_taxi"
topic = {name = "orders", managed = false}
consumer = {}
budget = {versions_per_batch = 50}
records = {format = "avro", registry = true, new_fields = "column"}
"""


class Registry:
    """One subject of two versions, of ids 7 and 8; ``error``: that it raises instead."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, 0

    def uses(self, schema_id: int) -> list[tuple[str, int]]:
        self.asked += 1
        if self.error:
            raise self.error
        if schema_id not in (7, 8):
            raise UnknownSchema(f"schema id {schema_id}")
        return [("another-value", 9), ("orders-value", schema_id - 6)]

    def latest(self, subject: str) -> OfSubject:
        return OfSubject(subject, 2, RegisteredSchema(8, AVRO, schema(**V2)))


class Rig:
    """A table with an Avro stream; what its columns are does not matter to the registry's part."""

    def __init__(self, folder: Path) -> None:
        self.s3, self.lake = MemoryS3(), lakes.make(folder)
        declared = folder / "streams" / "orders"
        declared.mkdir(parents=True)
        (declared / "schema.avsc").write_text(schema(**V1))
        (declared / "stream.toml").write_text(DECLARED)
        self.spec = streams.load("orders", {**os.environ, VARIABLE: str(folder / "streams")})

    def say(self, registry: Any) -> Any:
        table = self.lake.table(lakes.TABLE)
        # Its files are on a disk.
        with patch.object(Table, "location", lambda _: LOCATION):
            return stream_schema(self.spec, table, self.s3.as_client(), lambda: registry)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    found = Rig(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "streams"))
    offsets = SchemaOffsets().more({7: {0: (0, 4)}, 8: {0: (5, 9)}}, OffsetRanges.of({0: [(0, 10)]}), 1_000)
    lakes.append(found.lake, [(0, 0)])
    table = found.lake.catalog.load_table(lakes.TABLE)
    table.update_schema().add_column("channel", StringType()).commit()
    field = table.schema().find_field("channel").field_id
    came = columns.with_fields("", range(field, field + 1), Came(2_000, (8,)))
    with table.transaction() as change:
        change.set_properties({PROPERTY: offsets.text(), columns.PROPERTY: came, "sluice.created-at": "500"})
    return found


def test_a_mirrored_topic_is_compared_with_the_subject_that_it_declares(rig: Rig) -> None:
    assert rig.spec.records is not None
    records = replace(rig.spec.records, subjects=["another-value"])
    rig.spec = replace(rig.spec, records=records)
    found = rig.say(Registry())
    assert found.latest.subject == "another-value"
    assert [one.place for one in found.versions] == ["version 9 of another-value"] * 2


def test_columns_versions_and_the_registrys_newest(rig: Rig) -> None:
    found = rig.say(Registry())
    came = {one.name: (one.at, one.is_latest) for one in found.columns}
    assert (came["channel"], came["_kafka_offset"]) == ((2_000, False), (500, False))
    newest, oldest = found.versions
    assert (newest.schema_id, newest.place, newest.offsets, newest.columns) == (
        8, "version 2 of orders-value", "0: 5 to 9", ("channel",)
    )  # fmt: skip
    assert (oldest.schema_id, oldest.place, oldest.columns) == (7, "version 1 of orders-value", ())
    assert (found.latest.version, found.latest.schema_id, found.problem) == (2, 8, "")
    assert [one.path for one in found.latest.differences] == ["address.zip", "lines[].count", "channel"]
    assert json.loads(json.dumps(found.to_json()))["versions"][0]["offsets"] == {"0": [5, 9]}
    assert found.count_text == "2 of 2 ids of records, recorded since: 0: 0"


def test_the_followed_schema_is_what_is_compared(rig: Rig) -> None:
    rig.s3.objects[split(followed.address(LOCATION, "ab"))] = schema(**V2).encode()
    with rig.lake.catalog.load_table(lakes.TABLE).transaction() as change:
        change.set_properties({followed.PROPERTY: "ab"})
    found = rig.say(Registry())
    assert (found.follows, found.latest.result) == ("ab", "the table has all of it")


def test_the_schema_that_it_follows_is_merged_with_the_declaration_as_the_consumer_does(rig: Rig) -> None:
    """The declaration has a field that the followed one lacks: it has its column."""
    rig.s3.objects[split(followed.address(LOCATION, "ab"))] = schema(**V1).encode()
    with rig.lake.catalog.load_table(lakes.TABLE).transaction() as change:
        change.set_properties({followed.PROPERTY: "ab"})
    rig.spec.schema_file.write_text(schema(**V2))
    assert rig.say(Registry()).latest.result == "the table has all of it"
    rig.spec.schema_file.write_text(schema(**{**V1, "number": "string"}))
    said = rig.say(Registry()).latest.note
    assert "schema.avsc is none of what the table follows: number: the table has" in said


def test_a_table_whose_columns_stay_keeps_what_it_has_no_column_for(rig: Rig) -> None:
    records = rig.spec.records
    assert records is not None
    rig.spec = replace(rig.spec, records=replace(records, new_fields="unknown_fields"))
    paths = ["address.zip", "lines[].count", "channel"]
    assert [*map(str, rig.say(Registry()).latest.differences)] == [
        f"{path}: kept in _unknown_fields" for path in paths
    ]
    records = replace(records, new_fields="unknown_fields", unknown_fields="")
    rig.spec = replace(rig.spec, records=records)
    assert [*map(str, rig.say(Registry()).latest.differences)] == [
        f"{path}: left out of the table" for path in paths
    ]


def test_an_earlier_column_or_a_partition_in_the_place_of_a_field_is_said_to_refuse_the_version(
    rig: Rig,
) -> None:
    """As the consumer does: the field is not missing until its record comes."""
    with rig.lake.catalog.load_table(lakes.TABLE).update_schema() as change:
        change.add_column("old", LongType())
        change.add_column("same", StructType(NestedField(0, "x", StringType(), required=False)))
    with rig.lake.catalog.load_table(lakes.TABLE).update_spec() as partitions:
        partitions.add_field("channel", TruncateTransform(2), "channel_trunc")
    x = {"type": "record", "name": "X", "fields": [{"name": "x", "type": "string"}]}
    newest = schema(**V1, old="string", same=x)
    with patch.object(Registry, "latest", lambda *_: OfSubject("s", 2, RegisteredSchema(8, AVRO, newest))):
        (said,) = rig.say(Registry()).latest.differences
    assert str(said).startswith(
        "old: cannot be followed: the table has an earlier column old, long, the schema string. Fix: give"
    )
    newest = schema(**V1, channel_trunc="string")
    with patch.object(Registry, "latest", lambda *_: OfSubject("s", 2, RegisteredSchema(8, AVRO, newest))):
        (said,) = rig.say(Registry()).latest.differences
    assert "the table has a partition channel_trunc" in str(said)


PROTO = 'syntax = "proto3"; package shop; message Order {{ int64 id = 1; {} }}'


class MessageRegistry(Registry):
    """The newest version is one of Protobuf, with a field more than its text names."""

    def __init__(self, fields: str) -> None:
        super().__init__()
        self._text = PROTO.format(fields)

    def latest(self, subject: str) -> OfSubject:
        return OfSubject(subject, 2, RegisteredSchema(8, PROTOBUF, self._text))


def test_a_message_is_compared_by_the_numbers_of_its_fields(rig: Rig) -> None:
    newest = MessageRegistry("string mail = 2; map<string, int32> counts = 3;")
    assert rig.say(newest).latest.note == "not compared: it is of type PROTOBUF, and the table's of AVRO"
    declared = rig.spec.schema_file.parent
    (declared / "schema.proto").write_text(PROTO.format("string email = 2;"))
    (declared / "stream.toml").write_text(
        DECLARED.replace("schema.avsc", "schema.proto").replace("avro", "protobuf")
    )
    rig.spec = streams.load("orders")
    found = rig.say(newest).latest
    assert [str(one) for one in found.differences] == ["counts: missing in the table (map<string, int>)"]
    (said,) = rig.say(MessageRegistry("int32 email = 2;")).latest.differences
    assert str(said).startswith("email: cannot be followed: ")
    staying = rig.spec
    assert staying.records is not None
    rig.spec = replace(staying, records=replace(staying.records, new_fields="unknown_fields"))
    parts = MessageRegistry("string mail = 2; map<string, Part> parts = 3; } message Part { int32 n = 1;")
    assert [*map(str, rig.say(parts).latest.differences)] == [
        f"{path}: kept in _unknown_fields" for path in ("mail", "parts")
    ]
    nested = "map<string, Part> parts = 3; repeated Part each = 4; }} message Part {{ int32 n = 1; {} "
    (declared / "schema.proto").write_text(PROTO.format(nested.format("")))
    parts = MessageRegistry(nested.format("bool m = 2;"))
    assert [*map(str, rig.say(parts).latest.differences)] == [
        f"{path}[].m: kept in _unknown_fields" for path in ("parts", "each")
    ]
    (declared / "schema.proto").write_text(PROTO.format("string email = 2;"))
    rig.spec = staying
    # With its column, as the table follows it.
    followed_text = row_text("shop.Order", type_of(compiled_of(newest), by_number=True))
    rig.s3.objects[split(followed.address(LOCATION, "ab", followed.PROTOBUF))] = followed_text.encode()
    with rig.lake.catalog.load_table(lakes.TABLE).transaction() as change:
        change.set_properties({followed.PROPERTY: "ab"})
    assert rig.say(newest).latest.result == "the table has all of it"


def compiled_of(registry: MessageRegistry) -> Any:
    return schema_of(registry.latest("orders-value").schema, compiled).message("shop.Order")


def test_a_field_that_contains_itself_is_no_difference_where_it_is_a_text(rig: Rig) -> None:
    node = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}'
    registry = Registry()
    with patch.object(Registry, "latest", lambda *_: OfSubject("s", 1, RegisteredSchema(8, AVRO, node))):
        rig.spec.schema_file.write_text(node)
        assert "next is a Node inside of another one" in rig.say(registry).problem
        toml = rig.spec.schema_file.with_name("stream.toml")
        toml.write_text(DECLARED.replace("registry = true", 'registry = true, recursive_fields = "json"'))
        rig.spec = streams.load("orders")
        assert rig.say(registry).latest.result == "the table has all of it"


def test_a_registry_that_is_down_is_a_problem_of_its_part(rig: Rig) -> None:
    registry = Registry(RegistryUnreachable("schema registry 'main': refused"))
    found = rig.say(registry)
    assert (found.latest, found.problem, registry.asked) == (None, "schema registry 'main': refused", 1)
    assert [(one.schema_id, one.place) for one in found.versions] == [(8, ""), (7, "")]
    assert found.columns


def test_ids_in_the_document_are_there_and_the_newest_are_asked_for(rig: Rig) -> None:
    many = SchemaOffsets()
    for number in range(50):
        many = many.more({number: {0: (number, number)}}, OffsetRanges.of({0: [(number, number + 1)]}), 1)
    moved, text = many.moved()
    rig.s3.objects[split(address(LOCATION, moved.document))] = text.encode()
    with rig.lake.catalog.load_table(lakes.TABLE).transaction() as change:
        change.set_properties({PROPERTY: moved.text()})
    registry = Registry()
    found = rig.say(registry)
    assert (found.seen_versions, registry.asked) == (50, MAX_VERSIONS)
    assert [one.schema_id for one in found.versions] == [*range(49, 49 - MAX_VERSIONS, -1)]
    assert found.versions[0].place == "not in the registry any more"


def test_a_stream_without_a_registry_asks_none(rig: Rig) -> None:
    records = rig.spec.records
    assert records is not None
    rig.spec = replace(rig.spec, records=replace(records, registry=False, new_fields="unknown_fields"))
    with rig.lake.catalog.load_table(lakes.TABLE).transaction() as change:
        change.set_properties({followed.PROPERTY: "ab"})
    registry = Registry()
    found = rig.say(registry)
    assert (found.has_registry, found.versions, registry.asked) == (False, (), 0)
    assert found.to_json()["follows"] == "ab", "as a stream that follows fingerprints"
    assert {one.name for one in found.columns} >= {"channel", "_kafka_offset"}


def test_the_types_of_columns_have_no_ids(rig: Rig) -> None:
    line = StructType(NestedField(90, "sku", StringType()), NestedField(91, "pieces", LongType()))
    nested = ListType(92, line)
    rig.lake.catalog.load_table(lakes.TABLE).update_schema().add_column("lines", nested).commit()
    kinds = {one.name: one.type for one in rig.say(Registry()).columns}
    assert kinds["lines"] == "list<struct<sku: string, pieces: long>>"
    assert kinds["_kafka_offset"] == "long"
