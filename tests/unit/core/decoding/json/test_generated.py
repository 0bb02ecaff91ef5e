"""All records at once and one by one by the reference: the same outcome, reason and values."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.json import parts
from sluice.core.decoding.json.decoder import JsonDecoder
from tests.support.decoding import by_reference, comparable, decoded

KINDS = (
    *(
        "boolean",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ),
    *("decimal(5,2)", "decimal(38,0)", "decimal(38,2)", "decimal(38,38)", "decimal(1,1)"),
)
NAMES = ("a", "b", "c_d", "e1")
SCHEMAS = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(KINDS) for name in names})
)
DIGITS = st.text("0123456789", min_size=1, max_size=45)
NUMBERS = (
    st.integers().map(str)
    | st.integers(-(2**65), 2**65).map(str)
    | st.sampled_from([-(2**31), 2**31 - 1, -(2**63), 2**63 - 1]).flatmap(
        lambda limit: st.integers(limit - 2, limit + 2).map(str)
    )
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.builds(
        "{}{}{}{}".format, st.sampled_from(["", "-", "0", "+"]), DIGITS, st.sampled_from(["", "."]), DIGITS
    )
    | st.builds("{}.{}e{}".format, DIGITS, DIGITS, st.integers(-400, 400))
)
DAYS = st.dates().map(str) | st.builds(
    "{:04}-{:02}-{:02}".format, st.integers(0, 10_000), *[st.integers(0, 32)] * 2
)
TIMES = st.times().map(str) | st.builds("{:02}:{:02}:{:02}".format, *[st.integers(0, 60)] * 3)
FRACTIONS = st.sampled_from(
    ["", ".", ".5", ".25000000", ".123456", ".1234567", ".000000000", ".999999999000"]
)
ZONES = st.sampled_from(
    ["", "Z", "z", "+02:00", "-18:00", "+18:01", "-17:59", "+0200", "+02", "+00:60", "+23:59", " Z", "UTC"]
)
MOMENTS = st.builds("{}{}{}{}{}".format, DAYS, st.sampled_from(["T", " ", "t", ""]), TIMES, FRACTIONS, ZONES)
STRINGS = (
    DAYS
    | MOMENTS
    | NUMBERS
    | st.binary(max_size=9).map(lambda value: base64.b64encode(value).decode())
    | st.text(max_size=12)
    | st.sampled_from(
        ["", "NaN", ": NaN,", "Inf", "true", "null", "{}", "+1", ".5", "5.", "1e2", "AB==", "é", "\ud800"]
    )
)
SPACES = st.sampled_from(["", "", "", " ", "\n", "\t", "\r\n", "  "])


@st.composite
def texts(draw: st.DrawFn, value: st.SearchStrategy[str] = STRINGS) -> str:
    """A text of JSON, as it is or with escapes."""
    text = draw(value)
    style = draw(st.sampled_from(["plain", "ascii", "escapes"]))
    if style == "escapes":
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return '"' + "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4)) + '"'
    if any("\ud800" <= character <= "\udfff" for character in text):
        style = "ascii"
    return json.dumps(text, ensure_ascii=style == "ascii")


LITERALS = st.sampled_from(
    ["null", "true", "false", "NaN", "-Infinity", "Inf", "nul", "1e400", "", "{}", "[]"]
)
VALUES: st.SearchStrategy[str] = st.recursive(
    texts() | texts() | NUMBERS | NUMBERS | LITERALS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]")
        | st.lists(st.tuples(texts(st.sampled_from(NAMES)), inner), max_size=3).map(
            lambda found: "{" + " , ".join(f"{name}: {value}" for name, value in found) + "}"
        )
    ),
    max_leaves=4,
)
# What suits a column, so that most values are accepted.
FITTING: dict[str, st.SearchStrategy[str]] = {
    "boolean": st.sampled_from(["true", "false"]),
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "float": NUMBERS,
    "double": NUMBERS,
    "string": texts(),
    "binary": texts(st.binary(max_size=9).map(lambda value: base64.b64encode(value).decode())),
    "date": texts(DAYS),
    "timestamp": texts(MOMENTS),
    "timestamp_ntz": texts(MOMENTS),
    "decimal(5,2)": st.decimals(-1000, 1000, places=2).map(str) | NUMBERS | texts(NUMBERS),
    "decimal(38,0)": st.integers(-(10**38), 10**38).map(str) | NUMBERS,
    "decimal(38,2)": st.integers(-(10**38), 10**38).map(str) | NUMBERS,
    "decimal(38,38)": st.decimals(-1, 1, places=38).map("{:f}".format) | NUMBERS,
    "decimal(1,1)": st.decimals(-1, 1, places=1).map(str) | NUMBERS,
}


@st.composite
def records(draw: st.DrawFn, schema: dict[str, str]) -> bytes:
    """An object with most columns, and others; sometimes changed by some bytes."""
    members = [
        (draw(texts(st.just(name))), draw(FITTING[kind] | FITTING[kind] | st.just("null")))
        for name, kind in schema.items()
        if draw(st.integers(0, 9))
    ]
    if draw(st.integers(0, 2)) == 0:
        members += draw(
            st.lists(st.tuples(texts(st.sampled_from([*NAMES, "z", "A", ""])), VALUES), max_size=3)
        )
    members = draw(st.permutations(members))
    written = [draw(SPACES).join(["", name, ":", value, ""]) for name, value in members]
    text = draw(SPACES) + "{" + ",".join(written) + "}" + draw(SPACES)
    value = text.encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3]))):
        at = draw(st.integers(0, len(value)))
        behind = draw(st.sampled_from([at, at, at + 1, at + 2, len(value)]))
        value = value[:at] + draw(PIECES) + value[behind:]
    return value


PIECES = st.sampled_from(
    [
        *(
            b"",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b'"',
            b"\\",
            b"\n",
            b" ",
            b"\0",
            b"\xff",
            b"\xef\xbb\xbf",
            b"\xc3",
        ),
        *(
            b"\xed\xa0\x80",
            b"null",
            b"} null {",
            b"NaN",
            b"0",
            b"-",
            b".",
            b"e",
            b"1",
            b"{}",
            b'"a":1',
            b'},"a":{',
        ),
        *(b"}{", b"\\ud800", b"\\u", b"Infinity", b"/**/", b"'", b"\x0c", b"\xc2\xa0", b"\x7f", b"\x1f"),
    ]
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[dict[str, str], list[bytes | None]]:
    schema = draw(SCHEMAS)
    return schema, draw(st.lists(records(schema) | records(schema) | st.none(), min_size=1, max_size=24))


@pytest.fixture(autouse=True, scope="module")
def _arrow_judges_each_row() -> Iterator[None]:
    """No row is the reference's because of its neighbours: Arrow's own reading of it is compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_FEW", 1)
        patch.setattr(parts, "_MIN_FAILURES", 1_000_000)
        yield


def check(stream: tuple[dict[str, str], list[bytes | None]]) -> None:
    schema, values = stream
    decoder = JsonDecoder(schema)
    expected = [by_reference(decoder, value) for value in values]
    assert comparable(decoded(decoder, values)) == comparable(expected)


@given(streams())
def test_both_ways_agree(stream: tuple[dict[str, str], list[bytes | None]]) -> None:
    check(stream)


@pytest.mark.exhaustive
@settings(max_examples=1500)
@given(streams())
def test_both_ways_agree_on_many(stream: tuple[dict[str, str], list[bytes | None]]) -> None:
    check(stream)
