"""Records of others: value, key and headers, each as declared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, get_args

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.by_reference import ByReference
from sluice.core.decoding.decoder import TOMBSTONE, Decoder, Malformed
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.others.json_texts import JsonTextDecoder
from sluice.core.decoding.others.plain import BytesDecoder, TextDecoder
from sluice.core.decoding.others.records import OthersRecords, Tombstones
from sluice.core.record_batches.records import SCHEMA
from tests.support.avro_bodies import fields

Sent = Sequence[tuple[bytes | None, bytes | None]]
HEADERS = SCHEMA.field("headers").type


def decoded(
    decoder: OthersRecords | ByReference, sent: Sent, headers: Sequence[Any] | None = None
) -> list[dict[str, Any] | str | None]:
    """Each record's row, the reason for which it is rejected, or None for one that is skipped; by both ways,
    and as a part of longer arrays."""
    every = [(b"k", b"v"), *sent, (None, None)]
    lists = pa.array([[], *(headers or [[]] * len(sent)), []], HEADERS)[1:-1]
    keys, values = (pa.array(column, pa.binary())[1:-1] for column in zip(*every, strict=True))
    found = decoder.decode(keys, values, lists)
    found.columns.validate(full=True)
    assert found.columns.schema == decoder.schema
    rows: list[dict[str, Any] | str | None] = []
    for place, reason in enumerate(found.reasons.to_pylist()):
        is_skipped = found.skipped is not None and found.skipped[place]
        assert not (is_skipped and reason)
        rows.append(None if is_skipped else reason or found.columns.slice(place, 1).to_pylist()[0])
    expected: list[dict[str, Any] | str | None] = []
    for (key, value), each in zip(sent, lists.to_pylist(), strict=True):
        try:
            row = decoder.reference(key, value, [(one["key"], one["value"]) for one in each or ()])
            expected.append(None if row is None else dict(row))
        except Malformed as error:
            expected.append(str(error))
    assert rows == expected
    if isinstance(decoder, OthersRecords):
        decoded(ByReference(decoder), sent, headers)
    return rows


def test_text_and_bytes_with_their_keys() -> None:
    sent: Sent = [(b"k1", "grün".encode()), (None, b""), (b"\xff", b"a"), (b"k2", b"a\xc3")]
    sent = [*sent, (b"k", b"\xed\xa0\x80")]
    not_utf8 = "not UTF-8: byte C3 at 2", "not UTF-8: byte ED at 1"
    assert decoded(OthersRecords(TextDecoder("value"), TextDecoder("key")), sent) == [
        {"value": "grün", "key": "k1"},
        {"value": "", "key": None},
        "its key: not UTF-8: byte FF at 1",
        *not_utf8,
    ]
    assert decoded(OthersRecords(BytesDecoder("value"), BytesDecoder("k")), sent) == [
        {"value": value, "k": key} for key, value in sent
    ]
    assert decoded(OthersRecords(TextDecoder("value")), sent)[2] == {"value": "a"}


VALUES: dict[str, tuple[Decoder, bytes]] = {
    "text": (TextDecoder("a"), b"x"),
    "bytes": (BytesDecoder("a"), b"\xff"),
    "json": (JsonDecoder({"a": "int", "b": "decimal(5,2)"}), b'{"a": 1}'),
    "avro": (AvroDecoder(fields("int", ["null", "string"])), b"\x02\0"),
}


@pytest.mark.parametrize(("name", "tombstones"), [*product(VALUES, get_args(Tombstones))])
def test_a_record_without_a_value_becomes_what_is_declared(name: str, tombstones: Tombstones) -> None:
    values, good = VALUES[name]
    decoder = OthersRecords(values, TextDecoder("key"), "headers", tombstones)
    sent: Sent = [(b"k", None), (b"k", good), (None, None), (b"\xff", None)]
    first, second, third, last = decoded(decoder, sent)
    nulls = dict.fromkeys(decoder.schema.names)
    assert isinstance(second, dict)
    assert second["a"] is not None
    if tombstones == "row":
        assert (first, third) == ({**nulls, "key": "k"}, nulls)
        assert last == "its key: not UTF-8: byte FF at 1"
    else:
        expected = None if tombstones == "skip" else TOMBSTONE
        # What its key is, is of no account.
        assert [first, third, last] == [expected] * 3


def test_headers_are_kept_in_their_order() -> None:
    headers = [
        [{"key": b"a", "value": b"\xff"}, {"key": b"a", "value": None}, {"key": b"", "value": b""}],
        [],
        [{"key": b"a", "value": b"1"}, {"key": b"\xff", "value": b"2"}],
        None,
        [{"key": "ü".encode(), "value": b"3"}],
    ]
    decoder = OthersRecords(TextDecoder("value"), headers="kept")
    found = decoded(decoder, [(None, b"x")] * 5, headers)
    assert found == [
        {
            "value": "x",
            "kept": [
                {"key": "a", "value": b"\xff"},
                {"key": "a", "value": None},
                {"key": "", "value": b""},
            ],
        },
        {"value": "x", "kept": None},
        "the key of a header is not UTF-8",
        {"value": "x", "kept": None},
        {"value": "x", "kept": [{"key": "ü", "value": b"3"}]},
    ]


def test_the_values_reason_comes_first_then_the_keys_then_the_headers() -> None:
    wrong = [{"key": b"\xff", "value": b""}]
    decoder = OthersRecords(TextDecoder("value"), TextDecoder("key"), "headers")
    found = decoded(decoder, [(b"\xfe", b"\xff"), (b"\xfe", b"x"), (b"k", b"x")], [wrong] * 3)
    assert found == [
        "not UTF-8: byte FF at 1",
        "its key: not UTF-8: byte FE at 1",
        "the key of a header is not UTF-8",
    ]


def test_no_records() -> None:
    for tombstones in get_args(Tombstones):
        decoder = OthersRecords(VALUES["json"][0], JsonTextDecoder("key"), "headers", tombstones)
        assert decoded(decoder, []) == []
