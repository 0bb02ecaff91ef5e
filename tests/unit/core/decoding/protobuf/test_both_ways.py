"""Google's library and the reference: the same rows, or the same reasons, of whatever bytes."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.wire import MAX_DEPTH
from tests.support.protobuf import OLD, RECURSIVE, SHOP, messages, table

SHOPS, OLDS = table(SHOP, "shop.Order"), table(OLD, "old.Node", RECURSIVE)
READERS = [MessageReader(one.descriptor, one.type, "_unknown_fields") for one in (SHOPS, OLDS)]


def one_of(read: Any, body: bytes) -> Any:
    try:
        return read(body)
    except Malformed as error:
        return str(error)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return (left == right and math.copysign(1, left) == math.copysign(1, right)) or (
            left != left != right
        )
    return type(left) is type(right) and bool(left == right)


def check(reader: MessageReader, body: bytes) -> Any:
    found, expected = one_of(reader.value, body), one_of(reader.reference, body)
    assert same(found, expected), (body.hex(), found, expected)
    return found


BODIES = [
    messages(one.descriptor).map(lambda message: message.SerializePartialToString()) for one in (SHOPS, OLDS)
]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_messages_are_read_alike(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 1))
    check(READERS[place], data.draw(BODIES[place]))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_changed_bytes_are_read_alike(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 1))
    body = bytearray(data.draw(BODIES[place]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        how = data.draw(st.sampled_from(["cut", "insert", "change", "repeat"]))
        if how == "cut":
            del body[at:]
        elif how == "insert":
            body[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        elif how == "change" and at < len(body):
            body[at] = data.draw(st.integers(0, 255))
        else:
            body += body[:at]
    check(READERS[place], bytes(body))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1), st.binary(max_size=24))
def test_any_bytes_are_read_alike(place: int, body: bytes) -> None:
    check(READERS[place], body)


@pytest.mark.parametrize(
    ("place", "body", "reason"),
    [
        (0, "0a056162", "not a message shop.Order: 2 of 5 bytes in id, at byte 3"),
        (0, "0a02c328", "not a message shop.Order: not UTF-8 in id, at byte 3"),
        (0, "0001", "not a message shop.Order: the field number 0, at byte 1"),
        (0, "a201020069", "not a message shop.Order: the field number 0 in ping, at byte 4"),
        (0, "0e01", "not a message shop.Order: the wire type 6, which is none, at byte 1"),
        (0, "3a020aff", "not a message shop.Order: the bytes end in a number in main.sku, at byte 4"),
        (
            0,
            "10ffffffffffffffffffff01",
            "not a message shop.Order: a number of more than 10 bytes in number, at byte 2",
        ),
        (0, "f8ffffff7f01", "not a message shop.Order: a field's tag is too large, at byte 1"),
        (
            0,
            "f30f0801",
            "not a message shop.Order: the bytes end before a group does in field 254, at byte 5",
        ),
        (
            0,
            "f30ffc0f",
            "not a message shop.Order: the end of a group 255 that did not begin in field 254, at byte 3",
        ),
        (0, "0c", "not a message shop.Order: the end of a group 1 that did not begin, at byte 1"),
        (1, "12026162", "not a message old.Node: the required field id is not set"),
        (1, "08011202c328", "name is not UTF-8"),
        (1, "08013a00", "not a message old.Node: the required field next.id is not set"),
    ],
)
def test_bytes_that_are_no_message(place: int, body: str, reason: str) -> None:
    assert check(READERS[place], bytes.fromhex(body)) == reason


# Behind the key "a" or 1: a field that no entry has, values of other wire types, and what comes twice.
ENTRIES = [
    "0a01611007b80105",
    "b80105",
    "1007b801050a0161",
    "0a016110071200",
    "0a01611500000000",
    "0a01610a01621007",
    "0a016112020805b80105",
    "0a01611203b80105",
    "0801100510000a00",
    "08011005",
    "080110051000",
]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("field", [4, 6, 8, 9, 28, 30])
@pytest.mark.parametrize("place", [0, 1])
def test_entries_of_maps_are_read_alike(place: int, field: int, entry: str) -> None:
    content = bytes.fromhex(entry)
    tag = field << 3 | 2
    of_field = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    body = of_field + bytes([len(content)]) + content
    check(READERS[place], body if place == 0 else b"\x08\x01" + body)
    if place == 0:
        # In a message, in a list of messages.
        inner = b"\x22" + bytes([len(content)]) + content
        check(READERS[place], b"\x42" + bytes([len(inner)]) + inner)


@pytest.mark.parametrize("number", ["05", "8080808008", "8980808010", "8180808010", "ffffffffffffffffff01"])
@pytest.mark.parametrize("field", ["18", "20", "22"])
def test_numbers_that_a_closed_enum_lacks_are_kept_as_they_were_sent(field: str, number: str) -> None:
    """They have 64 bits, of which an enum has 32."""
    length = f"{len(number) // 2:02x}" if field == "22" else ""
    check(READERS[1], bytes.fromhex(f"0801{field}{length}{number}"))


def test_an_entry_with_other_fields_is_kept_with_all_of_its_bytes() -> None:
    found = check(READERS[0], bytes.fromhex("4a09080112021007b80105"))
    assert found["by_number"] == []
    assert found["_unknown_fields"] == '{"9":{"bytes":"CAESAhAHuAEF"}}'


@pytest.mark.parametrize("group", [False, True])
def test_messages_inside_of_each_other(group: bool) -> None:
    """A closed number of them is read, by both."""
    deep = b""
    for depth in range(1, MAX_DEPTH + 3):
        deep = b"\xf3\x0f" + deep + b"\xf4\x0f" if group else b"\x3a" + _length(b"\x08\x01" + deep) + deep
        # A node in a node needs its id.
        found = check(READERS[1], b"\x08\x01" + deep)
        is_read = isinstance(found, dict)
        assert is_read == (depth <= MAX_DEPTH), (depth, found)


def _length(rest: bytes) -> bytes:
    size, out = len(rest), b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return out + bytes([size]) + b"\x08\x01"
