"""Records of the format Avro: rows and reasons, headers, and earlier schemas beside the current one."""

from __future__ import annotations

import json
import pickle
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.columnar.bodies import MAX_PORTION
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.texts import printable
from spark_jobs.common.kafka.avro import AvroSchema
from tests.support.avro_bodies import HEADERS, decode, decoded, fields
from tests.support.hostile_records import TRIP, block, body, cases, with_map, zigzag
from tests.support.raising import raising

TRIPS = AvroSchema((Path(__file__).parents[5] / "spark_jobs/nyc_taxi/schema.avsc").read_text())
PLAIN = body(TRIPS)
NO = "not an Avro body of T"
BEYOND = f"{NO}: a value is beyond its type, or a map's key is there twice or not UTF-8"
CUT = f"{NO}: it ends before its last field does"
GLUE = "starts with 03 00: the wire format of AWS Glue's schema registry"
LIST = {"type": "array", "items": "string"}
MAP = {"type": "map", "values": "string"}
INNER = {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", "string"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2}
NUMBER, TEXT = fields("int"), fields("string")


def test_each_record_of_others_is_a_row_or_has_its_reason() -> None:
    decoder, tried = AvroDecoder(TRIPS.text), cases(TRIPS)
    headers = [[{"key": name, "value": value} for name, value in sent] for _, _, sent, _ in tried]
    found = decoder.decode(pa.array([value for _, value, *_ in tried]), pa.array(headers, HEADERS))
    found.columns.validate(full=True)
    # A time that readers cannot show is no matter of the format.
    expected = {name: None if why and "is a time" in why else why for name, _, _, why in tried}
    reasons = [why and printable(why) for why in found.reasons.to_pylist()]
    assert dict(zip(expected, reasons, strict=True)) == expected
    for (_, value, sent, _), why in zip(tried, found.reasons.to_pylist(), strict=True):
        named = [(name.encode(), text.encode() if isinstance(text, str) else text) for name, text in sent]
        if why is None:
            decoder.reference(value, named)
        else:
            with pytest.raises(Malformed) as malformed:
                decoder.reference(value, named)
            assert str(malformed.value) == why
    maps = [row for row in found.columns.column("other_columns").to_pylist() if row]
    ordered = [[("k", "v"), ("k2", "v2")], *[[("z", "1"), ("a", "2"), ("m", "3")]] * 2]
    assert maps == [*ordered, [(str(number), "v") for number in range(40, 0, -1)]]


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (NUMBER, b"", f"{NO}: it is empty"),
        (NUMBER, b"\x02\x00", f"{NO}: 1 bytes are behind the body of T"),
        (NUMBER, b"\x82\x80\x80\x80\x20", BEYOND),
        (NUMBER, b"\x82\x00", BEYOND),
        (NUMBER, b"\x80" * 9 + b"\x02", BEYOND),
        (NUMBER, b"\xff", CUT),
        (NUMBER, b"\xff" * 11, NO),
        (NUMBER, b"{}", f"{NO}: 1 bytes are behind the body of T"),
        (TEXT, b'{"a": 1}', f"{NO}: it seems to be JSON"),
        (TEXT, b"\x08abc", CUT),
        (TEXT, zigzag(70_000), NO),
        (TEXT, b"\x01", NO),
        (TEXT, b"\x02\xff", "a is not UTF-8"),
        (fields("boolean"), b"\x07", BEYOND),
        (fields(["null", "int"]), b"\x04", NO),
        (fields(["null", "int"]), b"\x01", NO),
        (fields(["null", "int"]), b"\x80\x00", BEYOND),
        (fields(["string", "int"]), b"\x04", NO),
        (fields(["string", "int"]), b"\x01", NO),
        (fields({"type": "enum", "name": "E", "symbols": ["A"]}), b"\x01", NO),
        (fields(MAP), b"\x04\x02k\x00\x02k\x00\x00", BEYOND),
        (fields(MAP), b"\x02\x02\xff\x00\x00", BEYOND),
        (fields(MAP), b"\x02\x02k\x02\xff\x00", "a value of a is not UTF-8"),
        (fields(LIST), zigzag(-(2**63)) + b"\x00", NO),
        (fields(LIST), b"\x06\x00", CUT),
        (fields({"type": "long", "logicalType": "timestamp-millis"}), zigzag(2**62), BEYOND),
        (fields(DECIMAL), b"\x02\x64", BEYOND),
        (fields(DECIMAL), b"\x02\x9c", BEYOND),
        (fields(DECIMAL), b"\x00", BEYOND),
        (fields(DECIMAL), zigzag(17) + b"\x01" + bytes(15) + b"\x05", BEYOND),
        (fields("int", "string"), b"\x03\x00x", f"{NO}: {GLUE}; or 1 bytes are behind the body of T"),
    ],
)
def test_what_is_no_body_is_named(schema: str, value: bytes, why: str) -> None:
    decoder = AvroDecoder(schema)
    assert decoded(decoder, [value]) == ([dict.fromkeys(decoder.schema.names)], [why])
    with pytest.raises(Malformed) as malformed:
        decoder.reference(value, [])
    assert str(malformed.value) == why


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (["null", "string"], b"\x02\x02\xff", "a"),
        (["string", "int"], b"\x00\x02\xff", "a.member0"),
        (INNER, b"\x02\x02\xff", "a.x"),
        (LIST, b"\x02\x02\xff\x00", "an element of a"),
        ({"type": "array", "items": INNER}, b"\x02\x02\x02\xff\x00", "x of an element of a"),
        ({"type": "map", "values": LIST}, b"\x02\x02k\x02\x02\xff\x00\x00", "an element of a value of a"),
    ],
)
def test_the_first_text_that_is_not_utf8_is_named(kind: object, value: bytes, path: str) -> None:
    _, (reason,) = decoded(AvroDecoder(fields(kind, "string")), [value + b"\x02\xfe"])
    assert reason == f"{path} is not UTF-8"


