"""What a record says of its schema: all of a piece at once, and one by one."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.decoder import Malformed
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.framing import HEADERS, Framed, framed, unframed
from sluice.core.registry.subjects import Part

Headers = list[tuple[bytes, bytes | None]]
GUID = uuid.UUID("cc0e0e0e-53c1-4a1a-8f1a-000000000001")
BY_GUID = (b"__value_schema_id", b"\1" + GUID.bytes)


def headers_of(rows: list[Headers | None]) -> pa.ListArray:
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows],
        SCHEMA.field("headers").type,
    )


def frame(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def of_values(values: list[bytes | None], headers: list[Headers | None] | None = None) -> Framed:
    return framed(pa.array(values, pa.binary()), headers_of(headers or [[] for _ in values]))


def test_ids_and_bodies_of_a_piece() -> None:
    found = of_values([frame(7, b"body"), None, frame(16_777_217, b""), frame(7, b"\0\0")])
    assert found.ids.tolist() == [7, 0, 16_777_217, 7]
    assert found.schema_ids == [7, 16_777_217]
    assert found.bodies().to_pylist() == [b"body", None, b"", b"\0\0"]
    assert not found.reasons, "a tombstone is no error"


def test_bodies_are_where_they_were() -> None:
    values = pa.array([b"cut off", frame(1, b"abc"), frame(2, b"de"), b"x"], pa.binary()).slice(1, 3)
    found = framed(values, headers_of([[], None, []]))
    bodies = [found.data[start:end].tobytes() for start, end in zip(found.starts, found.ends, strict=True)]
    assert bodies == [b"abc", b"de", b""]
    assert found.bodies().to_pylist() == [b"abc", b"de", None]
    assert found.data.ctypes.data == values.buffers()[2].address, "nothing is copied"
    assert list(found.reasons) == [2]


def test_an_empty_piece() -> None:
    found = of_values([])
    assert (found.ids.tolist(), found.schema_ids, found.reasons) == ([], [], {})
    assert found.bodies().to_pylist() == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "it is empty: no schema id"),
        (b"\0", "starts with 00, and has 1 bytes: too short for a schema id"),
        (b"\0\0\0\1", "and has 4 bytes: too short"),
        (frame(0, b"x"), "0 is no schema id: those are 1 to 2147483647"),
        (
            b"\0\0\0\0\0\0\0\0\7x",
            "0 is no schema id: those are 1 to 2147483647. Apicurio's serializers with ids",
        ),
        (b"\0\x80\0\0\0x", "2147483648 is no schema id"),
        (b"{}", "starts with 7B, not Confluent's wire format"),
        (b"\xc3\1aaaaaaaa", "Avro's single-object encoding, not Confluent's wire format"),
        (b"\3\0aaaaaaaa", "AWS Glue's schema registry, not Confluent's"),
    ],
)
def test_why_a_value_is_not_framed(value: bytes, words: str) -> None:
    found = of_values([frame(1, b"good"), value])
    assert found.ids.tolist() == [1, 0]
    assert words in found.reasons[1]
    with pytest.raises(Malformed) as caught:
        unframed(value, [])
    assert str(caught.value) == found.reasons[1]


def test_a_guid_in_a_header_is_named() -> None:
    found = of_values(
        [frame(1, b"x"), b"plain", None, frame(1, b"y")],
        headers=[[BY_GUID], [(b"a", None), BY_GUID], [BY_GUID], [(b"__key_schema_id", BY_GUID[1])]],
    )
    assert found.ids.tolist() == [0, 0, 0, 1], "the header counts, whatever the value begins with"
    assert set(found.reasons) == {0, 1}
    assert all(f"__value_schema_id names the schema (GUID {GUID})" in one for one in found.reasons.values())
    with pytest.raises(Malformed, match="PrefixSchemaIdSerializer"):
        unframed(b"plain", [BY_GUID])


def test_of_keys_another_header_counts() -> None:
    keys = pa.array([frame(3, b"k"), frame(4, b"k")], pa.binary())
    headers = headers_of([[BY_GUID], [(HEADERS[Part.KEY], b"\2?")]])
    found = framed(keys, headers, Part.KEY)
    assert found.ids.tolist() == [3, 0]
    assert "__key_schema_id names the schema" in found.reasons[1]


VALUES = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.builds(frame, st.integers(0, 2**32 - 1), st.binary(max_size=6)),
)
HEADER = st.tuples(
    st.sampled_from([b"__value_schema_id", b"__key_schema_id", b"x"]), st.one_of(st.none(), st.binary())
)
ROWS = st.lists(st.tuples(VALUES, st.one_of(st.none(), st.lists(HEADER, max_size=2))), max_size=20)


@given(ROWS, st.sampled_from(Part), st.integers(0, 3))
def test_all_at_once_is_one_by_one(
    rows: list[tuple[bytes | None, Headers | None]], part: Part, cut: int
) -> None:
    values = pa.array([value for value, _ in rows], pa.binary()).slice(cut)
    headers = headers_of([headers for _, headers in rows]).slice(cut)
    found = framed(values, headers, part)
    bodies = found.bodies().to_pylist()
    for row, (value, each) in enumerate(rows[cut:]):
        if value is None:
            assert (found.ids[row], bodies[row], row in found.reasons) == (0, None, False)
            continue
        if row in found.reasons:
            assert (found.ids[row], bodies[row]) == (0, None)
            with pytest.raises(Malformed) as caught:
                unframed(value, each or [], part)
            assert str(caught.value) == found.reasons[row]
        else:
            schema_id, body = unframed(value, each or [], part)
            assert (found.ids[row], bodies[row], row in found.reasons) == (schema_id, body, False)
            assert found.data[found.starts[row] : found.ends[row]].tobytes() == body
