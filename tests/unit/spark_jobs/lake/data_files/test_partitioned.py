"""Rows by their partitions, with the values that Iceberg computes and the folders that it names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)

from sluice.config.schema import Partition
from spark_jobs.common.lake.data_files.partitioned import (
    Values,
    as_json,
    by_partition,
    path,
    transformed,
)

# Emoji are surrogate pairs in Java, combining marks are characters of their own.
TEXTS = st.text(
    st.sampled_from("aé😀e\u0301 /=%*~👨‍👩‍👧") | st.characters(exclude_categories=["Cs"]), max_size=6
)
# By type: Arrow's and some values; the lowest numbers have no multiple below them.
KINDS: list[tuple[IcebergType, pa.DataType, st.SearchStrategy[Any]]] = [
    (StringType(), pa.string(), TEXTS),
    (BinaryType(), pa.binary(), st.binary(max_size=6)),
    (IntegerType(), pa.int32(), st.integers(-(2**31) + 1_000, 2**31 - 1)),
    (LongType(), pa.int64(), st.integers(-(2**63) + 1_000, 2**63 - 1)),
    (DecimalType(9, 2), pa.decimal128(9, 2), st.decimals(-9_999_000, 9_999_000, places=2)),
    (DecimalType(5, 0), pa.decimal128(5, 0), st.decimals(-99_000, 99_999, places=0)),
]

IDS = [str(arrow) for _, arrow, _ in KINDS]


@pytest.mark.parametrize(("iceberg", "arrow", "values"), KINDS, ids=IDS)
@settings(max_examples=50)
@given(data=st.data())
def test_values_are_truncated_as_by_iceberg(
    iceberg: IcebergType, arrow: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    these = data.draw(st.lists(st.none() | values, max_size=8))
    width = data.draw(st.sampled_from([1, 2, 3, 7, 10, 16, 1_000]))
    expected = TruncateTransform(width).transform(iceberg)
    column = pa.array([None, *these], arrow)[1:]
    found = transformed(column, width)
    assert found.type == arrow
    assert found.to_pylist() == [None if one is None else expected(one) for one in these]


@pytest.mark.parametrize(("iceberg", "arrow", "values"), KINDS, ids=IDS)
@settings(max_examples=50)
@given(data=st.data())
def test_without_a_width_a_value_is_its_own_partition(
    iceberg: IcebergType, arrow: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    these = data.draw(st.lists(st.none() | values, max_size=8))
    expected = IdentityTransform().transform(iceberg)
    assert transformed(pa.array(these, arrow), None).to_pylist() == [expected(one) for one in these]


@pytest.mark.parametrize(
    ("column", "width", "expected"),
    [
        # https://iceberg.apache.org/spec/#truncate-transform-details
        (pa.array([1, -1, 0, -10, -11, None]), 10, [0, -10, 0, -10, -20, None]),
        (pa.array([1, -1], pa.int32()), 10, [0, -10]),
        (
            pa.array([Decimal("10.65"), Decimal("-0.01"), None]),
            50,
            [Decimal("10.50"), Decimal("-0.50"), None],
        ),
        (pa.array(["iceberg", "ice", "", None]), 3, ["ice", "ice", "", None]),
        (pa.array([b"\x01\x02\x03\x04\x05", b"\xff", None]), 3, [b"\x01\x02\x03", b"\xff", None]),
        # Whole characters, not UTF-16's halves, and not what is seen as one.
        (pa.array(["😀😁😂", "e\u0301a"]), 2, ["😀😁", "e\u0301"]),
        (pa.array([None], pa.int64()), 10, [None]),
        (pa.array([], pa.int64()), 10, []),
        # The longest that a column can have.
        (
            pa.array([Decimal("9" * 38), Decimal("-" + "8" * 38)]),
            10,
            [Decimal("9" * 37 + "0"), Decimal("-" + "8" * 36 + "90")],
        ),
    ],
)
def test_examples_of_the_specification(column: pa.Array, width: int, expected: list[Any]) -> None:
    assert transformed(column, width).to_pylist() == expected


@given(st.data())
def test_a_decimal_is_truncated_as_the_number_without_its_point(data: st.DataObject) -> None:
    """PyIceberg's own truncation has no more than 28 digits."""
    scale, width = data.draw(st.integers(0, 38)), data.draw(st.integers(1, 2**31 - 1))
    # The multiple below has no more digits than a column can have.
    least, most = -(10**38 - 1) // width * width + width, 10**38 - 1
    numbers = data.draw(st.lists(st.none() | st.integers(least, most), max_size=8))
    exact = Context(prec=40)

    def values(those: list[int | None]) -> list[Decimal | None]:
        return [None if one is None else Decimal(one).scaleb(-scale, exact) for one in those]

    found = transformed(pa.array(values(numbers), pa.decimal128(38, scale)), width)
    expected = [None if one is None else one - one % width for one in numbers]
    assert found == pa.array(values(expected), pa.decimal128(38, scale))


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