def test_the_last_header_of_the_name_counts() -> None:
    earlier = fields("int", name="U")
    decoder = AvroDecoder(fields(["null", "long"]), (earlier, fields(["null", "long"])))
    current, before = (name.encode() for name in decoder.fingerprints)
    name, other = b"avro-schema", b"Avro-Schema"
    sent: list[tuple[bytes | None, list[tuple[bytes, bytes | None]]]] = [
        (b"\x0a", [(name, before)]),
        (b"\x02\x0a", []),
        (b"\x02\x0a", [(name, before), (name, current)]),
        (b"\x0a", [(name, b"x"), (other, b"x"), (name, before), (b"z", None)]),
        (b"\x02\x0a", [(name, before), (name, None)]),
        (b"\x02\x0a", [(other, before)]),
        (b"\x0a", [(name, before.upper())]),
        (b"\x0a", [(name, b"")]),
        (None, [(name, b"x")]),
        (b"\x0b\x00", [(name, before)]),
    ]
    headers = pa.array([[{"key": k, "value": v} for k, v in found] for _, found in sent], HEADERS)
    found = decoder.decode(pa.array([value for value, _ in sent]), headers)
    unknown = "written with an Avro schema that is unknown: "
    assert found.columns.column("a").to_pylist() == [5] * 6 + [None] * 4
    assert found.reasons.to_pylist() == [
        *[None] * 6,
        f"{unknown}{before.decode().upper()}",
        unknown,
        "the record has no value (a tombstone)",
        "not an Avro body of U: 1 bytes are behind the body of U",
    ]
    for (value, named), reason in zip(sent, found.reasons.to_pylist(), strict=True):
        if reason is None:
            assert decoder.reference(value, named) == {"a": 5}
        else:
            with raising(Malformed, reason):
                decoder.reference(value, named)


def test_a_part_of_arrays_is_decoded_like_a_whole_one() -> None:
    decoder = AvroDecoder(fields("int", "string"))
    bodies = [zigzag(number) + b"\x02x" for number in range(20)]
    headers = [[{"key": b"avro-schema", "value": decoder.fingerprints[0].encode()}]] * 20
    values = pa.array([None, *bodies, b"?"]).slice(1, 20)
    found = decoder.decode(values.slice(5, 10), pa.array([[], *headers], HEADERS).slice(1).slice(5, 10))
    assert found.columns.column("a").to_pylist() == list(range(5, 15))
    empty = decoder.decode(values.slice(0, 0), pa.array([], HEADERS))
    assert (empty.columns.num_rows, len(empty.reasons), empty.columns.schema) == (0, 0, decoder.schema)


def test_a_decoder_can_be_pickled() -> None:
    decoder = AvroDecoder(NUMBER, (fields("int", name="U"),))
    again = pickle.loads(pickle.dumps(decoder))  # noqa: S301
    assert (again.schema, again.fingerprints) == (decoder.schema, decoder.fingerprints)
    assert decoded(again, [b"\x02"]) == ([{"a": 1}], [None])


def test_odd_records_leave_the_others_as_they_are() -> None:
    decoder = AvroDecoder(fields("int", ["null", "string"], {"type": "array", "items": "long"}))
    bodies: list[bytes | None] = []
    for number in range(3_000):
        text = b"\x00" if number % 3 else b"\x02\x02" + bytes([97 + number % 26])
        bodies.append(
            zigzag(number) + text + b"".join(zigzag(1) + zigzag(n) for n in range(number % 4)) + b"\0"
        )
    good, _ = decoded(decoder, bodies)
    assert good[2_999] == {"a": 2_999, "b": None, "c": [0, 1, 2]}
    for number in range(0, 3_000, 7):
        bodies[number] = None if number % 2 else (bodies[number] or b"")[:-1] + b"\x7f"
    rows, reasons = decoded(decoder, bodies)
    for number, (row, reason) in enumerate(zip(rows, reasons, strict=True)):
        assert (reason is None) == bool(number % 7)
        assert row == (good[number] if number % 7 else dict.fromkeys("abc"))


