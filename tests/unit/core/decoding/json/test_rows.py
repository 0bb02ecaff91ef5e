"""A piece with odd records: each is judged for itself, and the others are what they would be without it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.core.decoding.json import parts, rows
from sluice.core.decoding.json.columns import columns_of
from sluice.core.decoding.json.decoder import JsonDecoder
from tests.support.decoding import Outcome, Rejected, decoded

SCHEMA = {"a": "bigint", "t": "timestamp", "d": "decimal(9,2)"}
# Each stops Arrow's parser, or its conversion, in its own way, or is found before.
ODD: list[bytes | None] = [
    b'{"a":1.0}',
    b'{"a":9223372036854775808}',
    b'{"a":"1"}',
    b'{"a":1} null {"a":1}',
    b"null",
    b'{"a":1}{"a":2}',
    b'{"a":1},"x":{}',
    b'{"a":{"x":1}',
    b'{"a":1}}',
    b'{"a":1,"z":"x}',
    b'{"a":1,"z":"\xff"}',
    b'{"a":1,"z":NaN}',
    b'{"a":1,"a":1}',
    b'{"t":"2026-02-30T00:00:00Z"}',
    b'{"t":"2026-01-01"}',
    b'{"d":1.234}',
    b'{"d":1e-217}',
    b"[" * 1000,
    b"",
    None,
]


def numbered(number: int) -> bytes:
    return b'{"a":%d,"t":"2026-01-01T00:00:00.%06dZ","d":"%d.5"}' % (number, number, number)


def checked(values: list[bytes | None]) -> list[Outcome]:
    """The good ones are numbered by their position."""
    decoder = JsonDecoder(SCHEMA)
    found = decoded(decoder, values)
    (first,) = decoded(decoder, [numbered(0)])
    assert isinstance(first, dict)
    for number, (value, outcome) in enumerate(zip(values, found, strict=True)):
        if value == numbered(number):
            assert isinstance(outcome, dict)
            assert outcome["a"] == number
            assert outcome["t"] == first["t"].replace(microsecond=number)
            assert float(outcome["d"]) == number + 0.5
        else:
            assert isinstance(outcome, Rejected), value
    return found


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_record_changes_no_other(odd: bytes | None) -> None:
    for at in (0, 1, 50, 98, 99):
        values = [odd if number == at else numbered(number) for number in range(100)]
        checked(values)


def test_many_odd_records_change_no_other() -> None:
    values = [ODD[number // 3 % len(ODD)] if number % 3 == 1 else numbered(number) for number in range(9000)]
    checked(values)


def test_few_records_are_read_one_by_one() -> None:
    """An odd record costs its piece some calls, and not the reading of all its records by the reference."""
    read: list[bytes | None] = []

    class Counting(JsonDecoder):
        def reference(self, value, headers):  # type: ignore[no-untyped-def]
            read.append(value)
            return super().reference(value, headers)

    values = [ODD[number % len(ODD)] if number % 500 == 250 else numbered(number) for number in range(8000)]
    decoded(Counting(SCHEMA), values)
    assert 16 <= len(read) <= 16 * 2 * parts._FEW


MANY_DECIMALS = [
    *("1e-10", "1E-00010", '"1.5e-99"', "1e-2000000000", f"0.{'0' * 60}", f'"1.{"1" * 60}"'),
    *('"1\\u0065-99"', '"1\\u0045-99"', '"1e\\u002d99"', '"1e\\u002D99"', '"1e-\\u00399"', '"1\\u002e5e-9"'),
]


@pytest.mark.parametrize("literal", MANY_DECIMALS)
def test_arrow_does_not_see_a_decimal_that_may_crash_it(literal: str) -> None:
    values = pa.array([f'{{"a":{literal}}}', '{"a":"1.25e-9 - e-a"}', f'{{"a":0.{"1" * 59}e-9}}'])
    assert rows._has_many_decimals(values).tolist() == [True, False, False]


@pytest.mark.parametrize("between", ["", " null ", "\n"])
def test_arrow_stops_where_a_record_ends_its_object_early(between: str) -> None:
    """A null that follows it is read beyond the memory of Arrow's parser."""
    columns = columns_of({"a": "string"})
    schema = rows._schema({"a": pa.utf8()})
    lines = pa.array([f'{{"a":"x"}}{between}{{"a":"y"{rows._MARKED_END}'])
    with pytest.raises(pa.ArrowInvalid, match="a required field was absent"):
        rows._parsed(lines, schema)
    found = rows.read(pa.array([b'{"a":"x"}', b'{"a":"x"} null {}'] * 40), columns)
    assert found.is_odd[1::2].all()


@pytest.mark.parametrize("values", [[], [None], [b""], [None, b"", None], [b"", b'{"a":1}']])
def test_a_piece_of_nothing_is_decoded(values: list[bytes | None]) -> None:
    found = JsonDecoder(SCHEMA).decode(pa.array(values, pa.binary()), pa.array([[]] * len(values)))
    assert found.columns.num_rows == len(found.reasons) == len(values)
    assert found.reasons.null_count == values.count(b'{"a":1}')


def test_a_record_of_many_megabytes_is_read() -> None:
    text = "é\n" * 3_000_000
    value = f'{{"s":"{text}"}}'.replace("\n", "\\n").encode()
    found = decoded(
        JsonDecoder({"s": "string"}), [b'{"s":"x"}', value, b'{"s":"y"}', b" " * 5_000_000 + b"{}"]
    )
    assert found == [{"s": "x"}, {"s": text}, {"s": "y"}, {"s": None}]
