"""A whole record of a schema that is another topic's changes no table, and is no row."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sluice.config.reading.protoc import compiled
from sluice.core.decoding.decoder import Decoder
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import ProtobufSchema
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.protobuf import RegisteredProtobuf
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RegistryUnreachable
from sluice.core.registry.schemas import PROTOBUF
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro, by_both, encoded, framed

ORDER = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long", "default": 0}]}
PAYMENT = {"type": "record", "name": "bank.Payment", "fields": [{"name": "iban", "type": "string"}]}
REASON = (
    "schema id 7 cannot be followed: schema id 7 is none of subject orders-value. Fix: register it for the "
    "topic, or name its subject in subjects under [records]"
)
FOLLOWING = Following(topic="orders")
MESSAGE = 'syntax = "proto3"; package shop; message Order { int64 id = 1; '


def of_avro(following: Following = FOLLOWING) -> tuple[RegisteredAvro, FakeSchemas, bytes]:
    schemas = FakeSchemas({1: avro(ORDER), 7: avro(PAYMENT)})
    value = encoded(schemas, 7, {"iban": "NO1"})
    return RegisteredAvro(json.dumps(ORDER), schemas, "_unknown", following=following), schemas, value


def of_protobuf(following: Following = FOLLOWING) -> tuple[RegisteredProtobuf, FakeSchemas, bytes]:
    text = f"{MESSAGE} string iban = 2; }}"
    schemas = FakeSchemas({7: (PROTOBUF, text)})
    own = ProtobufSchema(compiled({"schema.proto": f"{MESSAGE} }}"}, "schema.proto"), "schema.proto")
    table = TableMessage(own, "shop.Order")
    body = b"\0\x12\x03NO1"
    return RegisteredProtobuf(table, schemas, compiled, "_unknown", following), schemas, framed(7, body)


def unfollowed(decoder: Decoder, value: bytes) -> frozenset[int]:
    headers = pa.array([[]], SCHEMA.field("headers").type)
    return decoder.decode(pa.array([value], pa.binary()), headers).unfollowed


@pytest.mark.parametrize("made", [of_avro, of_protobuf])
@pytest.mark.parametrize("subject", ["orders-value", "orders-shop.Order", "shop.Order"])
def test_a_record_of_another_topics_schema_is_rejected_until_it_is_of_this(made: Any, subject: str) -> None:
    decoder, schemas, value = made()
    schemas.versions[7] = {"payments-value", "orders-key", "orders-bank.Payment", "bank.Payment"}
    assert by_both(decoder, [value]) == [REASON]
    assert unfollowed(decoder, value) == {7}, "the stream may declare that it stops there"
    schemas.versions[7].add(subject)
    assert by_both(decoder, [value]) == [{"id": 0, "_unknown": '{"iban":"NO1"}'}]
    assert unfollowed(decoder, value) == {7}


@pytest.mark.parametrize("made", [of_avro, of_protobuf])
def test_a_registry_that_does_not_say_it_is_an_error_of_the_batch(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder, _, value = made()

    def gone(self: FakeSchemas, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        raise RegistryUnreachable("gone")

    monkeypatch.setattr(FakeSchemas, "subjects", gone)
    with raising(RegistryUnreachable, "gone"):
        by_both(decoder, [value])


@pytest.mark.parametrize("made", [of_avro, of_protobuf])
def test_records_of_an_id_that_iceberg_refuses_are_rejected_and_named(made: Any) -> None:
    decoder, schemas, value = made(replace(FOLLOWING, refused={7: "Iceberg refuses its columns: 'no'"}))
    schemas.versions[7] = {"orders-value"}
    reason = "schema id 7 cannot be followed: Iceberg refuses its columns: 'no'"
    assert by_both(decoder, [value]) == [reason]
    # Another id of the same schema is refused by itself, once its records are named beside those.
    schemas.schemas[8], schemas.versions[8] = schemas.schemas[7], {"orders-value"}
    other = value[:4] + b"\x08" + value[5:]
    headers = pa.array([[], []], SCHEMA.field("headers").type)
    assert decoder.decode(pa.array([value, other], pa.binary()), headers).unfollowed == {7, 8}


@pytest.mark.parametrize("made", [of_avro, of_protobuf])
def test_declared_subjects_are_those_of_a_mirrored_topic(made: Any) -> None:
    decoder, schemas, value = made(Following(topic="eu.orders", subjects=("orders-value", "more-value")))
    schemas.versions[7] = {"eu.orders-value"}
    assert by_both(decoder, [value]) == [REASON.replace("orders-value", "orders-value, more-value")]
    schemas.versions[7] = {"more-value"}
    assert by_both(decoder, [value]) == [{"id": 0, "_unknown": '{"iban":"NO1"}'}]
