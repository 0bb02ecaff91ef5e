"""Rows as the columns of a table: none is lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sluice.core.error_codes import ErrorCode
from spark_jobs.common.lake.data_files.fitting import LosesColumns, fitted
from tests.support.field_ids import with_ids
from tests.support.raising import raising

SCHEMA = with_ids(pa.schema([("n", pa.int64()), ("text", pa.string())]))


def struct(*names: str) -> pa.DataType:
    return pa.struct([(name, pa.int64()) for name in names])


def fitted_values(kind: pa.DataType, wanted: pa.DataType, values: list[Any]) -> list[Any]:
    """Values of a column c of type ``kind``, in a table where it is ``wanted``."""
    rows = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["c"])
    return fitted(rows, with_ids(pa.schema([("c", wanted)]))).column("c").to_pylist()


def test_columns_are_found_by_their_names_in_any_case_and_order() -> None:
    given = pa.RecordBatch.from_pydict({"TEXT": ["a", "b"], "N": [1, 2]})
    found = fitted(given, SCHEMA)
    assert found.to_pydict() == {"n": [1, 2], "text": ["a", "b"]}
    assert found.schema.equals(SCHEMA, check_metadata=True)


def test_columns_that_rows_lack_are_null() -> None:
    assert fitted(pa.RecordBatch.from_pydict({"text": ["a"]}), SCHEMA).to_pydict() == {
        "n": [None], "text": ["a"]
    }  # fmt: skip


def test_a_column_that_the_table_lacks_is_an_error_and_not_dropped() -> None:
    given = pa.RecordBatch.from_pydict({"N": [1], "Zone": ["a"], "fare": [None]})
    with raising(LosesColumns, "lacks fare, zone,", "Fix: ") as caught:
        fitted(given, SCHEMA)
    assert caught.value.code == ErrorCode.INCOMPATIBLE_SCHEMA
    # Also without rows: those of the next piece would be lost.
    with raising(LosesColumns, "fare, zone"):
        fitted(given.slice(0, 0), SCHEMA)


NESTED = [
    (lambda one: one, {"x": 1, "y": 2}, "c"),
    (lambda one: pa.struct([("below", one)]), {"below": {"x": 1, "y": 2}}, "c.below"),
    (lambda one: pa.list_(one), [{"x": 1, "y": 2}, None], "c"),
    (lambda one: pa.list_(pa.list_(one)), [[{"x": 1, "y": 2}], None], "c"),
    (lambda one: pa.map_(pa.string(), one), [("k", {"x": 1, "y": 2})], "c"),
    (lambda one: pa.map_(one, pa.string()), [({"x": 1, "y": 2}, "v")], "c"),
    (lambda one: pa.list_(pa.struct([("at", one)])), [{"at": {"x": 1, "y": 2}}], "c.at"),
]
NAMES = [
    "struct",
    "struct of struct",
    "list",
    "list of list",
    "map",
    "map's keys",
    "list of struct of struct",
]


@pytest.mark.parametrize(("around", "value", "path"), NESTED, ids=NAMES)
@pytest.mark.parametrize(
    ("wanted", "lost"),
    [(("x",), ["y"]), (("X", "y"), ["x"]), (("X", "Y"), ["x", "y"]), (("z",), ["x", "y"])],
    ids=lambda names: ",".join(names),
)
def test_a_nested_field_that_the_table_lacks_is_an_error(
    around: Any, value: Any, path: str, wanted: tuple[str, ...], lost: list[str]
) -> None:
    """Also one in another case: Arrow would make null of it."""
    words = ", ".join(f"{path}.{name}" for name in lost)
    with raising(LosesColumns, f"lacks {words},"):
        fitted_values(around(struct("x", "y")), around(struct(*wanted)), [value])


@pytest.mark.parametrize(("around", "value", "path"), NESTED, ids=NAMES)
@pytest.mark.parametrize(
    "wanted", [("x", "y"), ("y", "x"), ("y", "z", "x")], ids=lambda names: ",".join(names)
)
def test_nested_fields_are_found_in_any_order_and_null_where_rows_lack_them(
    around: Any, value: Any, path: str, wanted: tuple[str, ...]
) -> None:
    def more(one: Any) -> Any:
        """The value, with null for the fields that only the table has."""
        if isinstance(one, dict):
            if "x" in one:
                return {name: one.get(name) for name in wanted}
            return {name: more(below) for name, below in one.items()}
        return type(one)(map(more, one)) if isinstance(one, list | tuple) else one

    found = fitted_values(around(struct("x", "y")), around(struct(*wanted)), [value, None])
    assert found == [more(value), None]


def test_rows_of_the_tables_own_types_are_not_copied() -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, 2], "text": ["a", "b"]})
    found = fitted(rows, SCHEMA)
    assert [one.buffers()[-1].address for one in found.columns] == [
        one.buffers()[-1].address for one in rows.columns
    ]
