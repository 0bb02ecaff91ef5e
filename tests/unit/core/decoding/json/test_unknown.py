"""Members that no column has, as they were sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.json import decoder as decoders
from sluice.core.decoding.json.decoder import JsonDecoder
from tests.support.decoding import Rejected, by_reference, comparable, decoded

COLUMNS = {"id": "bigint", "name": "string"}
KEPT = "_unknown_fields"
NESTED = '{"a":{"id":[1,{"name":"},\\"]"}]}'
MANY_DIGITS = "123456789012345678901234567890123456789012"


def both(*texts: str, columns: dict[str, str] = COLUMNS) -> list[Any]:
    """Each record, among others (few are for the reference alone); by the reference, too."""
    decoder = JsonDecoder(columns, KEPT)
    values: list[bytes | None] = [*(text.encode() for text in texts), *[b'{"id":1}'] * 20]
    expected = [by_reference(decoder, value) for value in values]
    assert comparable(decoded(decoder, values)) == comparable(expected)
    # What came before is no account of it.
    assert comparable(decoded(decoder, values)) == comparable(expected)
    return expected[: len(texts)]


def unknown(text: str) -> str | None:
    (found,) = both(text)
    kept: str | None = found[KEPT]
    return kept


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('{"id": 1, "name": "x"}', None),
        ("{}", None),
        (' { "id" : 1 } ', None),
        (f'{{"id": 1, "z": {MANY_DIGITS}}}', f'{{"z": {MANY_DIGITS}}}'),
        ('{"z":1e400,"id":1}', '{"z":1e400}'),
        ('{"z": null}', '{"z": null}'),
        (NESTED + ' ,"id":2,"b":"\\ud800"}', NESTED + ',"b":"\\ud800"}'),
        ('{"z" :\t1\n,"y":[ ]  }', '{"z" :\t1,"y":[ ]}'),
        ('{"":1}', '{"":1}'),
        ('{"z":1,"z":2}', '{"z":1,"z":2}'),
        ('{"\\u0069d":7}', None),
        ('{"\\u0069x":7}', '{"\\u0069x":7}'),
        ('{"ID":1,"ü":"ü"}', '{"ID":1,"ü":"ü"}'),
        ('{"a":"\\\\","b":"\\\\\\"","id":1}', '{"a":"\\\\","b":"\\\\\\""}'),
    ],
)  # fmt: skip
def test_they_are_kept_exactly(sent: str, kept: str | None) -> None:
    assert unknown(sent) == kept
    others = ['{"id":3}', '{"other":[1]}', "[]", "{"]
    found = both(others[0], sent, *others[1:], sent)
    assert [row if isinstance(row, Rejected) else row[KEPT] for row in found[:3]] == [
        None,
        kept,
        '{"other":[1]}',
    ]
    assert found[-1] == found[1]


def test_a_key_of_a_column_that_is_there_twice_is_an_error_and_another_is_not() -> None:
    assert both('{"id":1,"x":1,"id":2}', '{"x":1,"x":1}')[0] == Rejected("id is there twice")


def test_records_without_further_members_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*given: Any) -> None:
        raise AssertionError(given)

    decoder = JsonDecoder(COLUMNS, KEPT)
    monkeypatch.setattr(decoders, "unknown_texts", searched)
    rows = decoded(decoder, [b'{"id":1}', None, b"{}", b"[]", b'{"name":"a"}'] * 20)
    assert all(isinstance(row, Rejected) or row[KEPT] is None for row in rows)
    with pytest.raises(AssertionError):
        decoded(decoder, [b'{"id":1}', b'{"z":1}'] * 20)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(
    st.text(max_size=3) | st.sampled_from(["a", "b", "\\", '"', "{"]), VALUES, max_size=4
)


@given(st.lists(st.tuples(OBJECTS, st.none() | st.integers(-9, 9), st.booleans()), min_size=1, max_size=5))
def test_what_is_kept_is_what_the_columns_lack(sent: list[tuple[dict[str, Any], int | None, bool]]) -> None:
    texts, expected = [], []
    for members, number, is_ascii in sent:
        own = {**members, "id": number}
        separators = (", ", ": ") if is_ascii else (",", ":")
        texts.append(json.dumps(own, ensure_ascii=is_ascii, separators=separators))
        expected.append({name: value for name, value in own.items() if name != "id"})
    for row, members in zip(both(*texts, columns={"id": "bigint"}), expected, strict=True):
        kept = row[KEPT]
        assert (json.loads(kept) if kept else {}) == members
