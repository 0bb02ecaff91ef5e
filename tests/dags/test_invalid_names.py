"""Names that a later step cannot carry are refused before anything is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.declarations import HEALTHY, INVALID, NAME, DagFile, ids, make, reason, toml

AVRO = {"type": "record", "name": "Ride", "namespace": "rides"}
NESTED = {
    "type": "record",
    "name": "At",
    "fields": [{"name": "x", "type": "int"}, {"name": "X", "type": "int"}],
}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (["_pos"], ("'_pos'", "Iceberg's own")),
        (["_FILE"], ("'_FILE'", "Iceberg's own")),
        (["_row_id"], ("'_row_id'", "Iceberg's own")),
        (["id", "ID"], ("'ID'", "'id' differ in case only")),
        (["_KAFKA_offset"], ("'_KAFKA_offset'", "Sluice's own")),
        (["_source_id"], ("'_source_id'", "Sluice's own")),
        (["_sluice_hash"], ("'_sluice_hash'", "Sluice's own")),
        ([""], ("''", "cannot be a column")),
        (["a.b"], ("'a.b'", "cannot be a column")),
        (["a`b"], ("'a`b'", "cannot be a column")),
        (["a'b"], ("a'b", "cannot be a column")),
        (["a\nb"], ("'a\\nb'", "cannot be a column")),
        (["é"], ("'é'", "cannot be a column")),
        (["x" * 129], ("cannot be a column",)),
        ([7], ("column 7", "cannot be a column")),
    ],
)
def test_a_column_that_a_later_step_cannot_carry_is_refused_at_once(
    fields: list[Any], words: tuple[str, ...], streams: Path, dag_file: DagFile
) -> None:
    top = {**AVRO, "fields": [{"name": name, "type": "string"} for name in fields]}
    inner = {**AVRO, "fields": [{"name": "m", "type": {"type": "map", "values": {**top, "name": "In"}}}]}
    listed = {
        **AVRO,
        "fields": [{"name": "m", "type": ["null", {"type": "array", "items": {**top, "name": "In"}}]}],
    }
    for schema in (top, inner, listed):
        make(streams, NAME, schema=json.dumps(schema))
        dags = dag_file()
        assert set(dags) == HEALTHY | INVALID
        assert all(word in reason(dags) for word in (f"{NAME}/schema.avsc", "Fix: ", *words))


def test_other_odd_columns_are_taken(streams: Path, dag_file: DagFile) -> None:
    fields = ["Select", "_c0", "order", "key", "value", "_window", "at_partition", "x_trunc"]
    schema = {**AVRO, "fields": [{"name": name, "type": "string"} for name in fields]}
    make(streams, NAME, schema=json.dumps(schema))
    assert set(dag_file()) == HEALTHY | ids(NAME)


@pytest.mark.parametrize(
    ("change", "schema", "words"),
    [
        (("[csv]", 'partition_by = ["truncate(1, ride)"]\n\n[csv]'), ["ride", "Ride_Trunc"], ("ride_trunc",)),
        (("[csv]", 'partition_by = ["ride"]\n\n[csv]'), ["other"], ("'ride' is no column",)),
        (("[csv]", '[csv]\nextra_columns = "ride"'), ["ride"], ("extra_columns 'ride' is no map",)),
    ],
)
def test_names_that_the_declaration_and_its_schema_do_not_share_are_refused(
    change: tuple[str, str], schema: list[str], words: tuple[str, ...], streams: Path, dag_file: DagFile
) -> None:
    fields = [{"name": name, "type": "string"} for name in schema]
    make(streams, NAME, toml(NAME, change), json.dumps({**AVRO, "fields": fields}))
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID
    assert all(word in reason(dags) for word in words)


@pytest.mark.parametrize("schema", ["[" * 50_000, "7", "null", '{"fields": 7}', '{"fields": [7]}', "{}"])
def test_a_schema_that_is_none_is_refused(schema: str, streams: Path, dag_file: DagFile) -> None:
    make(streams, NAME, schema=schema)
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID
    assert f"{NAME}/schema.avsc" in reason(dags)
