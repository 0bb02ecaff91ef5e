"""JSON behind the id of a JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.decoder import TOMBSTONE, Decoder, Malformed
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.others.json_texts import JsonTextDecoder
from sluice.core.decoding.registered.json import RegisteredJson
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RegistryUnreachable
from sluice.core.registry.subjects import Part
from tests.support.registered import FakeSchemas, avro, by_both, framed

SCHEMAS = FakeSchemas(
    {1: ("JSON", '{"type": "string"}'), 2: avro("int"), 3: RegistryUnreachable("no answer")}
)
VALUES = RegisteredJson(JsonDecoder({"id": "bigint"}, "_unknown_fields"), SCHEMAS)
KEYS = RegisteredJson(JsonTextDecoder("key"), SCHEMAS, Part.KEY, is_optional=True)


def decoded(decoder: Decoder, values: Sequence[bytes | None]) -> list[dict[str, Any] | str]:
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = decoder.decode(pa.array([b"x", *values], pa.binary())[1:], headers)
    assert found.columns.schema == decoder.schema
    rows = zip(found.columns.to_pylist(), found.reasons.to_pylist(), strict=True)
    said = [row if reason is None else reason for row, reason in rows]
    assert said == [by_reference(decoder, value) for value in values]
    return said


def by_reference(decoder: Decoder, value: bytes | None) -> dict[str, Any] | str:
    try:
        return dict(decoder.reference(value, ()))
    except Malformed as error:
        return str(error)


def test_values_are_what_is_behind_the_id_and_the_schema_is_not_evaluated() -> None:
    sent = [framed(1, b'{"id": 7, "z": 1.0}'), framed(2, b'{"id": 7}'), framed(9, b"{}"), b'{"id": 7}', None]
    sent += [framed(1, b"["), framed(1, b""), framed(1, b'{"id": "x"}')]
    found = decoded(VALUES, sent)
    assert found[0] == {"id": 7, "_unknown_fields": '{"z": 1.0}'}
    said = [
        "schema id 2 is of type AVRO, and the stream's format is json",
        "schema id 9 is not in the registry",
        "not Confluent's wire format",
        TOMBSTONE,
        "not JSON",
        "it is empty",
        'id is "x"',
    ]
    for words, reason in zip(said, found[1:], strict=True):
        assert words in reason
    assert decoded(VALUES, sent * 10) == found * 10
    lists = pa.array([[]] * 2 * len(sent), SCHEMA.field("headers").type)
    assert VALUES.decode(pa.array(sent * 2), lists).schemas == {1: (0, len(sent))}


def test_keys_may_have_no_frame() -> None:
    found = decoded(KEYS, [framed(1, b'{"a":1}'), b'{"a": 2}', b"", b"x", framed(2, b"1"), b"\0\0", None])
    assert found[:2] == [{"key": '{"a":1}'}, {"key": '{"a": 2}'}]
    said = ["it is empty", "not JSON", "of type AVRO", "too short for a schema id", TOMBSTONE]
    for words, reason in zip(said, found[2:], strict=True):
        assert words in reason


def test_a_schema_that_is_registered_between_decoding_and_the_sample_differs_in_nothing() -> None:
    schemas = FakeSchemas({})
    decoder = RegisteredJson(JsonDecoder({"id": "bigint"}, ""), schemas)
    sent = [framed(1, b'{"id": 7}')]
    said = by_both(decoder, sent, then=lambda: schemas.schemas.update({1: ("JSON", "{}")}))
    assert said == ["schema id 1 is not in the registry"]
    assert by_both(decoder, sent) == [{"id": 7}]


def test_a_registry_that_cannot_be_asked_fails_the_batch() -> None:
    with pytest.raises(RegistryUnreachable):
        VALUES.decode(pa.array([framed(3, b"{}")]), pa.array([[]], SCHEMA.field("headers").type))
