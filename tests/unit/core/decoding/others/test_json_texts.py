"""JSON of any form as its text."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.decoder import TOMBSTONE, Malformed
from sluice.core.decoding.others import json_texts
from sluice.core.decoding.others.json_texts import JsonTextDecoder
from sluice.core.record_batches.records import SCHEMA

DECODER = JsonTextDecoder("key")


def decoded(*values: bytes | None) -> list[str | tuple[str]]:
    """The text of each value, or its reason alone in a tuple; both ways must agree."""
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = DECODER.decode(pa.array(values, pa.binary()), headers)
    texts, reasons = found.columns.column("key").to_pylist(), found.reasons.to_pylist()
    rows = [text if reason is None else (reason,) for text, reason in zip(texts, reasons, strict=True)]
    for value, row in zip(values, rows, strict=True):
        assert row == by_reference(value)
    return rows


def by_reference(value: bytes | None) -> str | tuple[str]:
    try:
        text: str = DECODER.reference(value, ())["key"]
    except Malformed as error:
        return (str(error),)
    return text


@pytest.mark.parametrize(
    "text",
    [
        *('"a"', "7", "-0.5e+10", "true", "null", '{"id":1}', ' { "a" : "x" , "b":null }\n', "{}", "{ }"),
        *('{"id":{"x":[1,2]}}', "[1]", '"\\u00e9"', '{"a":1,"a":2}', '"ü"'),
    ],
)
def test_json_is_kept_as_it_was_sent(text: str) -> None:
    assert decoded(text.encode()) == [text]


@pytest.mark.parametrize("text", ['"a"', "7", '{"id":1}', ' { "a" : "x" , "b":null }\n'])
def test_usual_keys_are_not_for_the_reference(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(value: bytes) -> Any:
        raise AssertionError(value)

    monkeypatch.setattr(json_texts, "parsed", refusing)
    headers = pa.array([[]], SCHEMA.field("headers").type)
    assert DECODER.decode(pa.array([text.encode()]), headers).columns["key"].to_pylist() == [text]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"abc", "not JSON"),
        (b"", "it is empty"),
        (b"1 2", "more than one JSON value"),
        (b'"a\nb"', "not JSON"),
        (b"01", "more than one JSON value"),
        (b"NaN", "NaN is not a number"),
        (b'"\xff"', "not UTF-8: byte FF at 2"),
        (b'{"a":1,}', "not JSON"),
        (b'"a"\0', "not JSON"),
        (b"\0\0\0\0\7{}", "a schema id (7)"),
        (b"\xef\xbb\xbf1", "byte order mark"),
        (b"[" * 600 + b"]" * 600, "nested too deeply"),
        (None, TOMBSTONE),
    ],
)
def test_what_is_no_json_has_its_reason(value: bytes | None, reason: str) -> None:
    said, key = decoded(value, b'"k"')
    assert key == '"k"'
    assert isinstance(said, tuple)
    assert reason in said[0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, st.booleans(), st.sampled_from(["", " ", "\n\t"]))
def test_any_json_is_kept(value: Any, is_ascii: bool, space: str) -> None:
    text = space + json.dumps(value, ensure_ascii=is_ascii) + space
    assert decoded(text.encode()) == [text]


@given(st.lists(st.sampled_from('{}[]:,"\\ae01.-+ \n\0ü'), max_size=12).map("".join))
def test_what_both_ways_say_is_the_same(text: str) -> None:
    decoded(text.encode())
