"""Schemas of a registry that is a dictionary, and records that name them."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.decoder import Decoder, Malformed
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import UnknownSchema
from sluice.core.registry.schemas import AVRO, RegisteredSchema


class FakeSchemas:
    """``schemas``: id -> type and text, or the error that asking for it raises. ``asked``: the ids;
    ``versions``: id -> its subjects."""

    def __init__(self, schemas: dict[int, tuple[str, str] | Exception]) -> None:
        self.schemas, self.asked = schemas, list[int]()
        self.versions: dict[int, set[str]] = {}

    def get(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        found = self.schemas.get(schema_id, UnknownSchema(f"schema id {schema_id} is not in the registry"))
        if isinstance(found, Exception):
            raise found
        return RegisteredSchema(schema_id, *found)

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        return among & self.versions.get(schema_id, set())


def avro(tree: Any) -> tuple[str, str]:
    return AVRO, json.dumps(tree)


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def encoded(schemas: FakeSchemas, schema_id: int, value: Any) -> bytes:
    """As Confluent's serializer writes it: the body by fastavro."""
    found = schemas.schemas[schema_id]
    assert not isinstance(found, Exception)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(found[1])), value)
    return framed(schema_id, out.getvalue())


def by_both(
    decoder: Decoder, values: Sequence[bytes | None], then: Callable[[], object] | None = None
) -> list[Any]:
    """The row or the reason of each, without headers; the reference must agree, even if ``then`` is called
    before it is asked."""
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = decoder.decode(pa.array(values, pa.binary()), headers)
    found.columns.validate(full=True)
    kind = pa.struct(list(decoder.schema))
    said = list[Any]()
    for row, reason in enumerate(found.reasons.to_pylist()):
        one = pa.StructArray.from_arrays(found.columns.slice(row, 1).columns, fields=list(kind))
        said.append(_row(one, kind) if reason is None else reason)
    if then is not None:
        then()
    for value, answer in zip(values, said, strict=True):
        try:
            expected: Any = decoder.reference(value, [])
        except Malformed as error:
            expected = str(error)
        assert is_same(answer, expected), (answer, expected)
    return said


def _row(one: pa.StructArray, kind: pa.StructType) -> Any:
    try:
        return one.to_pylist()[0]
    # A time beyond Python's.
    except (ValueError, OverflowError):
        return one.cast(without_times(kind)).to_pylist()[0]


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
