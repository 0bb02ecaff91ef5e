"""The reference alone gives the rows and reasons that both give."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sluice.config import streams
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import Decoder, OwnRecords
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.record_batches.records import SCHEMA
from spark_jobs.common.kafka.avro import Schemas
from tests.support.avro_bodies import fields
from tests.support.hostile_records import cases, zigzag

Sent = Sequence[tuple[str, str | bytes | None]]


def assert_the_same(decoder: Decoder, values: Sequence[bytes | None], sent: Sequence[Sent] = ()) -> None:
    headers = [
        [
            {"key": name.encode(), "value": text.encode() if isinstance(text, str) else text}
            for name, text in each
        ]
        for each in sent or [[]] * len(values)
    ]
    given = pa.array(values, pa.binary()), pa.array(headers, SCHEMA.field("headers").type)
    expected = decoder.decode(*given)
    found = ByReference(OwnRecords(decoder)).decode(pa.nulls(len(values), pa.binary()), *given)
    assert found.reasons.equals(expected.reasons)
    assert found.columns.schema == decoder.schema
    good = expected.reasons.is_null()
    assert found.columns.filter(good).equals(expected.columns.filter(good))


def test_avro_with_headers_and_what_others_send() -> None:
    current = Schemas.load(streams.load("nyc_taxi")).current
    tried = cases(current)
    assert_the_same(
        AvroDecoder(current.text), [value for _, value, *_ in tried], [each for *_, each, _ in tried]
    )


def test_times_beyond_those_of_python() -> None:
    micros = fields({"type": "long", "logicalType": "timestamp-micros"})
    assert_the_same(AvroDecoder(micros), [zigzag(2**63 - 1), zigzag(1), b"", None])


def test_json() -> None:
    decoder = JsonDecoder({"a": "int", "b": "timestamp", "c": "decimal(10,2)"})
    texts = ['{"a": 1, "b": "2026-01-01T00:00:00Z", "c": 1.25}', '{"a": "x"}', "[", '{"a": 1e0}', "{}"]
    assert_the_same(decoder, [None, *(text.encode() for text in texts)])


def test_no_records() -> None:
    assert_the_same(JsonDecoder({"a": "int"}), [])
