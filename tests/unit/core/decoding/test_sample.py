"""What records of others seem to be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.decoding.sample import BYTES, JSON, TEXT, guess

CONFLUENT = b"\0\0\0\0\x07\x02\x04ab"


def of(*values: Any, keys: Any = ()) -> Any:
    sent = [
        value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in values
    ]
    return guess(sent, keys or [None] * len(sent))


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
        "id": "BIGINT", "price": "DOUBLE", "paid": "BOOLEAN", "note": "STRING", "at": "STRING",
        "gone": "STRING",
    }  # fmt: skip
    assert [doubt.split()[0] for doubt in found.doubts] == ["at", "lines", "gone"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("note", "x", "note is STRING or an array"),
        ("note", 2**63, "note is a number of more than 64 bits or an array"),
        ("note", {"a": 1}, "note is an array or an object"),
        ("order id", 1, "'order id'"),
        ("ID", 1, "'ID'"),
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
    assert "2 of 5 values" in found.doubts[0]


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
