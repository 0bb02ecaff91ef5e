"""Members that no column has, as they were sent."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.json import decoder as decoders
from sluice.core.decoding.json.decoder import JsonDecoder
from sluice.core.decoding.json.unknown import unknown_text, unknown_texts
from tests.support.decoding import Rejected, by_reference, comparable, decoded

COLUMNS = {"id": "bigint", "name": "string"}
KEPT = "_unknown_fields"
NESTED = '{"a":{"id":[1,{"name":"},\\"]"}]}'
DEEP = ["[" * depth + '1,{"id":2}' + "]" * depth for depth in (247, 248, 249, 250, 253, 254, 255, 256)]
# More than are looked at.
SPACES = " \n" * 20
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
        # Deeper than a byte counts, and by as much as it counts.
        *((f'{{"z":{nested},"id":1}}', f'{{"z":{nested}}}') for nested in DEEP),
        (f'{{{SPACES}"z"{SPACES}:1,{SPACES}"id"{SPACES}:2}}', f'{{"z"{SPACES}:1}}'),
        # As many bytes as a word and a name, and one more or less.
        *((f'{{"{"n" * n}":1,"id":2}}', f'{{"{"n" * n}":1}}') for n in (7, 8, 9, 23, 24, 25, 300)),
        ('{"name":"x","names":1,"nam":2}', '{"names":1,"nam":2}'),
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


def test_a_zero_behind_the_name_of_a_column_is_no_end_of_it() -> None:
    raw, escaped = both('{"id\0":1}', '{"id\\u0000":1}')
    assert isinstance(raw, Rejected)
    assert escaped == {"id": None, "name": None, KEPT: '{"id\\u0000":1}'}


def test_names_of_columns_are_told_from_longer_and_shorter_ones() -> None:
    names = ["a" * n for n in range(1, 40)]
    for length in (1, 7, 8, 9, 15, 16, 17, 24, 33):
        columns = {"a" * length: "int"}
        sent = json.dumps({name: len(name) for name in names})
        (row,) = both(sent, columns=columns)
        assert json.loads(row[KEPT]) == {name: len(name) for name in names if len(name) != length}
        assert row["a" * length] == length


def test_escapes_in_values_white_space_and_depth_are_not_for_the_reference() -> None:
    texts = [
        r'{"id":1,"z":"\\\"},{\\"}',
        '{"id":1,"z":"\\"","y":["]"]}',
        json.dumps({"id": 1, "z": {"y": [{"id": 2}]}}, indent=8),
        f'{{"id":1,"z":{"[" * 240}{"]" * 240}}}',
    ]
    found, is_odd = unknown_texts(pa.array(texts), pa.array(["id"]))
    assert not is_odd.any()
    assert found.to_pylist() == [unknown_text(text, ["id"]) for text in texts]


@pytest.mark.parametrize("wrong", ['{"z"1}', "[1]", '{"z":"1}', '"z":1'])
def test_all_are_for_the_reference_if_one_is_no_object(wrong: str) -> None:
    """Arrow has read them, so none should be."""
    good = ['{"z":1}', '{"id":1,"y":[{"z":2}]}']
    for texts in ([wrong, *good], [*good, wrong], [good[0], wrong, good[1]]):
        _, is_odd = unknown_texts(pa.array(texts), pa.array(["id"]))
        assert is_odd.all()


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