def test_a_time_beyond_those_of_python_is_a_number() -> None:
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    decoder = AvroDecoder(fields(micros, {"type": "array", "items": {"type": "int", "logicalType": "date"}}))
    found = decode(decoder, [zigzag(2**63 - 1) + b"\x02\x02\x00", zigzag(1) + b"\x00"])
    assert found.reasons.null_count == 2
    assert found.columns.column("a").cast("int64").to_pylist() == [2**63 - 1, 1]
    assert decoder.reference(zigzag(2**63 - 1) + b"\x02\x02\x00", []) == {"a": 2**63 - 1, "b": [1]}
    assert decoder.reference(b"\x02\x00", []) == {"a": datetime(1970, 1, 1, 0, 0, 0, 1, UTC), "b": []}


@pytest.mark.parametrize("count", [20, 500, 20_000])
def test_an_array_may_be_long(count: int) -> None:
    decoder = AvroDecoder(fields({"type": "array", "items": "int"}, {"type": "map", "values": "string"}))
    entries = {b"%d" % number: b"v" for number in range(count)}
    one = zigzag(count) + b"".join(map(zigzag, range(count))) + b"\0" + block(entries, is_sized=True) + b"\0"
    rows, reasons = decoded(decoder, [one, b"\0\0", one])
    assert reasons == [None] * 3
    assert rows[0] == rows[2] == {"a": [*range(count)], "b": [(str(n), "v") for n in range(count)]}


def test_what_is_left_of_a_long_array_is_no_other_field() -> None:
    """Its items are read round by round, and not all of them. Each is the length of all that follows."""
    decoder = AvroDecoder(fields({"type": "array", "items": "int"}, "bytes"))
    items, rest = list[int](), b"\0\0"
    for _ in range(400):
        items.insert(0, len(rest))
        rest = zigzag(len(rest)) + rest
    assert decoded(decoder, [zigzag(400) + rest]) == ([{"a": items, "b": b""}], [None])


def test_a_decimal_may_have_more_bytes_than_it_must() -> None:
    decoder = AvroDecoder(fields(DECIMAL))
    bodies = [b"\x02\x05", b"\x06\x00\x00\x05", zigzag(20) + bytes(19) + b"\x05", b"\x04\xff\xfb"]
    assert decoded(decoder, [*bodies]) == ([{"a": Decimal(n)} for n in (5, 5, 5, -5)], [None] * 4)


def test_a_lying_count_or_length_costs_nothing() -> None:
    """Each of them would be read beyond its record, over those behind it."""
    decoder = AvroDecoder(TRIPS.text)
    many = PLAIN[:-1] + zigzag(1) + zigzag(2**30) + b"\0" * 100
    text = bytes(4) + bytes(8) + b"\x00" + b"\x02" + zigzag(2**30 - 5)
    before, begun = pa.total_allocated_bytes(), time.process_time()
    rows, reasons = decoded(decoder, [many, text] * 2_000)
    assert time.process_time() - begun < 5
    assert pa.total_allocated_bytes() - before < 10 << 20
    assert set(reasons) == {"not an Avro body of Trip"}
    assert len(rows) == 4_000


def test_large_records_are_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "value", None)
    decoder = AvroDecoder(TEXT)
    large = zigzag(MAX_PORTION // 3) + b"x" * (MAX_PORTION // 3)
    found = decode(decoder, [*[large, b"\x02y"] * 5, zigzag(MAX_PORTION * 2) + b"z" * (MAX_PORTION * 2)])
    lengths = pa.compute.binary_length(found.columns.column("a")).to_pylist()
    assert lengths == [*[MAX_PORTION // 3, 1] * 5, MAX_PORTION * 2]


def test_trips_are_not_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = TRIPS.parsed
    parsed["fields"] = [f for f in parsed["fields"] if f["name"] not in ("other_columns", "airport_fee")]
    earlier = AvroSchema(json.dumps(parsed))
    decoder = AvroDecoder(TRIPS.text, (earlier.text,))
    monkeypatch.setattr(Writer, "value", None)
    values = [PLAIN, body(TRIPS, other_columns={"k": "v", "k2": ""}), with_map(PLAIN), body(earlier)]
    headers: list[list[dict[str, object]]] = [[]] * 3 + [
        [{"key": b"avro-schema", "value": earlier.fingerprint.encode()}]
    ]
    found = decoder.decode(pa.array(values), pa.array(headers, HEADERS))
    assert found.reasons.null_count == 4
    assert found.columns.column("VendorID").to_pylist() == [TRIP["VendorID"]] * 4
    assert found.columns.column("airport_fee").to_pylist() == [None] * 4
    assert found.columns.column("other_columns").to_pylist() == [None, [("k", "v"), ("k2", "")], [], None]
