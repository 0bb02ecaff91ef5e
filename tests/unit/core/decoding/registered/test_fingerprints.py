"""Records whose header names their schema, of a table that follows these schemas."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.decoder import Decoded, Malformed, RawHeaders
from sluice.core.decoding.registered.fingerprints import FingerprintAvro, fingerprint_of, id_of
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import UnknownSchema
from sluice.core.registry.schemas import AVRO, RegisteredSchema
from tests.unit.core.decoding.registered.test_own import ID, OLD, TIP, plain, tree

V1, V2, OTHER = tree(ID), tree(ID, TIP), tree({**ID, "type": "string"})
UNKNOWN = "written with an Avro schema that is unknown: "


def text(schema: dict[str, Any]) -> str:
    return json.dumps(schema)


def number(schema: dict[str, Any]) -> int:
    return id_of(parsed(text(schema)).fingerprint)


class Folder:
    """Schemas by their fingerprints; can get more."""

    def __init__(self, *schemas: dict[str, Any]) -> None:
        self.texts = {number(one): text(one) for one in schemas}
        self.asked: list[int] = []

    def get(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in self.texts:
            raise UnknownSchema(UNKNOWN + fingerprint_of(schema_id))
        return RegisteredSchema(schema_id, AVRO, self.texts[schema_id])

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        return frozenset()


Record = tuple[bytes | None, RawHeaders]


def made(folder: Folder, current: dict[str, Any] = V1, unknown: str = "") -> FingerprintAvro:
    return FingerprintAvro(parsed(text(V1)).fingerprint, text(current), folder, unknown, Following())


def decode(decoder: FingerprintAvro, *records: Record) -> Decoded:
    headers = [[{"key": key, "value": value} for key, value in each] for _, each in records]
    return decoder.decode(
        pa.array([value for value, _ in records], pa.binary()),
        pa.array(headers, SCHEMA.field("headers").type),
    )


def rows(found: Decoded) -> list[Any]:
    rows = zip(found.reasons.to_pylist(), found.columns.to_pylist(), strict=True)
    return [row if reason is None else reason for reason, row in rows]


def by_reference(decoder: FingerprintAvro, value: bytes | None, headers: RawHeaders) -> Any:
    try:
        return decoder.reference(value, headers)
    except Malformed as why:
        return str(why)


def test_each_record_is_read_with_the_schema_that_it_names() -> None:
    decoder = made(Folder(V1, V2, OTHER), V2)
    records: list[Record] = [
        plain(V2, {"id": 0, "tip": 0.5}),
        (b"\2", []),
        plain(OTHER, {"id": "a"}),
        (None, []),
        plain(V1, {"id": 4}),
        (b"\2", [(b"avro-schema", b"none")]),
        (b"\2", [(b"avro-schema", b"0123456789abcdef")]),
        (b"\2", [(b"avro-schema", b"0123456789ABCDEF")]),
        (b"\2\0\0", []),
        # The last header counts; one without a value is none.
        (plain(V1, {"id": 9})[0], [(b"avro-schema", b"none"), plain(V1, {"id": 9})[1][0]]),
        (b"\2", [(b"avro-schema", None)]),
    ]
    refused = (
        f"the Avro schema {fingerprint_of(number(OTHER))} cannot be followed: id: the table has long, the "
        "schema string. Fix: send the new type under another field name, or name a new table"
    )
    expected = [
        {"id": 0, "tip": 0.5}, {"id": 1, "tip": None}, refused, "the record has no value (a tombstone)",
        {"id": 4, "tip": None}, UNKNOWN + "none", UNKNOWN + "0123456789abcdef",
        UNKNOWN + "0123456789ABCDEF", "not an Avro body of R: 2 bytes are behind the body of R",
        {"id": 9, "tip": None}, {"id": 1, "tip": None},
    ]  # fmt: skip
    found = rows(decode(pickle.loads(pickle.dumps(decoder)), *records))  # noqa: S301
    assert found == expected
    assert [by_reference(decoder, *record) for record in records] == expected


def test_a_further_schema_is_named_once_a_record_of_it_is_there() -> None:
    decoder = made(Folder(V1, V2))
    found = decode(decoder, plain(V1, {"id": 0}))
    assert found.unfollowed == frozenset()
    # Bytes that are none of it change no table.
    assert decode(decoder, (b"\2", plain(V2, {"id": 0, "tip": None})[1])).unfollowed == frozenset()
    assert decode(decoder, plain(V2, {"id": 0, "tip": None})).unfollowed == {number(V2)}
    assert decode(made(Folder(V1, V2), V2), plain(V2, {"id": 0, "tip": None})).unfollowed == frozenset()


def test_a_schema_that_is_unknown_is_known_as_soon_as_it_is_there() -> None:
    folder = Folder(V1)
    decoder = made(folder)
    record = plain(V2, {"id": 1, "tip": 2.0})
    (reason,) = rows(decode(decoder, record))
    assert reason == UNKNOWN + fingerprint_of(number(V2))
    folder.texts[number(V2)] = text(V2)
    found = decode(decoder, record)
    assert (rows(found), found.unfollowed) == ([{"id": 1}], {number(V2)})


def test_the_sample_says_what_all_at_once_said() -> None:
    """The file came in between."""
    folder = Folder(V1)
    decoder = made(folder)
    record = plain(V2, {"id": 1, "tip": 2.0})
    (reason,) = rows(decode(decoder, record))
    folder.texts[number(V2)] = text(V2)
    assert by_reference(decoder, *record) == reason


def test_many_records_of_many_unknown_schemas_are_asked_for_once_each() -> None:
    folder = Folder(V1)
    records = [(b"\2", [(b"avro-schema", f"{one % 500:016x}".encode())]) for one in range(5_000)]
    found = decode(made(folder), *records)
    assert found.reasons.null_count == 0
    assert len(folder.asked) == 500


@pytest.mark.parametrize("unknown", ["", "rest"])
def test_fields_that_a_table_gave_up_are_followed_again(unknown: str) -> None:
    given_up = tree(ID, OLD)
    found = decode(made(Folder(V1, given_up), V1, unknown), plain(given_up, {"id": 1, "old": "a"}))
    assert found.unfollowed == {number(given_up)}
    assert rows(found) == [{"id": 1} | ({"rest": '{"old":"a"}'} if unknown else {})]
