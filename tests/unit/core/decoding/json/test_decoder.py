"""What a record's fields are as columns, and why a record is rejected; alone and among others."""

from __future__ import annotations

import pickle
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.json.decoder import JsonDecoder
from tests.support.decoding import Rejected, both

TIME = datetime(2026, 1, 31, 12, 0, 0, 250000)  # noqa: DTZ001 - a local one
ACCEPTED: list[tuple[str, str, Any]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("int", "2147483647", 2147483647),
    ("int", "-2147483648", -2147483648),
    ("int", "-0", 0),
    ("int", "null", None),
    # Neither has a double.
    ("bigint", "9007199254740993", 9007199254740993),
    ("bigint", "-9223372036854775808", -9223372036854775808),
    ("double", "1", 1.0),
    ("double", "-0.0", -0.0),
    ("double", "1e-400", 0.0),
    ("double", "0.1", 0.1),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ("float", "0.1", 0.10000000149011612),
    ("float", "16777217", 16777216.0),
    # As a double it is between two floats, and would be rounded to the even one, below.
    ("float", "1.00000017881393432617187501", 1.000000238418579),
    ("float", "1.00000017881393432617187499", 1.0000001192092896),
    ("float", "-1e-50", -0.0),
    ("decimal(5,2)", "1.5", Decimal("1.50")),
    ("decimal(5,2)", '"-999.99"', Decimal("-999.99")),
    ("decimal(5,2)", "1.5000000000000000000000000000000000000000000000", Decimal("1.50")),
    ("decimal(5,2)", "15e1", Decimal("150.00")),
    ("decimal(5,2)", "5e-02", Decimal("0.05")),
    ("decimal(5,2)", "2500e-2", Decimal("25.00")),
    ("decimal(5,2)", "0e-2000000000", Decimal("0.00")),
    ("decimal(5,2)", "-0.0", Decimal("0.00")),
    ("decimal(38,38)", "0.00000000000000000000000000000000000001", Decimal("1E-38")),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("string", '"a\\u0000\\"\\/\\ud83d\\ude00é"', 'a\0"/😀é'),
    ("string", '""', ""),
    ("binary", '"AAH/"', b"\0\1\xff"),
    ("binary", '""', b""),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("date", '"0001-01-01"', date(1, 1, 1)),
    ("date", '"9999-12-31"', date(9999, 12, 31)),
    ("timestamp", '"2026-01-31T12:00:00.25Z"', TIME.replace(tzinfo=UTC)),
    ("timestamp", '"2026-01-31t14:00:00.250000000+02:00"', TIME.replace(tzinfo=UTC)),
    ("timestamp", '"2026-01-30 18:00:00.25-18:00"', TIME.replace(tzinfo=UTC)),
    ("timestamp", '"0001-01-01T00:00:00Z"', datetime(1, 1, 1, tzinfo=UTC)),
    ("timestamp", '"9999-12-31T23:59:59.999999z"', datetime.max.replace(tzinfo=UTC)),
    ("timestamp_ntz", '"2026-01-31 12:00:00.25"', TIME),
    ("timestamp_ntz", '"2026-01-31T12:00:00.2500000"', TIME),
]


@pytest.mark.parametrize(("kind", "literal", "value"), ACCEPTED)
def test_a_value_is_what_was_sent(kind: str, literal: str, value: Any) -> None:
    found = both({"a": kind, "b": "int"}, b'{"b":7,"a":%s}' % literal.encode())
    assert found == {"a": value, "b": 7}
    assert str(found["a"]) == str(value) or isinstance(value, datetime)


