"""Histories with versions that no table can follow: each record is a row with all that it has, or is refused
whole because of its schema."""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import fastavro
import pytest

from sluice.config.reading.names import COLUMN, ICEBERG, OURS
from sluice.core.decoding.avro.following.conflicts import Names
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.following.written import schema_text
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import Schema
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.unfollowed import Following
from tests.support.registered import FakeSchemas, avro, by_both, framed
from tests.support.schema_histories import Unplanned, is_whole
from tests.unit.core.decoding.avro.test_both_ways import simple

KEPT = "_unknown_fields"
NAMES = Names(COLUMN.pattern, OURS, ICEBERG, frozenset({KEPT}))
VALUES = ("more digits", "bytes that are no text")
FOLLOWING = Following(names=NAMES, recursive_as_text=True)


@pytest.mark.parametrize("seed", range(40))
def test_a_history(seed: int) -> None:
    follow(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("begin", range(40, 840, 50))
def test_eight_hundred_histories(begin: int) -> None:
    for seed in range(begin, begin + 50):
        follow(seed)


def follow(seed: int) -> None:
    chance = Unplanned(Random(seed))  # noqa: S311
    versions = chance.history(chance.random.randint(3, 8))
    schemas = FakeSchemas({n: avro(tree) for n, tree in enumerate(versions, 1)})
    table = parsed(json.dumps(versions[0]))
    seen: dict[int, bool] = {}
    for batch in chance.schedule(len(versions)):
        ids = [one + 1 for one in batch]
        bodies = [body for one in batch for body in chance.values(versions[one], 2)]
        sent = [framed(ids[place // 2], body) for place, body in enumerate(bodies)]
        table = followed(table, schemas, ids)
        decoder = RegisteredAvro(schema_text(table.record), schemas, KEPT, following=FOLLOWING)
        for place, row in enumerate(by_both(decoder, sent)):
            number = ids[place // 2]
            check(table, versions[number - 1], number, bodies[place], row)
            # What was followed once is followed for ever.
            conflicts = FOLLOWING.merged(table, written(json.dumps(versions[number - 1]))).conflicts
            assert not (seen.setdefault(number, not conflicts) and conflicts), conflicts


def followed(table: Schema, schemas: FakeSchemas, ids: list[int]) -> Schema:
    """The table once the versions of a batch are followed, as far as they can be: as the consumer, until
    there is nothing more. One may say how a name goes on that another one could not have."""
    for _ in range(len(ids) + 1):
        before = table
        for number in sorted(set(ids)):
            table = FOLLOWING.merged(table, written(schemas.get(number).text)).schema
        if table == before:
            return parsed(schema_text(table.record))
    raise AssertionError("it follows without an end")


def check(table: Schema, tree: Any, number: int, body: bytes, row: Any) -> None:
    found = merge(table, written(json.dumps(tree)), NAMES, recursive_as_text=True)
    if isinstance(row, str) and not found.conflicts:
        # The column is another one, into which most values fit, and not this one.
        assert row.startswith("written with an earlier Avro schema: ")
        assert row.endswith(VALUES)
        return
    if isinstance(row, str):
        assert row == f"schema id {number} cannot be followed: {found.message}", row
        return
    assert not found.conflicts
    assert row.pop(KEPT) is None
    value = fastavro.schemaless_reader(
        io.BytesIO(body), fastavro.parse_schema(json.loads(json.dumps(tree))), None
    )
    assert is_whole(simple(row), value), (simple(row), value)
