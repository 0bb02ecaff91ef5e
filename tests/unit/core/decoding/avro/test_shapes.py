"""A hundred shapes of schemas: a table is made of each, and what fastavro wrote is read exactly, or it is
refused with the path."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from random import Random
from typing import Any

import fastavro
import pytest

from sluice.config.reading.names import COLUMN, ICEBERG, OURS
from sluice.core.decoding.avro import trees
from sluice.core.decoding.avro.following.conflicts import Names
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.names import definitions
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import JSON, Type, UnsupportedSchema, arrow_type
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.registry.avro_references import self_contained
from sluice.core.registry.errors import RefusedSchema
from spark_jobs.common.lake.data_files.schema import iceberg_type
from tests.support.avro_bodies import Chance
from tests.support.avro_shapes import LARGE, SHAPES, Fields, f, record
from tests.support.hostile_records import zigzag
from tests.support.registered import FakeSchemas, by_both, framed
from tests.unit.core.decoding.avro.test_both_ways import fastavros, is_equal, simple

KEPT = "_unknown_fields"
NAMES = Names(COLUMN.pattern, OURS, ICEBERG, frozenset({KEPT}))
# Those with types of their own in a table; the others are what they are made of.
KNOWN = {
    "decimal",
    "date",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
}
RECORDS = 12


class Bodies(Chance):
    """Bodies of any schema. ``tree``: its names are looked up in it."""

    def __init__(self, random: Random, tree: Any) -> None:
        super().__init__(random)
        self._every, self._level = dict(definitions(tree)), 0

    def body(self, kind: Any) -> bytes:
        kind = self._looked_up(kind)
        self._level += 1
        try:
            if self._level > 30 and isinstance(kind, list):
                return zigzag(kind.index("null"))
            if self._level > 30 and isinstance(kind, dict) and kind["type"] in ("array", "map"):
                return b"\0"
            return super().body({**kind, "type": "record"} if _is(kind, "error") else kind)
        finally:
            self._level -= 1

    def _looked_up(self, kind: Any) -> Any:
        while isinstance(kind, dict) and not (
            isinstance(kind["type"], str) and kind["type"] not in self._names()
        ):
            kind = kind["type"]
        if isinstance(kind, str) and kind in self._names():
            return self._names()[kind]
        if isinstance(kind, dict) and not is_known(kind):
            return {key: value for key, value in kind.items() if key != "logicalType"}
        return kind

    def _names(self) -> dict[str, Any]:
        return {**{name.rpartition(".")[2]: one for name, one in self._every.items()}, **self._every}


def _is(kind: Any, name: str) -> bool:
    return isinstance(kind, dict) and kind["type"] == name


def is_known(kind: dict[str, Any]) -> bool:
    """Whether a logical type is one of a table's."""
    logical, base = kind.get("logicalType"), kind["type"]
    if logical not in KNOWN:
        return False
    if logical == "decimal":
        return trees.digits(kind, base) != (0, 0)
    return base == ("int" if logical == "date" else "long")


def without_others(tree: Any) -> Any:
    """A schema without the logical types that no table knows, and without defaults, which no reader of the
    same schema uses."""
    if isinstance(tree, list):
        kinds = [one["type"] if isinstance(one, dict) and "logicalType" in one else one for one in tree]
        # Spark reads these numbers as such.
        return kinds if kinds == ["int", "long"] else [without_others(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    left_out = {"default"} | (set() if "logicalType" not in tree or is_known(tree) else {"logicalType"})
    return {key: without_others(value) for key, value in tree.items() if key not in left_out}


def tree_of(fields: Fields) -> dict[str, Any]:
    return record("Row", f("id", "int"), *fields, namespace="n")


def made(fields: Fields) -> Callable[[], Fields]:
    return lambda: fields


ALL = {**{name: (made(fields), words) for name, (fields, words) in SHAPES.items()}, **LARGE}


@pytest.mark.parametrize("name", ALL)
def test_a_shape_is_followed_and_read_exactly_or_refused_with_its_path(name: str) -> None:
    make, refused = ALL[name]
    tree = tree_of(make())
    start = parsed(json.dumps(record("Row", f("id", "int"), namespace="n")))
    try:
        text = self_contained(json.dumps(tree), [], "schema id 1")
        found = merge(start, written(text), NAMES)
        reason = found.reason
    except (RefusedSchema, UnsupportedSchema) as error:
        reason = str(error)
    if refused:
        assert refused in reason
        if "a n.Row inside of another one" not in reason:
            return
        found = merge(start, written(text), NAMES, recursive_as_text=True)
        reason = found.reason
    assert reason == ""
    check_columns(found.schema.record)
    decoder = RegisteredAvro(
        found.text, FakeSchemas({1: ("AVRO", text)}), KEPT, following=Following(names=NAMES)
    )
    check_rows(decoder, tree, found.schema.record)


def check_columns(table: Any) -> None:
    """They are ones that Iceberg has, and a further version of the same schema adds nothing."""
    assert iceberg_type(arrow_type(table), iter(range(1, 10_000)))["fields"]


def check_rows(decoder: RegisteredAvro, tree: Any, table: Type) -> None:
    chance = Bodies(Random(json.dumps(tree)), tree)  # noqa: S311
    own = fastavro.parse_schema(without_others(trees.without_braces(json.loads(json.dumps(tree)))))
    values = [fastavro.schemaless_reader(io.BytesIO(chance.body(tree)), own, None) for _ in range(RECORDS)]
    sent = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, own, value)
        sent.append(out.getvalue())
    rows = by_both(decoder, [framed(1, one) for one in sent])
    for body, row in zip(sent, rows, strict=True):
        assert isinstance(row, dict), row
        kept = json.loads(row.pop(KEPT) or "{}")
        value = fastavro.schemaless_reader(io.BytesIO(body), own, None)
        assert is_all(simple(row), value, kept, table), (row, value, kept)


def is_all(row: Any, value: Any, kept: Any, kind: Type) -> bool:
    """Whether a row has all of a value, but for what is kept beside it: nulls alone."""
    kind = kind.optional
    if kind.kind == JSON:
        return row is value is None or bool(json.loads(row) == value)
    if isinstance(row, dict) and isinstance(value, dict) and kind.kind == "record":
        beside = kept if isinstance(kept, dict) else {}
        lacking = value.keys() - row.keys()
        return all(value[one] is None and one in beside and beside[one] is None for one in lacking) and all(
            is_all(row[one], value[one], beside.get(one), kind.by_name[one].type) for one in row
        )
    if isinstance(row, list) and isinstance(value, list) and kind.kind == "array":
        return len(row) == len(value) and all(
            is_all(*two, None, kind.item) for two in zip(row, value, strict=True)
        )
    return is_same_text(row, value) or is_equal(row, fastavros(value))


def is_same_text(row: Any, value: Any) -> bool:
    """Whether an empty record, of a union or of a map's values, is the text of one."""
    if isinstance(row, dict) and isinstance(value, dict):
        return (
            bool(row)
            and row.keys() == value.keys()
            and all(row[one] == "{}" and not value[one] for one in row)
        )
    return bool(row == "{}" and value == {})


def test_there_are_a_hundred_of_them() -> None:
    assert len(ALL) >= 100
    assert len({json.dumps(make()) for make, _ in ALL.values()}) == len(ALL)
