"""The columns of a stream that is not Avro, and a table's against them."""

from __future__ import annotations

import pytest

from sluice.config import schema, streams
from sluice.config.schema import ddl_iceberg_type
from sluice.config.stream_columns import OFFSET_COLUMNS, differences, schema_problems
from tests.support.raising import raising

SPEC = streams.load("wiki_changes")


def test_every_type_that_may_be_declared_has_one() -> None:
    assert {kind: ddl_iceberg_type(kind) for kind in schema.TYPES} == {
        "boolean": "boolean", "int": "int", "bigint": "long", "float": "float", "double": "double",
        "string": "string", "binary": "binary", "date": "date", "timestamp": "timestamptz",
        "timestamp_ntz": "timestamp",
    }  # fmt: skip
    assert ddl_iceberg_type(schema.parse_ddl("a DECIMAL(9, 2)")["a"]) == "decimal(9, 2)"


@pytest.mark.parametrize("kind", ["INT", "tinyint", "map<string,string>", "decimal", ""])
def test_another_is_refused(kind: str) -> None:
    with raising(ValueError, repr(kind)):
        ddl_iceberg_type(kind)


def test_the_declared_columns_and_the_record_offsets_are_wanted() -> None:
    columns = schema.parse_ddl(SPEC.schema_file.read_text())
    declared = {name: ddl_iceberg_type(kind) for name, kind in columns.items()}
    present = {**declared, **OFFSET_COLUMNS, "older": "string"}
    assert schema_problems(SPEC, present) == []
    assert (present["change_timestamp"], present["change_timestamp_date"]) == ("timestamptz", "date")
    (problem,) = schema_problems(SPEC, {k: v for k, v in present.items() if k != "event_id"})
    assert "table raw.wiki_changes has no column event_id (string)" in problem
    (problem,) = schema_problems(SPEC, {**present, "change_timestamp": "timestamp"})
    assert problem.endswith("is timestamp, the stream declares timestamptz")
    assert len(schema_problems(SPEC, {})) == len(declared) + len(OFFSET_COLUMNS)


def test_avro_is_still_avro() -> None:
    problems = schema_problems(streams.load("nyc_taxi"), {})
    assert any("has no column" in problem for problem in problems)
    assert differences("t", {"a": "map<"}, {**OFFSET_COLUMNS, "a": "map<string, string>"}) == []


def test_a_column_may_have_become_wider() -> None:
    def of(declared: str, found: str) -> int:
        return len(differences("t", {"a": declared}, {**OFFSET_COLUMNS, "a": found}))

    wider = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(20, 2)"}
    assert [of(declared, found) for declared, found in wider.items()] == [0, 0, 0]
    assert [of(declared, found) for found, declared in wider.items()] == [1, 1, 1]
    assert of("decimal(9, 2)", "decimal(20, 3)") == 1
