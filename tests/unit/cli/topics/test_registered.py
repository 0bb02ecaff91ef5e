"""What `new-stream --topic` learns of a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluice.cli import new_stream
from sluice.cli.topics import registered
from sluice.cli.topics.look import FoundTopic
from sluice.cli.topics.registered import FoundSchemas
from sluice.clients.registry.client import RegistryClient
from sluice.config import streams
from sluice.config.platform_sections.registry import Registry
from sluice.core.decoding.sample import Sampled, guess
from tests.support.registered import FakeSchemas, avro, encoded, framed
from tests.support.registry_server import Answer, RegistryServer, serving

pytestmark = pytest.mark.usefixtures("socket_enabled")
ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
FIRST = {"type": "record", "name": "Order", "namespace": "shop", "fields": [ID]}
SECOND = {**FIRST, "fields": [ID, NOTE]}
SCHEMAS = FakeSchemas({1: avro(FIRST), 2: avro(SECOND), 3: avro("string")})


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serving() as made:
        for schema_id, (kind, text) in ((1, avro(FIRST)), (2, avro(SECOND)), (3, avro("string"))):
            made.answers[f"/schemas/ids/{schema_id}"] = Answer({"schema": text, "schemaType": kind})
        yield made


def versions(server: RegistryServer, subject: str, *ids: int) -> None:
    newest = {"subject": subject, "id": ids[-1], "version": len(ids), "schema": json.dumps(SECOND)}
    server.answers[f"/subjects/{subject}/versions/latest"] = Answer(newest)
    server.answers[f"/subjects/{subject}/versions"] = Answer(list(range(1, len(ids) + 1)))
    server.answers[f"/config/{subject}?defaultToGlobal=true"] = Answer({"compatibilityLevel": "BACKWARD"})


def missing(server: RegistryServer, *subjects: str) -> None:
    for subject in subjects:
        unknown = Answer({"error_code": 40401, "message": "no subject"}, 404)
        server.answers[f"/subjects/{subject}/versions/latest"] = unknown


def look(server: RegistryServer, values: Sequence[bytes | None], keys: Any = ()) -> FoundSchemas:
    client = RegistryClient(Registry(server.url, name="tests"))
    keys = list(keys) or [None] * len(values)
    records = [Sampled(*both, offset=at) for at, both in enumerate(zip(values, keys, strict=True))]
    return registered.look(client, "orders", records, guess(records))


def test_the_newest_version_of_the_topics_subject_is_the_tables(server: RegistryServer) -> None:
    versions(server, "orders-value", 1, 2)
    values = [encoded(SCHEMAS, 1, {"id": 7}), encoded(SCHEMAS, 2, {"id": 8, "note": "x"}), None]
    found = look(server, values)
    assert json.loads(found.guess.schema) == SECOND
    assert (found.guess.format, found.guess.is_registered, found.guess.subjects) == ("avro", True, "topic")
    assert found.guess.columns == {"id": "int64", "note": "string"}
    assert found.seen == [
        "subject orders-value, version 2 of 2, schema id 2, compatibility BACKWARD",
        "schema ids 1, 2",
    ]
    assert [doubt for doubt in found.guess.doubts if "tombstones" not in doubt] == []


def test_a_subject_by_the_records_name(server: RegistryServer) -> None:
    missing(server, "orders-value")
    versions(server, "shop.Order", 1, 2)
    assert look(server, [encoded(SCHEMAS, 1, {"id": 7})]).guess.subjects == "record"


def test_without_a_subject_the_highest_id_of_the_sample_counts(server: RegistryServer) -> None:
    missing(server, "orders-value", "shop.Order", "orders-shop.Order")
    server.answers["/schemas/ids/2/versions"] = Answer([])
    # The newest is of the fewest records.
    values = [encoded(SCHEMAS, 1, {"id": 7})] * 3 + [encoded(SCHEMAS, 2, {"id": 8, "note": None})]
    found = look(server, values[::-1])
    assert json.loads(found.guess.schema) == SECOND
    found = look(server, [*values, *[values[-1]] * 5])
    assert json.loads(found.guess.schema) == SECOND
    assert "no usual subject" in found.seen[0]


def test_the_only_subject_of_another_topic_is_that_of_a_mirror(server: RegistryServer) -> None:
    missing(server, "orders-value", "shop.Order", "orders-shop.Order")
    versions(server, "eu-value", 1, 2)
    found = [{"subject": "eu-value", "version": 1}, {"subject": "eu-key", "version": 3}]
    server.answers["/schemas/ids/1/versions"] = Answer(found)
    mirrored = look(server, [encoded(SCHEMAS, 1, {"id": 7})])
    assert json.loads(mirrored.guess.schema) == SECOND
    assert mirrored.seen[0].startswith("subject eu-value, version 2 of 2")
    assert 'subjects = ["eu-value"]' in new_stream._registry_lines(mirrored.guess)
    # Nothing tells which one of several it is.
    server.answers["/schemas/ids/1/versions"] = Answer([*found, {"subject": "us-value", "version": 1}])
    of_several = look(server, [encoded(SCHEMAS, 1, {"id": 7})])
    assert "no usual subject" in of_several.seen[0]
    assert "subjects" not in new_stream._registry_lines(of_several.guess)


def test_what_does_not_fit_is_a_doubt(server: RegistryServer) -> None:
    versions(server, "orders-value", 1, 2)
    server.answers["/schemas/ids/9"] = Answer({"error_code": 40403, "message": "no"}, 404)
    good = encoded(SCHEMAS, 2, {"id": 8, "note": None})
    doubts = look(server, [good, good, framed(9, b"x"), framed(2, b"\xff")]).guess.doubts
    assert any("schema id 9" in doubt for doubt in doubts)
    assert any(
        doubt.startswith("2 of 4 values would be rejected, the first in partition 0, offset 2: ")
        for doubt in doubts
    )


def test_keys_of_the_registry(server: RegistryServer) -> None:
    versions(server, "orders-value", 1, 2)
    found = look(server, [encoded(SCHEMAS, 1, {"id": 7})], [encoded(SCHEMAS, 3, "a")])
    assert found.guess.key == "avro"


def test_json_behind_the_id_of_a_schema(server: RegistryServer) -> None:
    server.answers["/schemas/ids/4"] = Answer({"schema": '{"type": "object"}', "schemaType": "JSON"})
    found = look(server, [framed(4, b'{"id": 1}'), framed(4, b'{"id": 2}')]).guess
    assert (found.format, found.is_registered, found.columns) == ("json", True, {"id": "BIGINT"})


HEAD = 'syntax = "proto3"; package shop;'
ITEM = f"{HEAD} message Item {{ string sku = 1; }}"
ORDER = (
    f'{HEAD} import "shop/item.proto"; message Other {{}} message Order {{ int64 id = 1; Item item = 2; }}'
)


def of_protobuf(server: RegistryServer, text: str = ORDER, name: str = "shop/item.proto") -> None:
    """The newest version lacks nothing; records name schema id 5."""
    references = [{"name": name, "subject": "item", "version": 1}]
    server.answers["/subjects/item/versions/1?deleted=true"] = Answer(
        {"schema": ITEM, "schemaType": "PROTOBUF"}
    )
    found = {"schema": text, "schemaType": "PROTOBUF", "references": references}
    server.answers["/schemas/ids/5"] = Answer(found)
    versions(server, "shop.Order", 5)
    newest = server.answers["/subjects/shop.Order/versions/latest"].body | found
    server.answers["/subjects/shop.Order/versions/latest"] = Answer(newest)
    missing(server, "orders-value")


def test_messages_of_protobuf(server: RegistryServer) -> None:
    of_protobuf(server)
    values = [framed(5, b"\2\2\x08\7"), framed(5, b"\2\2\x38\7"), framed(5, b"\0"), framed(5, b"\2\2\x08")]
    found = look(server, values)
    guessed = found.guess
    assert (guessed.format, guessed.is_registered, guessed.subjects) == ("protobuf", True, "record")
    assert (guessed.message, guessed.schema, guessed.imports) == (
        "shop.Order",
        ORDER,
        {"shop/item.proto": ITEM},
    )
    assert guessed.columns == {"id": "int64", "item": "struct<sku: string>"}
    assert [doubt.partition(": ")[0] for doubt in guessed.doubts] == [
        "its records are several messages",
        "2 of 4 values would be rejected, the first in partition 0, offset 2",
        "1 of 4 values have fields that the schema lacks",
    ]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("syntax = 'x'", "a.proto", "cannot be used"),
        (
            ORDER.replace("Item item", "Item ID"),
            "shop/item.proto",
            "shop.Order: column 'ID' and 'id' differ in case",
        ),
        (ORDER.replace("int64 id", "Item _kafka_offset"), "shop/item.proto", "_kafka_offset"),
        (ORDER.replace("shop/item.proto", "../a.proto"), "../a.proto", "cannot be the name of a file"),
        (ORDER.replace("shop/item.proto", "stream.py"), "stream.py", "imports 'stream.py'"),
        (ORDER.replace("shop/item.proto", "schema.proto"), "schema.proto", "imports 'schema.proto'"),
    ],
)
def test_messages_that_can_be_no_table_stay_bytes(
    server: RegistryServer, text: str, name: str, said: str
) -> None:
    of_protobuf(server, text, name)
    missing(server, "orders-shop.Order")
    server.answers["/schemas/ids/5/versions"] = Answer([])
    found = look(server, [framed(5, b"\2\2\x08\7")]).guess
    assert (found.format, found.is_registered) == ("bytes", False)
    assert any(said in doubt for doubt in found.doubts), found.doubts


def test_the_written_folder_is_a_stream_of_the_message(server: RegistryServer, tmp_path: Path) -> None:
    of_protobuf(server)
    found = look(server, [framed(5, b"\2\2\x08\7")])
    topic = FoundTopic("orders", 1, found.guess, found.seen, [])
    environ = {"SLUICE_STREAMS": str(tmp_path)}
    new_stream.main("orders", "topic", tmp_path, environ, found=topic)
    spec = streams.load("orders", environ)
    assert (spec.schema, spec.is_protobuf) == ("schema.proto", True)
    assert spec.records is not None
    assert (spec.records.message, spec.records.registry) == ("shop.Order", True)
    assert (tmp_path / "orders" / "shop" / "item.proto").read_text() == ITEM


NODE = {"name": "next", "type": ["null", "Order"], "default": None}
TREE = {**FIRST, "fields": [ID, NODE]}


def test_a_recursive_schema_is_a_stream_whose_field_is_a_text(server: RegistryServer, tmp_path: Path) -> None:
    """And one that its declaration accepts."""
    versions(server, "orders-value", 1, 6)
    kind, text = avro(TREE)
    server.answers["/schemas/ids/6"] = Answer({"schema": text, "schemaType": kind})
    newest = {**server.answers["/subjects/orders-value/versions/latest"].body, "schema": text}
    server.answers["/subjects/orders-value/versions/latest"] = Answer(newest)
    value = encoded(FakeSchemas({6: avro(TREE)}), 6, {"id": 1, "next": {"id": 2, "next": None}})
    found = look(server, [value])
    assert found.guess.columns == {"id": "int64", "next": "string"}
    (doubt,) = found.guess.doubts
    assert doubt.startswith(
        "schema id 6 is recursive: next is a shop.Order inside of another one. Such fields"
    )
    spec = written_stream(found, tmp_path)
    assert (spec.schema, spec.records.recursive_fields, spec.records.follows) == ("schema.avsc", "json", True)


def test_a_recursive_message_is_one_too(server: RegistryServer, tmp_path: Path) -> None:
    of_protobuf(server, ORDER.replace("Item item", "Order item"))
    found = look(server, [framed(5, b"\2\2\x08\7")])
    assert found.guess.columns == {"id": "int64", "item": "string"}
    assert (
        "schema id 5 is recursive: item is a shop.Order inside of another one. Such" in found.guess.doubts[0]
    )
    assert written_stream(found, tmp_path).records.recursive_fields == "json"


def written_stream(found: FoundSchemas, folder: Path) -> Any:
    environ = {"SLUICE_STREAMS": str(folder)}
    topic = FoundTopic("orders", 1, found.guess, found.seen, [])
    new_stream.main("orders", "topic", folder, environ, found=topic)
    return streams.load("orders", environ)


def test_records_without_a_schema_ask_nothing(server: RegistryServer) -> None:
    assert look(server, [b'{"id": 1}']).guess.format == "json"
    assert not server.requests


def test_a_header_that_names_the_schema_is_not_overlooked(server: RegistryServer) -> None:
    versions(server, "orders-value", 1, 2)
    value, headers = encoded(SCHEMAS, 2, {"id": 8, "note": None}), [(b"__value_schema_id", b"\1" + b"x" * 16)]
    records = [Sampled(value), Sampled(value), Sampled(value, headers=headers, offset=7)]
    found = registered.look(
        RegistryClient(Registry(server.url, name="tests")), "orders", records, guess(records)
    )
    (doubt,) = [one for one in found.guess.doubts if "rejected" in one]
    assert doubt.startswith("1 of 3 values would be rejected, the first in partition 0, offset 7: its header")