HALF = "a has half of a surrogate pair (an escape of D800 to DFFF alone), not "
MISFITS = [
    ("boolean", "1", "a is 1, not true or false"),
    ("boolean", '"true"', 'a is "true", not true or false'),
    ("int", "2147483648", "a is 2147483648, not a whole number of 32 bits"),
    ("int", "1.0", "a is 1.0, not a whole number of 32 bits"),
    ("int", "1e3", "a is 1e3, not a whole number of 32 bits"),
    ("int", "true", "a is true, not a whole number of 32 bits"),
    ("int", '"1"', 'a is "1", not a whole number of 32 bits'),
    ("bigint", "9223372036854775808", "a is 9223372036854775808, not a whole number of 64 bits"),
    ("bigint", "1" * 5000, f"a is {'1' * 100}…, not a whole number of 64 bits"),
    ("double", "1e400", "a is 1e400, not a number within the range of a double"),
    ("double", "-" + "1" * 310, f"a is -{'1' * 99}…, not a number within the range of a double"),
    ("double", '"1.5"', 'a is "1.5", not a number within the range of a double'),
    ("float", "3.5e38", "a is 3.5e38, not a number within the range of a float"),
    ("decimal(5,2)", "1.234", "a is 1.234, not a number that decimal(5, 2) has exactly"),
    ("decimal(5,2)", "1000", "a is 1000, not a number that decimal(5, 2) has exactly"),
    ("decimal(5,2)", '"1,5"', 'a is "1,5", not a number that decimal(5, 2) has exactly'),
    ("decimal(5,2)", '"NaN"', 'a is "NaN", not a number that decimal(5, 2) has exactly'),
    ("decimal(5,2)", "1e99999999999999999999", "a is 1e99999999999999999999, not a number that "),
    # Arrow's own decimals of these are 0, or it crashes.
    ("decimal(5,2)", "1e-217", "a is 1e-217, not a number that decimal(5, 2) has exactly"),
    ("decimal(5,2)", "1e-2000000000", "a is 1e-2000000000, not a number that decimal(5, 2) has exactly"),
    ("decimal(5,2)", '"1\\u0065-2000000000"', 'a is "1e-2000000000", not a number that decimal(5, 2) has '),
    ("decimal(5,2)", f"0.{'0' * 250}1", f"a is 0.{'0' * 98}…, not a number that decimal(5, 2) has exactly"),
    *(
        ("decimal(5,0)", literal, f"a is {literal[:100]}")
        for literal in ("1e-77", "1e-0000200", f"1.{'1' * 59}e-9", f"0.{'0' * 59}1e-9", f"0.{'0' * 70}1e-8")
    ),
    # Arrow's own decimal of this literal is 13…76.
    ("decimal(38,2)", "9" * 38, f"a is {'9' * 38}, not a number that decimal(38, 2) has exactly"),
    ("string", "1", "a is 1, not a text"),
    ("string", "{}", "a is an object, not a text"),
    ("string", "[]", "a is an array, not a text"),
    ("string", '"\\ud800"', HALF + "a text"),
    ("string", '"\\udc00x"', HALF + "a text"),
    ("string", '"\\ud83d\\u0041"', HALF + "a text"),
    ("binary", '"AAH"', 'a is "AAH", not a text in base64'),
    ("binary", '"AA\\nH/"', 'a is "AA\\nH/", not a text in base64'),
    ("binary", '"AAF="', 'a is "AAF=", not a text in base64'),
    ("binary", '"A-_="', 'a is "A-_=", not a text in base64'),
    ("binary", '"é"', 'a is "é", not a text in base64'),
    ("date", '"2023-02-29"', 'a is "2023-02-29", not a date (YYYY-MM-DD)'),
    ("date", '"0000-01-01"', 'a is "0000-01-01", not a date (YYYY-MM-DD)'),
    ("date", '"20240229"', 'a is "20240229", not a date (YYYY-MM-DD)'),
    ("date", '"2024-02-29\\n"', 'a is "2024-02-29\\n", not a date (YYYY-MM-DD)'),
    ("date", "20000", "a is 20000, not a date (YYYY-MM-DD)"),
    ("timestamp", "1769860800", "a is 1769860800, not a date and time with an offset from UTC, "),
    *(
        ("timestamp", f'"{text}"', f'a is "{text}", not a date and time with an offset from UTC, ')
        for text in (
            "2026-01-31T12:00:00",
            "2026-01-31T12:00Z",
            "2026-01-31",
            "2026-01-31T12:00:00+02",
            "2026-01-31T12:00:00+0200",
            "2026-01-31T12:00:00+18:01",
            "2026-01-31T12:00:00+02:60",
            "2026-01-31T12:00:00.0000001Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T23:59:60Z",
            "2026-02-30T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            " 2026-01-31T12:00:00Z",
        )
    ),
    ("timestamp_ntz", '"2026-01-31T12:00:00Z"', 'a is "2026-01-31T12:00:00Z", not a date and time without '),
    ("timestamp_ntz", '"0000-12-31T12:00:00"', 'a is "0000-12-31T12:00:00", not a date and time without '),
]


