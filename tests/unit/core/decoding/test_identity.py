"""Identity from keys, as the regular expression has it."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.identity import identity
from sluice.core.offsets.sources import KEY_PATTERN

PATTERN = re.compile(KEY_PATTERN.encode())
ID = "0123456789abcdef"
Row = tuple[str | None, int | None, int | None, bool]
EXTERNAL: Row = (None, None, None, False)


def by_pattern(key: bytes | None) -> Row:
    match = PATTERN.search(key) if key is not None else None
    if key is None or match is None:
        return EXTERNAL
    return match[1].decode(), int(match[2]), int(match[3]), key[16:17] == b"!"


def read(keys: pa.BinaryArray) -> list[Row]:
    found = identity(keys)
    for array in (found.source_ids, found.rows, found.sequences, found.withheld):
        array.validate(full=True)
        assert len(array) == len(keys)
    assert found.source_ids.type == pa.dictionary(pa.int32(), pa.string())
    assert found.rows.type == found.sequences.type == pa.int64()
    assert found.withheld.type == pa.bool_()
    columns = (found.source_ids, found.rows, found.sequences, found.withheld)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def check(keys: list[bytes | None]) -> None:
    assert read(pa.array(keys, pa.binary())) == [by_pattern(key) for key in keys]


DIGITS = st.one_of(
    st.integers(0, 10**18 - 1).map(str),
    st.text("0123456789", min_size=1, max_size=19),
    st.sampled_from(
        ["0", "00000000", "0" * 18, "9" * 18, "9" * 19, "12345678", "123456789", "9" * 8, "9" * 16]
    ),
)
IDS = st.one_of(
    st.sampled_from([ID, "0" * 16, "fedcba9876543210"]), st.text("0123456789abcdef", min_size=16, max_size=16)
)
OWN = st.builds(
    lambda *parts: "".join(parts).encode(), IDS, st.sampled_from(":!"), DIGITS, st.just(":"), DIGITS
)


@st.composite
def one_byte_changed(draw: st.DrawFn) -> bytes:
    key = bytearray(draw(OWN))
    at = draw(st.integers(0, len(key) - 1))
    key[at] = draw(st.one_of(st.integers(0, 255), st.sampled_from(b"/0:9;!@AFGagf`\n\x80\xb0\xba")))
    return bytes(key)


ODD = st.one_of(
    one_byte_changed(),
    st.binary(max_size=60),
    st.builds(
        lambda key, more: key + more,
        OWN,
        st.sampled_from([b"\n", b"\r\n", b"\0", b" ", b"0", b":1", b"\x85"]),
    ),
    st.builds(lambda key, less: key[:-less], OWN, st.integers(1, 6)),
    st.builds(lambda more, key: more + key, st.sampled_from([b"\n", b" ", b"a"]), OWN),
    st.text("0123456789abcdef:!", min_size=20, max_size=54).map(str.encode),
)
KEYS = st.one_of(OWN, OWN, ODD, st.none())


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(KEYS, max_size=12))
def test_keys_are_read_as_the_pattern_reads_them(keys: list[bytes | None]) -> None:
    check(keys)


@given(st.lists(KEYS, min_size=2, max_size=12), st.data())
def test_a_part_of_an_array_is_read_alone(keys: list[bytes | None], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(keys)))
    count = data.draw(st.integers(0, len(keys) - first))
    part = pa.array(keys, pa.binary()).slice(first, count)
    assert read(part) == [by_pattern(key) for key in keys[first : first + count]]


@pytest.mark.parametrize(
    "numbers",
    [
        f"{'9' * row}:{'8' * sequence}"
        for row in (0, 1, 7, 8, 9, 15, 16, 17, 18, 19, 24, 25)
        for sequence in (0, 1, 4, 8, 18, 19)
    ],
)
def test_numbers_of_every_length(numbers: str) -> None:
    # The next key begins with digits.
    check([f"{ID}:{numbers}".encode(), f"{ID}:1:1".encode(), f"{ID}:{numbers}".encode()])


@pytest.mark.parametrize("length", range(20, 55))
def test_each_byte_of_a_key_counts(length: int) -> None:
    row = "1" * min(18, length - 19)
    key = f"{ID}:{row}:".encode()
    key += b"2" * (length - len(key))
    keys: list[bytes | None] = [key]
    for at in range(length):
        keys += [key[:at] + bytes([byte]) + key[at + 1 :] for byte in b"\n/0:9;!g\xff"]
    check(keys)


def test_more_keys_than_are_read_at_once() -> None:
    check(
        [f"{n % 3:016x}{':!'[n % 2]}{n}:{n // 4}".encode() if n % 7 else b"external" for n in range(40_000)]
    )


def test_a_key_at_the_very_end_of_its_buffer() -> None:
    key = f"{ID}:1:2".encode()
    offsets = pa.array([0, len(key)], pa.int32()).buffers()[1]
    array = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(key)])
    assert read(array) == [(ID, 1, 2, False)]


@pytest.mark.parametrize("keys", [[], [None], [b""], [None, b"", None], [b"a" * 36]])
def test_no_key_of_ours(keys: list[bytes | None]) -> None:
    assert read(pa.array(keys, pa.binary())) == [EXTERNAL] * len(keys)


def test_bytes_behind_a_null_are_not_read() -> None:
    key = f"{ID}:1:2".encode()
    offsets = pa.array([0, len(key), 2 * len(key)], pa.int32()).buffers()[1]
    is_valid = pa.py_buffer(b"\x02")
    array = pa.Array.from_buffers(pa.binary(), 2, [is_valid, offsets, pa.py_buffer(key * 2)])
    assert read(array) == [EXTERNAL, (ID, 1, 2, False)]
