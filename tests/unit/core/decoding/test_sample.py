"""What records of others seem to be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.decoding.sample import BYTES, JSON, TEXT, Sampled, guess

CONFLUENT = b"\0\0\0\0\x07\x02\x04ab"


def of(*values: Any, keys: Any = ()) -> Any:
    sent = [
        value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in values
    ]
    pairs = zip(sent, keys or [None] * len(sent), strict=True)
    return guess([Sampled(*both, offset=at) for at, both in enumerate(pairs)])


def test_the_columns_of_json_objects() -> None:
    found = of(
        {
            "id": 1,
            "price": 1,
            "paid": True,
            "note": "a",
            "at": "2026-06-01T12:00:00Z",
            "lines": [1],
            "gone": None,
        },
        {
            "id": 2,
            "price": 1.5,
            "paid": False,
            "note": None,
            "at": "2026-06-02T12:00:00Z",
            "lines": [],
            "gone": None,
        },
    )
    assert (found.format, found.key) == (JSON, "")
    assert found.columns == {
        "id": "BIGINT", "price": "DOUBLE", "paid": "BOOLEAN", "note": "STRING", "at": "TIMESTAMP",
        "gone": "STRING",
    }  # fmt: skip
    assert [doubt.split()[0] for doubt in found.doubts] == ["lines", "gone"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (
            "note",
            "x",
            "note is STRING (1, first partition 0, offset 1) or an array (1, first partition 0, offset 0)",
        ),
        ("note", 10**400, "note is a number out of range (1"),
        ("note", {"a": 1}, "note is an array (1, first partition 0, offset 0) or an object (1"),
    ],
)
def test_a_field_that_no_column_takes_stays_among_the_unknown_ones(name: str, value: Any, said: str) -> None:
    """A column of texts rejects a record with another value."""
    found = of({"id": 1, "note": []}, {name: value})
    assert [doubt for doubt in found.doubts if said in doubt and "_unknown_fields" in doubt]
    assert found.columns.keys() == {"id"}


def test_a_few_values_that_are_no_objects_are_said() -> None:
    found = of({"id": 1}, {"id": 2}, b"{", [1], {"id": 3})
    assert (found.format, found.columns) == (JSON, {"id": "BIGINT"})
    assert found.doubts == [
        "2 of 5 values are no JSON object, the first in partition 0, offset 2: they would be rejected"
    ]


@pytest.mark.parametrize(
    ("values", "ddl", "said"),
    [
        (["2026-05-15"] * 3, "DATE", ""),
        (["2026-05-15T12:00:00.000001Z", "2026-05-15 12:00:00+02:00"], "TIMESTAMP", ""),
        (["2026-05-15T12:00:00"], "TIMESTAMP_NTZ", ""),
        (["2026-05-15T12:00:00Z", "2026-05-15T12:00:00"], "STRING", "field looks like a time"),
        (["2026-05-15T12:00"], "STRING", "field looks like a time ('2026-05-15T12:00')"),
        (
            ["2026-05-15"] * 20 + ["gestern"],
            "STRING",
            'partition 0, offset 20 has "gestern": so it is a text',
        ),
        ([12, 1.5, 0.25], "DECIMAL(18, 2)", "at most 2 decimals"),
        ([b"123456789012345678.25"], "DECIMAL(38, 2)", "more digits than a DOUBLE keeps"),
        (["12.50", "0.25"], "DECIMAL(18, 2)", "texts of numbers of at most 2 decimals"),
        (["12.50", "0.250"], "STRING", ""),
        (["00.50", "01.25"], "STRING", ""),
        ([1.5, 20.3], "DOUBLE", ""),
        ([1e30, 0.25], "DOUBLE", ""),
        ([2**63, 1], "DECIMAL(38, 0)", "more digits than a DOUBLE keeps"),
        ([*range(20), "abc", "x"], "BIGINT", '2 are not, the first: partition 0, offset 20 has "abc"'),
        ([*range(20), "abc", "x", "y"], "", "BIGINT (20, first partition 0, offset 0) or STRING (3"),
        ([True, False, None], "BOOLEAN", ""),
    ],
)
def test_the_types_of_fields(values: list[Any], ddl: str, said: str) -> None:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    found = of(*(b'{"id": 1, "field": %s}' % text for text in texts))
    assert found.columns.get("field", "") == ddl
    (doubt,) = found.doubts or [""]
    assert bool(doubt) is bool(said)
    assert said in doubt


def test_headers_are_kept_if_each_can_be() -> None:
    plain, named = Sampled(b"a"), Sampled(b"b", headers=[(b"trace-id", b"1")])
    assert not guess([plain]).has_headers
    assert guess([plain, named]).has_headers
    for wrong in ([(b"\xff", None)], None):
        found = guess([plain, named, Sampled(b"c", headers=wrong, offset=7)])
        assert not found.has_headers
        assert found.doubts[0].startswith("partition 0, offset 7 has ")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"one", "zwölf".encode()], TEXT),
        ([b"one", b"\xff"], BYTES),
        ([b"a\0"], BYTES),
        ([b"[1]", b"2"], TEXT),
    ],
)
def test_values_that_are_no_objects(values: list[bytes], kind: str) -> None:
    found = of(*values)
    assert (found.format, found.columns) == (kind, {})


def test_a_registrys_frame_is_named_with_its_schemas() -> None:
    found = of(CONFLUENT, CONFLUENT.replace(b"\x07", b"\x09", 1))
    assert found.format == BYTES
    (doubt,) = found.doubts
    assert "schema ids 7, 9" in doubt
    assert "registry = true" in doubt


@pytest.mark.parametrize(
    ("keys", "key"),
    [([b"a", b"b"], TEXT), ([b"a", b"\xff"], BYTES), ([b"a", None], TEXT), ([None, None], "")],
)
def test_keys(keys: list[bytes | None], key: str) -> None:
    found = of({"id": 1}, {"id": 2}, keys=keys)
    assert found.key == key
    assert [doubt for doubt in found.doubts if "no key" in doubt] == (
        ["1 of 2 records have no key"] if keys == [b"a", None] else []
    )


def test_records_without_a_value_and_none_at_all() -> None:
    found = of({"id": 1}, None)
    assert found.format == JSON
    assert "1 of 2 records have no value" in found.doubts[0]
    assert of().format == BYTES
    assert "no record" in of().doubts[0]


def test_decimals_of_connect_are_doubted() -> None:
    found = of(
        {"price": "AfQ=", "note": "abcd", "id": "1234"}, {"price": "1234", "note": "ab=", "id": "5678"}
    )
    (doubt,) = found.doubts
    assert doubt.startswith("'price' has texts in base64, as decimals of Kafka Connect's JsonConverter")
    assert found.columns == dict.fromkeys(("price", "note", "id"), "STRING")