@pytest.mark.parametrize(("kind", "literal", "reason"), MISFITS)
def test_a_value_that_does_not_fit_is_named(kind: str, literal: str, reason: str) -> None:
    found = both({"a": kind, "b": "int"}, b'{"b":7,"a":%s}' % literal.encode())
    assert isinstance(found, Rejected)
    assert found.reason.startswith(reason)


NOT_ONE_OBJECT = [
    (None, "the record has no value (a tombstone)"),
    (b"", "not JSON: it is empty"),
    (b" \n", "not JSON: it is empty"),
    (b"\x1f\x8b\x08", "not JSON: starts with 1F 8B: gzip"),
    (b'{"a":"\xff"}', "not UTF-8: byte FF at 7"),
    (b'{"\xff":1}', "not UTF-8: byte FF at 3"),
    (b'{"z":"\xed\xa0\x80"}', "not UTF-8: byte ED at 7"),
    (b'\xef\xbb\xbf{"a":"x"}', "not JSON: it starts with a byte order mark"),
    (b'\xc2\xa0{"a":"x"}', "not JSON: "),
    (b'{"a":"x"}\xe2\x80\xa8', "not JSON: text behind the value (character 10)"),
    (b'{"a":"x"}\x0c', "not JSON: text behind the value (character 10)"),
    (b'[{"a":"x"}]', "not a JSON object: it is an array"),
    (b"null", "not a JSON object: it is null"),
    (b"17", "not a JSON object: it is 17"),
    (b'"{}"', 'not a JSON object: it is "{}"'),
    (b'{"a":"x"}{"a":"y"}', "more than one JSON value"),
    (b'{"a":"x"} null {"a":"y"}', "more than one JSON value"),
    (b'{"a":"x"}\n{"a":"y"}', "more than one JSON value"),
    (b'{"a":"x"} 1', "more than one JSON value"),
    (b'{"a":"x"},"tail":1', "not JSON: text behind the value (character 10)"),
    (b'{"a":"x"},"event":{"a":"y"}', "not JSON: text behind the value (character 10)"),
    (b'{"a":"x"}}', "not JSON: text behind the value (character 10)"),
    (b'{"a":"x"}\0', "not JSON: text behind the value (character 10)"),
    (b'{"a":"x"', "not JSON: "),
    (b'{"a":"x}', "not JSON: "),
    (b'{"a":"x",}', "not JSON: "),
    (b'{"z":{"a":"x"}', "not JSON: "),
    (b'{"z":[1,]}', "not JSON: "),
    (b"{'a':'x'}", "not JSON: "),
    (b'{"a":"x"/**/}', "not JSON: "),
    (b'{"a":"\t"}', "not JSON: "),
    (b'{"a":"\\x"}', "not JSON: "),
    (b'{"a":"\\u00g0"}', "not JSON: "),
    (b'{"z":01}', "not JSON: "),
    (b'{"z":+1}', "not JSON: "),
    (b'{"z":.5}', "not JSON: "),
    (b'{"z":5.}', "not JSON: "),
    (b'{"z":\x0c1}', "not JSON: "),
    (b'{"z":NaN}', "not JSON: NaN is not a number"),
    (b'{"z":[1, -Infinity]}', "not JSON: -Infinity is not a number"),
    (b'{"z":Inf}', "not JSON: "),
    (b'{"a":"x","a":"x"}', "a is there twice"),
    (b'{"a":"x","\\u0061":null}', "a is there twice"),
    (b'{"z":' + b"[" * 500 + b"]" * 500 + b"}", "nested too deeply: more than 500 levels"),
    (b'{"z":' + b'{"z":' * 100_000 + b"1" + b"}" * 100_001, "nested too deeply: more than 500 levels"),
    (b"[" * 100_000, "nested too deeply: more than 500 levels"),
]


