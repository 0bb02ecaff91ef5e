"""A table's schema against a registered one, by paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.schema_versions.compared import differences
from tests.support.orders_versions import REFUSED, V1, V2, V3, VERSIONS, schema


def compared(table: dict[str, Any], latest: str) -> list[str]:
    return [str(one) for one in differences(parsed(schema(**table)), latest, Following())]


def test_the_same_and_less_have_no_difference() -> None:
    assert compared(V1, schema(**V1)) == []
    assert compared(V2, schema(**V1)) == []


def test_what_is_missing_and_what_is_wider_is_named_at_any_depth() -> None:
    assert compared(V1, schema(**V3)) == [
        "number: wider in the schema: the table has int32, the schema int64",
        "amount: wider in the schema: the table has decimal128(9, 2), the schema decimal128(20, 2)",
        "address.zip: missing in the table (int32)",
        "lines[].count: missing in the table (int32)",
        "rates[]: wider in the schema: the table has float, the schema double",
        "channel: missing in the table (string)",
    ]


@pytest.mark.parametrize("version", [7, *(number for number in REFUSED if number != 7)])
def test_what_cannot_be_followed_says_why(version: int) -> None:
    (said,) = compared(V3, schema(**VERSIONS[version - 1]))
    assert said.startswith(
        f"{REFUSED[version].replace(': the table', ': cannot be followed: the table')}. Fix: "
    )


def test_a_new_record_is_one_difference() -> None:
    inner = {"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]}
    assert compared(V1, schema(**V1, payment=inner)) == ["payment: missing in the table (struct<a: int32>)"]


def test_what_is_no_record_cannot_be_followed() -> None:
    (said,) = compared(V1, json.dumps("string"))
    assert said.startswith("the whole schema: cannot be followed: ")
