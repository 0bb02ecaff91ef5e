"""Records of Sluice's producers with a registry: framed, plain from before, and of schemas of others."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.registered.own import OwnRegisteredAvro
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RegistryUnreachable
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro, encoded

ID: dict[str, Any] = {"name": "id", "type": "long"}
TIP: dict[str, Any] = {"name": "tip", "type": ["null", "double"], "default": None}
OLD: dict[str, Any] = {"name": "old", "type": "string"}


def tree(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


NOW, BEFORE, GIVEN_UP, OF_OTHERS = tree(ID, TIP), tree(ID), tree(ID, OLD), tree(ID, TIP, {**OLD, "name": "x"})
SCHEMAS = FakeSchemas(
    {1: avro(NOW), 2: avro(BEFORE), 3: avro(GIVEN_UP), 4: avro(OF_OTHERS), 5: ("JSON", "{}")}
)
DECODER = OwnRegisteredAvro(json.dumps(NOW), (json.dumps(BEFORE), json.dumps(GIVEN_UP)), SCHEMAS)
LOST = "schema id 4 cannot be read: it has fields that the table lacks, and they would be lost: x"


def plain(schema: dict[str, Any], value: dict[str, Any]) -> tuple[bytes, list[tuple[bytes, bytes | None]]]:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue(), [(b"avro-schema", parsed(json.dumps(schema)).fingerprint.encode())]


def framed(schema_id: int, value: dict[str, Any]) -> tuple[bytes, list[tuple[bytes, bytes | None]]]:
    return encoded(SCHEMAS, schema_id, value), []


RECORDS: list[tuple[bytes | None, list[tuple[bytes, bytes | None]]]] = [
    framed(1, {"id": 0, "tip": 0.5}),
    plain(NOW, {"id": 1, "tip": 1.5}),
    framed(2, {"id": 2}),
    plain(BEFORE, {"id": 3}),
    framed(3, {"id": 4, "old": "a"}),
    plain(GIVEN_UP, {"id": 5, "old": "a"}),
    framed(4, {"id": 6, "tip": None, "x": "a"}),
    (None, []),
    (b"\2\0", []),
    framed(1, {"id": 9, "tip": None}),
]
EXPECTED = [
    {"id": 0, "tip": 0.5}, {"id": 1, "tip": 1.5}, {"id": 2, "tip": None}, {"id": 3, "tip": None},
    {"id": 4, "tip": None}, {"id": 5, "tip": None}, LOST, "the record has no value (a tombstone)",
    "starts with 02, not Confluent's wire format (00 and a schema id)", {"id": 9, "tip": None},
]  # fmt: skip


def decode(records: Sequence[tuple[bytes | None, list[tuple[bytes, bytes | None]]]]) -> list[Any]:
    headers = [[{"key": key, "value": value} for key, value in each] for _, each in records]
    found = pickle.loads(pickle.dumps(DECODER)).decode(  # noqa: S301
        pa.array([value for value, _ in records], pa.binary()),
        pa.array(headers, SCHEMA.field("headers").type),
    )
    rows = zip(found.reasons.to_pylist(), found.columns.to_pylist(), strict=True)
    return [row if reason is None else reason for reason, row in rows]


def test_all_at_once_in_their_order() -> None:
    assert decode(RECORDS) == EXPECTED


@pytest.mark.parametrize("rows", [range(1, 6, 2), range(0, 7, 2), range(0)], ids=["plain", "framed", "none"])
def test_of_one_kind_alone(rows: range) -> None:
    assert decode([RECORDS[row] for row in rows]) == [EXPECTED[row] for row in rows]


def test_the_reference_says_the_same() -> None:
    for (value, headers), expected in zip(RECORDS, EXPECTED, strict=True):
        if isinstance(expected, str):
            with raising(Malformed, expected):
                DECODER.reference(value, headers)
        else:
            assert DECODER.reference(value, headers) == expected


def test_a_registry_that_does_not_answer_rejects_nothing() -> None:
    away = OwnRegisteredAvro(json.dumps(NOW), (), FakeSchemas({1: RegistryUnreachable("away")}))
    empty = pa.array([[]], SCHEMA.field("headers").type)
    with raising(RegistryUnreachable, "away"):
        away.decode(pa.array([framed(1, {"id": 0, "tip": 0.5})[0]], pa.binary()), empty)


def test_the_schemas_of_framed_records_are_known_by_their_rows() -> None:
    values, headers = zip(*RECORDS, strict=True)
    lists = pa.array(
        [[{"key": key, "value": value} for key, value in each] for each in headers],
        SCHEMA.field("headers").type,
    )
    found = DECODER.decode(pa.array(values, pa.binary()), lists)
    assert found.schemas == {1: (0, 9), 2: (2, 2), 3: (4, 4)}