@pytest.mark.parametrize(("value", "reason"), NOT_ONE_OBJECT)
def test_a_record_that_is_not_one_json_object_is_rejected(value: bytes | None, reason: str) -> None:
    found = both({"a": "string"}, value)
    assert isinstance(found, Rejected)
    assert found.reason.startswith(reason)


HARMLESS = [
    b'{"a":"x"}',
    b' \r\n\t{\n"a"\n:\n"x"\n}\n',
    b'{"\\u0061":"x"}',
    b'{"A":"y","a":"x","a ":"z","a\\u0000":"z"}',
    b'{"z":1,"z":{"a":"y"},"a":"x","z":["a"]}',
    b'{"z":"\\ud800","\\udc00":"\\udc00","a":"x"}',
    b'{"z":1e400,"y":123456789012345678901234567890123456789012,"a":"x"}',
    b'{"z":' + b"1" * 5000 + b',"a":"x"}',
    b'{"z":' + b"[" * 499 + b"]" * 499 + b',"a":"x"}',
    b'{"z":[' + b"{}," * 600 + b'{}],"a":"x"}',
    b'{"z":"' + b"[{" * 600 + b'","a":"x"}',
    b'{"z":": NaN, :NaN,","y":"Infinity","a":"x"}',
    b'{"":1,"a":"x"}',
]


@pytest.mark.parametrize("value", HARMLESS)
def test_what_no_column_has_does_no_harm(value: bytes) -> None:
    assert both({"a": "string"}, value) == {"a": "x"}


@pytest.mark.parametrize("value", [b"{}", b"{ }", b'{"a":null}', b'{"z":1}', b" {} "])
def test_a_field_that_is_missing_is_null(value: bytes) -> None:
    assert both({"a": "string", "b": "decimal(3,1)", "c": "timestamp"}, value) == dict.fromkeys("abc")


def test_the_first_column_that_is_wrong_is_named() -> None:
    found = both({"b": "int", "a": "int"}, b'{"a":"x","b":"y"}')
    assert found == Rejected('b is "y", not a whole number of 32 bits')


def test_a_schema_is_arrows() -> None:
    decoder = JsonDecoder(
        {
            "a": "boolean",
            "b": "float",
            "c": "binary",
            "d": "timestamp",
            "e": "timestamp_ntz",
            "f": "decimal(9,2)",
        }
    )
    types = [pa.bool_(), pa.float32(), pa.binary(), pa.timestamp("us", "UTC"), pa.timestamp("us")]
    assert decoder.schema.types == [*types, pa.decimal128(9, 2)]
    assert pickle.loads(pickle.dumps(decoder)).schema == decoder.schema  # noqa: S301


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="column 'a': Spark type 'array<int>' is not one of boolean, int"):
        JsonDecoder({"a": "array<int>"})


def test_a_record_of_open_brackets_and_an_open_text_takes_no_longer_than_others() -> None:
    """It was looked at once for each of its escapes: 64 kB took 14 seconds."""
    value = b"[" * 501 + b'"' + b'\\"' * 30_000
    began = time.process_time()
    with pytest.raises(Malformed):
        JsonDecoder({"id": "bigint"}).reference(value, [])
    assert time.process_time() - began < 2
