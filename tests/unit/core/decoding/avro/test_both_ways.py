"""The columnar way, the reference and fastavro by itself agree, whatever the schema and the bytes."""

from __future__ import annotations

import io
import json
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from tests.support.avro_bodies import Chance, decode

RANDOM = st.randoms(use_true_random=False)


@given(RANDOM)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_what_any_writer_wrote_is_read_by_all_three(random: Random) -> None:
    valid_bodies(Chance(random), 12)


@given(RANDOM)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_other_bytes_have_one_answer(random: Random) -> None:
    other_bodies(Chance(random), 30)


@given(RANDOM)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_bodies_of_an_earlier_schema_are_read_by_all_three(random: Random) -> None:
    earlier_bodies(Chance(random), 12)


@pytest.mark.exhaustive
def test_a_hundred_thousand_bodies_have_one_answer() -> None:
    for seed in range(400):
        valid_bodies(seeded(seed), 50)
        other_bodies(seeded(seed), 150)
        earlier_bodies(seeded(seed), 50)


def seeded(seed: int) -> Chance:
    return Chance(Random(seed))  # noqa: S311


def valid_bodies(chance: Chance, number: int) -> None:
    schema = chance.schema()
    bodies = [chance.body(schema) for _ in range(number)]
    decoder, own = AvroDecoder(json.dumps(schema)), fastavro.parse_schema(schema)
    for body, row in zip(bodies, accepted(decoder, bodies), strict=True):
        assert is_equal(simple(row), fastavros(fastavro.schemaless_reader(io.BytesIO(body), own, None)))


def other_bodies(chance: Chance, number: int) -> None:
    schema = chance.schema()
    decoder = AvroDecoder(json.dumps(schema))
    bodies = [chance.mutated(chance.body(schema), chance.body(schema)) for _ in range(number)]
    rows, reasons = answers(decoder, bodies)
    for body, row, reason in zip(bodies, rows, reasons, strict=True):
        value, why = None, None
        try:
            value = decoder.reference(body, [])
        except Malformed as malformed:
            why = str(malformed)
        assert reason == why
        assert reason or is_equal(row, value)


def earlier_bodies(chance: Chance, number: int) -> None:
    earlier = chance.schema()
    current = chance.later(earlier)
    decoder = AvroDecoder(json.dumps(current), (json.dumps(earlier),))
    writer, reader = fastavro.parse_schema(earlier), fastavro.parse_schema(current)
    bodies = [chance.body(earlier) for _ in range(number)]
    header = decoder.fingerprints[-1].encode()
    for body, row in zip(bodies, accepted(decoder, bodies, header), strict=True):
        value = fastavro.schemaless_reader(io.BytesIO(body), writer, reader)
        assert is_equal(simple(row), fastavros(value))


def accepted(decoder: AvroDecoder, bodies: list[bytes], header: bytes | None = None) -> list[dict[str, Any]]:
    """The rows of bodies that both ways accept, equally."""
    rows, reasons = answers(decoder, bodies, header)
    assert reasons == [None] * len(bodies)
    headers = [] if header is None else [(b"avro-schema", header)]
    for body, row in zip(bodies, rows, strict=True):
        assert is_equal(row, decoder.reference(body, headers))
    return rows


def answers(
    decoder: AvroDecoder, bodies: list[bytes], header: bytes | None = None
) -> tuple[list[dict[str, Any]], list[str | None]]:
    found = decode(decoder, [*bodies], header)
    found.columns.validate(full=True)
    rows = []
    for number in range(len(bodies)):
        one = found.columns.slice(number, 1)
        try:
            rows += one.to_pylist()
        except (ValueError, OverflowError):
            # A time beyond Python's.
            kind = pa.struct(list(decoder.schema))
            struct = pa.StructArray.from_arrays(one.columns, fields=list(kind))
            rows += struct.cast(without_times(kind)).to_pylist()
    return rows, found.reasons.to_pylist()


@pytest.mark.parametrize("seed", range(3))
def test_a_valid_body_is_not_left_to_the_reference(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "value", None)
    chance = seeded(seed)
    schema = chance.schema()
    decode(AvroDecoder(json.dumps(schema)), [chance.body(schema) for _ in range(50)])


def simple(value: Any) -> Any:
    """A value of PyArrow, without what fastavro's does not say: a branch's place, and that it is a map."""
    if isinstance(value, dict):
        if value and all(name.startswith("member") for name in value):
            (value,) = [one for one in value.values() if one is not None] or [None]
            return simple(value)
        return {name: simple(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: simple(one) for key, one in value}
    return [simple(one) for one in value] if isinstance(value, list) else value


def fastavros(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: fastavros(one) for name, one in value.items()} or []
    return [fastavros(one) for one in value] if isinstance(value, list) else value


def is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other)
    if isinstance(one, datetime | date | Decimal):
        return type(one) is type(other) and bool(one == other)
    # An int of a union that is read as a double.
    return type(one) in (type(other), float) and bool(one == other)
