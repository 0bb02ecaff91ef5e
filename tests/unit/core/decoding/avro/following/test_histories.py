"""Histories of schemas: the table follows each version, whatever comes first, and no row lacks a field."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.avro.decoder import as_column, row_type
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import Schema, arrow_type
from sluice.core.decoding.avro.unknown.fields import UnknownFields
from sluice.core.decoding.avro.writers import Writer
from tests.support.schema_versions import Histories, has_all
from tests.unit.core.decoding.avro.test_both_ways import fastavros, simple

# By a seed: what a history draws is too much for Hypothesis to draw each of it.
RANDOM = st.integers(0, 2**32 - 1).map(Random)


@given(RANDOM)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_every_version_is_read_whole_in_whatever_order_they_come(random: Random) -> None:
    follow_a_history(Histories(random))


@pytest.mark.exhaustive
def test_a_thousand_histories() -> None:
    for seed in range(1_000):
        follow_a_history(Histories(Random(seed)))  # noqa: S311


def follow_a_history(chance: Histories) -> None:
    versions = chance.versions(chance.random.randint(2, 5))
    bodies = [[chance.body(one) for _ in range(3)] for one in versions]
    table = parsed(json.dumps(chance.random.choice(versions)))
    for one in chance.random.sample(versions, len(versions)):
        before = table
        found = merge(table, written(json.dumps(one)))
        assert found.conflicts == ()
        table = found.schema
        assert_columns_stay(arrow_type(before.record), arrow_type(table.record))
        assert found.is_new == (table != before)
    assert parsed(json.dumps(json.loads(merge(table, table).text))).record == table.record
    for one, those in zip(versions, bodies, strict=True):
        schema = written(json.dumps(one))
        assert not merge(table, schema).is_new, "what was followed is followed"
        assert not UnknownFields(schema.record, table.record)
        for body in those:
            check_body(table, one, schema, body)


def check_body(table: Schema, tree: dict[str, Any], schema: Schema, body: bytes) -> None:
    row = as_column(Writer(schema, table).value(body), row_type(table, ""))
    value = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(tree), None)
    assert has_all(simple(row), fastavros(value))


def assert_columns_stay(before: pa.DataType, after: pa.DataType) -> None:
    """All of them, in their order, with new ones at the end."""
    if pa.types.is_struct(before):
        assert after.names[: len(before.names)] == before.names
        for name in before.names:
            assert_columns_stay(before.field(name).type, after.field(name).type)
    elif pa.types.is_list(before):
        assert_columns_stay(before.value_type, after.value_type)
    elif pa.types.is_map(before):
        assert_columns_stay(before.item_type, after.item_type)
    elif pa.types.is_decimal(before):
        assert (before.scale, before.precision <= after.precision) == (after.scale, True)
    else:
        wider = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
        assert after in (before, wider.get(before))


@given(RANDOM)
@settings(deadline=None)
def test_fastavro_reads_every_version_as_the_followed_schema(random: Random) -> None:
    chance = Histories(random)
    # It refuses decimals of other digits, and reads times of another unit as other times.
    versions = [one for one in chance.versions(4) if "logicalType" not in json.dumps(one)]
    if not versions:
        return
    table = parsed(json.dumps(versions[0]))
    for one in versions:
        table = merge(table, parsed(json.dumps(one))).schema
    reader = fastavro.parse_schema(json.loads(merge(table, table).text))
    for one in versions:
        body = chance.body(one)
        value = fastavro.schemaless_reader(io.BytesIO(body), fastavro.parse_schema(one), reader)
        row = as_column(Writer(parsed(json.dumps(one)), table).value(body), row_type(table, ""))
        assert has_all(simple(row), fastavros(value))
        assert has_all(fastavros(value), simple(row))
