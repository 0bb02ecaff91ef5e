"""Columns of a file's header that the schema does not have, as fields of a further schema."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.reading.names import column_problem
from sluice.core.bounds import MAX_COLUMNS
from sluice.core.csv.header import InvalidHeader
from sluice.core.csv.new_columns import with_new_columns
from tests.support.raising import raising

FIELDS: list[dict[str, Any]] = [
    {"name": "Ride_Id", "type": "string"},
    {"name": "more", "type": {"type": "map", "values": "string"}},
]
SCHEMA = {"type": "record", "name": "r", "namespace": "n", "fields": FIELDS}


def made(*names: str) -> Any:
    return with_new_columns(SCHEMA, names, column_problem, "s3://b/k")


def test_they_are_texts_that_may_be_null_behind_the_others() -> None:
    found = made("ride id", "Größe (cm)", "2016 total")
    assert found == {
        **SCHEMA,
        "fields": [
            *FIELDS,
            {"name": "_2016_total", "type": ["null", "string"], "default": None},
            {"name": "grosse_cm", "type": ["null", "string"], "default": None},
        ],
    }


def test_the_order_and_spelling_of_a_header_make_no_other_schema() -> None:
    assert made("b", "RIDE_ID", "A") == made("a", "ride_id", "B ")


@pytest.mark.parametrize("names", [("ride_id",), ("ride_id", "MORE"), ("x", "y")])
def test_without_any_and_of_another_file_it_is_the_schema_itself(names: tuple[str, ...]) -> None:
    assert made(*names) is SCHEMA


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("名前", "'名前' of the header is new"),
        ("_Kafka offset", "'_Kafka offset', as '_kafka_offset', of the header is new"),
        ("_pos", "Iceberg's own"),
        ("x" * 129, "at most 128 letters"),
    ],
)
def test_a_name_that_no_column_can_have_refuses_the_file(name: str, said: str) -> None:
    with raising(InvalidHeader, "s3://b/k", said, "Fix: "):
        made("ride_id", "fine", name)


def test_a_file_of_too_many_columns_is_refused() -> None:
    names = [f"c{number}" for number in range(MAX_COLUMNS - len(FIELDS))]
    assert len(made("ride_id", *names)["fields"]) == MAX_COLUMNS
    with raising(InvalidHeader, f"{MAX_COLUMNS + 1} columns", "Fix: "):
        made("ride_id", *names, "one_more")