BY_TEXT_AND_NUMBER = (Partition("text", 1), Partition("number"))


def test_rows_of_a_partition_stay_in_their_order() -> None:
    batch = rows(text=["ab", "b", None, "ac", None, "b"], number=[1, 1, 1, 1, None, 1], at=range(6))
    found = list(by_partition(batch, BY_TEXT_AND_NUMBER))
    assert {values: part.column("at").to_pylist() for values, part in found} == {
        ("a", 1): [0, 3],
        ("b", 1): [1, 5],
        (None, 1): [2],
        (None, None): [4],
    }
    assert len(found) == 4
    assert all(part.schema == batch.schema for _, part in found)


def test_a_column_is_found_in_any_case() -> None:
    batch = rows(Number=[1, 2, 1])
    assert [(v, p.num_rows) for v, p in by_partition(batch, [Partition("number")])] == [((1,), 2), ((2,), 1)]


def test_a_table_without_partitions_has_one_part() -> None:
    batch = rows(n=[1, 2])
    ((values, part),) = by_partition(batch, ())
    assert (values, part) == ((), batch)


@given(
    st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-25, 25)), max_size=40),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 10]),
)
def test_all_parts_are_all_rows(
    given: list[tuple[str | None, int | None]], width: int | None, tens: int | None
) -> None:
    texts, numbers = zip(*given, strict=True) if given else ((), ())
    batch = rows(
        text=pa.array(texts, pa.string()),
        number=pa.array(numbers, pa.int64()),
        at=pa.array(range(len(given)), pa.int64()),
    )
    partitions = [Partition("text", width), Partition("number", tens)]
    found = [(values, part) for values, part in by_partition(batch, partitions) if part.num_rows]
    places = [part.column("at").to_pylist() for _, part in found]
    assert sorted(chain.from_iterable(places)) == list(range(len(given)))
    assert all(each == sorted(each) for each in places)
    assert len({values for values, _ in found}) == len(found)
    for values, part in found:
        assert part == batch.take(part.column("at"))
        for value, name, one in zip(values, ("text", "number"), partitions, strict=True):
            assert set(transformed(part.column(name), one.width).to_pylist()) == {value}


def iceberg_path(kinds: Sequence[IcebergType], partitions: Sequence[Partition], values: Values) -> str:
    """By PyIceberg, which has Java's words for these types; Java also writes ``*`` for %2A, %7E for ``~``."""
    fields = [
        NestedField(n, one.column, kind) for n, (one, kind) in enumerate(zip(partitions, kinds, strict=True))
    ]
    spec = PartitionSpec(
        *(
            PartitionField(
                n, 1_000 + n, TruncateTransform(one.width) if one.width else IdentityTransform(), one.field
            )
            for n, one in enumerate(partitions)
        )
    )
    return spec.partition_to_path(Record(*values), Schema(*fields)) + "/"


@given(st.none() | TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), st.sampled_from([None, 3]))
def test_a_folder_is_named_as_by_iceberg(text: str | None, number: int | None, width: int | None) -> None:
    partitions = [Partition("text", width), Partition("a_number")]
    expected = iceberg_path([StringType(), LongType()], partitions, (text, number))
    assert path(partitions, (text, number)) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (StringType(), "a b/ü=%", "x=a+b%2F%C3%BC%3D%25/"),
        (StringType(), "", "x=/"),
        (StringType(), None, "x=null/"),
        (IntegerType(), -3, "x=-3/"),
        (DateType(), date(2026, 1, 2), "x=2026-01-02/"),
        (DecimalType(9, 2), Decimal("-1.10"), "x=-1.10/"),
    ],
)
def test_words_of_folders(kind: IcebergType, value: Any, expected: str) -> None:
    assert path([Partition("x")], (value,)) == expected


def test_a_truncated_column_has_a_name_of_its_own() -> None:
    assert path([Partition("a", 2), Partition("b")], ("xy", 1)) == "a_trunc=xy/b=1/"
    assert path([], ()) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # https://iceberg.apache.org/spec/#json-single-value-serialization
        (None, None),
        (True, True),
        (34, 34),
        (14.5, 14.5),
        ("iceberg", "iceberg"),
        (Decimal("14.20"), "14.20"),
        (date(2017, 11, 16), "2017-11-16"),
        (date(1, 1, 1), "0001-01-01"),
        (datetime(2017, 11, 16, 22, 31, 8, 1), "2017-11-16T22:31:08.000001"),  # noqa: DTZ001
        (datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), "2017-11-16T22:31:08.000000+00:00"),
        (b"\x00\x01\x02\xff", "000102FF"),
    ],
)
def test_values_in_json(value: Any, expected: Any) -> None:
    assert as_json(value) == expected
    assert json.loads(json.dumps(as_json(value))) == expected
