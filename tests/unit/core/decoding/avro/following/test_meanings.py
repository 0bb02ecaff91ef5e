"""A column of numbers whose type does not say what they are: of what, and in which unit."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.parsing import parsed, written
from tests.unit.core.decoding.avro.following.test_merging import DECIMAL, MICROS, MILLIS, merged, schema


def debezium(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "connect.name": f"io.debezium.time.{name}"}


TIME = {"type": "int", "logicalType": "time-millis"}
NANOS = {**MICROS, "logicalType": "timestamp-nanos"}
# Debezium for MySQL: DATETIME(3) becomes DATETIME(6), DATE becomes DATETIME, TIME(3) TIME(6).
CHANGES = [
    (TIME, {"type": "long", "logicalType": "time-micros"}),
    (NANOS, MICROS),
    (debezium("long", "Timestamp"), debezium("long", "MicroTimestamp")),
    (debezium("int", "Date"), debezium("long", "Timestamp")),
    (debezium("int", "Time"), debezium("long", "MicroTime")),
    (debezium("long", "Timestamp"), debezium("int", "Date")),
    (["null", debezium("int", "Date")], ["null", debezium("long", "Timestamp")]),
    (["string", debezium("long", "Timestamp")], debezium("long", "MicroTimestamp")),
    (["int", NANOS], MICROS),
    ({**DECIMAL, "precision": 80}, {**DECIMAL, "precision": 80, "scale": 3}),
]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_a_number_does_not_change_its_unit_in_its_column(before: Any, after: Any) -> None:
    assert merge(written(schema(("at", before))), written(schema(("at", after)))).conflicts
    lists = [written(schema(("at", {"type": "array", "items": one}))) for one in (before, after)]
    assert merge(lists[0], lists[1]).conflicts


@pytest.mark.parametrize(("before", "after"), [one for one in CHANGES[:6] if isinstance(one[0], dict)])
def test_what_a_followed_column_means_is_in_its_document(before: Any, after: Any) -> None:
    """Also of a column that had plain numbers: its meaning is the first that is known."""
    for table in (schema(("id", "int")), schema(("id", "int"), ("at", before["type"]))):
        followed = merged(table, schema(("id", "int"), ("at", before)))
        assert followed.is_new
        document = parsed(followed.text)
        assert merge(document, written(schema(("id", "int"), ("at", before)))).is_new is False
        assert merge(document, written(schema(("id", "int"), ("at", after)))).conflicts
        # Numbers of which nothing is said are what they were before.
        assert not merge(document, written(schema(("id", "int"), ("at", before["type"])))).conflicts


def test_a_reason_says_both_meanings() -> None:
    found = merged(
        schema(("at", debezium("long", "Timestamp"))), schema(("at", debezium("long", "MicroTimestamp")))
    )
    said = "long (io.debezium.time.Timestamp), the schema long (io.debezium.time.MicroTimestamp)"
    assert found.reason == f"at: the table has {said}"


def test_what_is_one_unit_is_followed() -> None:
    """Times with a column of their own have their units from their schemas; more digits are the same."""
    for table, other in (
        (MILLIS, MICROS),
        (DECIMAL, {**DECIMAL, "precision": 18}),
        (debezium("int", "Date"), debezium("long", "Date")),
        ({"type": "string", "logicalType": "uuid"}, debezium("string", "ZonedTimestamp")),
    ):
        assert not merged(schema(("at", table)), schema(("at", other))).conflicts
    of_bytes = merged(schema(("at", "bytes")), schema(("at", DECIMAL)))
    more = merge(of_bytes.schema, written(schema(("at", {**DECIMAL, "precision": 18}))))
    assert (more.conflicts, more.is_new) == ((), False)
