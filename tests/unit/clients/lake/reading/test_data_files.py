"""DuckDB reads what PyArrow wrote: the same rows as PyIceberg's own reader, or an error that says why not."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import BinaryType, ListType, LongType, NestedField, StringType
from pyroaring import BitMap

from sluice.clients.lake.reading import data_files, files
from sluice.clients.lake.reading.by_arrow import read_any_text
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support import lake as lakes

NAME = "raw.hostile"
ALL = AlwaysTrue()
POINT = pa.struct([("x", pa.int32()), ("word", pa.string())])
COLUMNS = pa.schema(
    [
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(38, 10)),
        ("small money", pa.decimal128(5, 2)),
        ("day", pa.date32()),
        ("hour", pa.time64("us")),
        ("moment", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ('wo"rd', pa.string()),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("points", pa.list_(POINT)),
        ("point", POINT),
        ("named", pa.map_(pa.string(), pa.list_(pa.decimal128(20, 3)))),
    ]
)
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
MOMENTS = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), BEFORE_1970]
NAN, INFINITE = float("nan"), float("inf")
VALUES: dict[str, list[Any]] = {
    "n": [0, -(2**31), 2**31 - 1, None],
    "big": [0, -(2**63), 2**63 - 1, None],
    "real": [NAN, -0.0, -INFINITE, None],
    "double": [NAN, -0.0, 5e-324, None],
    "money": [Decimal("-1E-10"), Decimal(10) ** 28 - 1, Decimal(0), None],
    "small money": [Decimal("-999.99"), Decimal("0.01"), Decimal(0), None],
    "day": [date.min, date.max, date(1970, 1, 1), None],
    "hour": [time.min, time.max, time(12), None],
    "moment": [*MOMENTS, None],
    "local": [*(moment.replace(tzinfo=None) for moment in MOMENTS), None],
    'wo"rd': ["", "nul \0 '\"; é e\u0301 \U0001f600", "\ufeff\u2028\ud7ff\uffff\U0010ffff", None],
    "raw": [b"", bytes(range(256)), b"\xff\xfe", None],
    "flag": [True, False, True, None],
    "points": [[], [{"x": 1, "word": "\0"}, None, {"x": None, "word": None}], [None], None],
    "point": [{"x": -1, "word": ""}, {"x": None, "word": None}, {"x": 2, "word": "é"}, None],
    "named": [[], [("a", [Decimal("1.5"), None]), ("", None)], [("b", [])], None],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _kept_databases() -> None:
    """None are kept: each reader opens its own, as it does elsewhere."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    made = lake.catalog.create_table(NAME, COLUMNS)
    made.append(pa.table(VALUES, schema=COLUMNS))
    made.append(pa.table({name: [values[1]] for name, values in VALUES.items()}, schema=COLUMNS))
    return made


def by_duckdb(
    table: Table, rows: BooleanExpression = ALL, tasks: list[FileScanTask] | None = None
) -> pa.Table:
    return files.read(table, rows, ("*",), tasks=tasks).read_all()


def by_pyarrow(table: Table, rows: BooleanExpression = ALL) -> pa.Table:
    return ArrowScan(table.metadata, table.io, table.schema(), rows).to_table(table.scan(rows).plan_files())


def texts(found: pa.Table) -> list[str]:
    """The rows as text, in one order: NaN equals no NaN."""
    return sorted(map(repr, found.to_pylist()))


def test_each_value_is_read_as_its_writer_reads_it(table: Table) -> None:
    found, expected = by_duckdb(table), by_pyarrow(table)
    assert len(texts(found)) == 5
    assert texts(found) == texts(expected)
    assert found.schema.equals(files.schema_to_pyarrow(table.schema()))


CONDITIONS: dict[str, BooleanExpression] = {
    "equal": EqualTo("n", -(2**31)),
    "not equal": NotEqualTo("big", 0),
    "in": In("n", [0, 5, 2**31 - 1]),
    "not in": NotIn("n", [0, 5]),
    "text in": In('wo"rd', ["", "nul \0 '\"; é e\u0301 \U0001f600"]),
    "starts": StartsWith('wo"rd', "nul \0 '"),
    "starts not": NotStartsWith('wo"rd', "nul"),
    "null": IsNull("point"),
    "not null": NotNull("flag"),
    "nan": IsNaN("double"),
    "not nan": NotNaN("real"),
    "above in floats": GreaterThan("real", -1.0),
    "at least in floats": GreaterThanOrEqual("double", 0.0),
    "day": LessThan("day", "1970-01-01"),
    "last day": GreaterThanOrEqual("day", "9999-12-31"),
    "moment": LessThanOrEqual("moment", "1969-12-31T23:59:59.999999+00:00"),
    "last moment": EqualTo("moment", "9999-12-31T23:59:59.999999+00:00"),
    "local": GreaterThan("local", "1969-12-31T23:59:59.999998"),
    "both": And(GreaterThan("big", -5), NotNull("day"), Not(EqualTo("n", 0))),
    "either": Or(EqualTo("n", 0), EqualTo('wo"rd', "")),
    "flag": Not(IsNull("flag")),
}


@pytest.mark.parametrize("rows", CONDITIONS.values(), ids=list(CONDITIONS))
def test_a_condition_is_true_of_the_same_rows(table: Table, rows: BooleanExpression) -> None:
    found = texts(by_duckdb(table, rows))
    assert found == texts(by_pyarrow(table, rows))
    assert 0 < len(found) < 5


def test_a_renamed_column_is_the_same_and_one_that_a_file_lacks_is_null(table: Table) -> None:
    with table.update_schema() as update:
        update.rename_column("n", "number")
        update.rename_column("big", "n")
        update.rename_column("point.word", "text")
        update.rename_column("points.element.x", "y")
        update.add_column(("point", "z"), LongType())
        update.add_column("new", StringType())
        update.move_first("new")
    with table.update_schema() as update:
        update.update_column("number", LongType())
    rows = And(GreaterThan("n", 0), IsNull("new"))
    assert texts(by_duckdb(table, rows)) == texts(by_pyarrow(table, rows))
    found = [row for row in by_duckdb(table).to_pylist() if row["number"] == -(2**31)]
    assert [row["point"] for row in found] == [{"x": None, "text": None, "z": None}] * 2
    assert (found[0]["n"], found[0]["new"], found[0]["points"][0]) == (-(2**63), None, {"y": 1, "word": "\0"})


def test_a_dropped_column_that_came_again_has_none_of_its_values(table: Table) -> None:
    with table.update_schema() as update:
        update.delete_column("flag")
    with table.update_schema() as update:
        update.add_column("flag", StringType())
    assert by_duckdb(table)["flag"].to_pylist() == [None] * 5


def deletes(folder: Path, of: str, positions: list[int]) -> DataFile:
    """A file of deleted rows, as Spark writes it."""
    path = folder / "deletes.parquet"
    kinds = [("file_path", pa.string(), 2147483546), ("pos", pa.int64(), 2147483545)]
    schema = pa.schema(
        [pa.field(name, kind, False, {"PARQUET:field_id": str(number)}) for name, kind, number in kinds]
    )
    rows = {"file_path": [of] * len(positions) + ["another"], "pos": [*positions, 0]}
    pq.write_table(pa.table(rows, schema=schema), path)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        file_size_in_bytes=path.stat().st_size,
    )


def vector(folder: Path, of: str, positions: list[int]) -> DataFile:
    """A deletion vector, of Iceberg's version 3."""
    bitmap = struct.pack("<qi", 1, 0) + BitMap(positions).serialize()
    inside = b"\xd1\xd3\x39\x64" + bitmap
    blob = struct.pack(">i", len(inside)) + inside + struct.pack(">I", zlib.crc32(inside))
    about = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": 1, "sequence-number": 1, "offset": 4}
    about |= {"length": len(blob), "properties": {"referenced-data-file": of, "cardinality": "2"}}
    footer = json.dumps({"blobs": [about]}).encode()
    path = folder / "deletes.puffin"
    end = struct.pack("<i4x", len(footer)) + b"PFA1"
    path.write_bytes(b"PFA1" + blob + b"PFA1" + footer + end)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=path.as_uri(), file_format=FileFormat.PUFFIN
    )


@pytest.mark.parametrize("written", [deletes, vector])
def test_deleted_rows_are_left_out(
    table: Table, tmp_path: Path, written: Callable[[Path, str, list[int]], DataFile]
) -> None:
    tasks = sorted(files.committed_since(table, 0), key=lambda task: -task.file.record_count)
    gone = written(tmp_path, tasks[0].file.file_path, [1, 3])
    with_deletes = [FileScanTask(tasks[0].file, delete_files={gone}), tasks[1]]
    scan = ArrowScan(table.metadata, table.io, table.schema(), ALL)
    found = by_duckdb(table, tasks=with_deletes)
    assert sorted(found["n"].to_pylist()) == [-(2**31), 0, 2**31 - 1]
    assert texts(found) == texts(scan.to_table(with_deletes))
    assert by_duckdb(table, EqualTo("n", -(2**31)), with_deletes).num_rows == 1


def replaced(table: Table, body: bytes) -> list[FileScanTask]:
    """The table's files, the first of which has other bytes now."""
    tasks = files.committed_since(table, 0)
    Path(tasks[0].file.file_path.removeprefix("file://")).write_bytes(body)
    return tasks


@pytest.mark.parametrize("keep", [0, 3, 4, 1000, -9, -5, -1])
def test_a_damaged_file_is_named(table: Table, keep: int) -> None:
    path = Path(files.committed_since(table, 0)[0].file.file_path.removeprefix("file://"))
    tasks = replaced(table, path.read_bytes()[:keep])
    with pytest.raises(Refused, match=r"raw\.hostile: .*data file.* is damaged: ") as error:
        by_duckdb(table, tasks=tasks[:1])
    assert error.value.code is ErrorCode.CORRUPT_OBJECT
    assert path.name in str(error.value)


def test_a_file_without_field_ids_is_no_file_of_nulls(table: Table, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "foreign.parquet")
    tasks = replaced(table, (tmp_path / "foreign.parquet").read_bytes())
    with pytest.raises(Refused, match="has no field ids"):
        by_duckdb(table, tasks=tasks)


def test_text_that_is_no_utf_8_is_an_error(table: Table, tmp_path: Path) -> None:
    number = str(table.schema().find_field('wo"rd').field_id)
    bad = pa.array([b"ok", b"\xff"]).view(pa.string())
    schema = pa.schema([pa.field("word", pa.string(), metadata={"PARQUET:field_id": number})])
    pq.write_table(pa.table([bad], schema=schema), tmp_path / "bad.parquet")
    tasks = replaced(table, (tmp_path / "bad.parquet").read_bytes())
    with pytest.raises(Refused, match=r"another program's text: .*FF.*Fix: docs/operating\.md"):
        by_duckdb(table, tasks=tasks)
    # Where a person's change takes such records out, the others are compared nevertheless.
    found = read_any_text(lambda read: read(table, ALL, ('wo"rd',), tasks=tasks).read_all())
    assert b"\xff" in found['wo"rd'].cast(pa.large_binary()).to_pylist()
    # Without that column the file is read.
    assert files.read(table, ALL, ("n",), tasks=tasks).read_all().num_rows > 1


def test_a_file_that_is_gone_is_said_so(table: Table) -> None:
    tasks = files.committed_since(table, 0)
    Path(tasks[0].file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(Refused, match="it is gone") as error:
        by_duckdb(table, tasks=tasks)
    assert error.value.code is ErrorCode.LAKE_FILE_MISSING


def test_no_answer_in_the_middle_of_a_file_is_no_damage(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the FileIO raised, not what DuckDB made of it."""

    def broken(self: Any, begin: int, size: int) -> Iterator[bytes]:
        self._failures.append(ConnectionError("reset"))
        raise self._failures[-1]

    monkeypatch.setattr("sluice.clients.lake.reading.opened_files._File.read", broken)
    with pytest.raises(ConnectionError, match="reset"):
        list(data_files.read(table, files.committed_since(table, 0), table.schema(), ALL))


def test_a_default_for_files_without_the_column_is_not_ignored(table: Table) -> None:
    field = table.schema().fields[0].model_copy(update={"initial_default": 7})
    schema = table.schema().model_copy(update={"fields": (field, *table.schema().fields[1:])})
    with pytest.raises(NotImplementedError, match="'n' has a default value"):
        list(data_files.read(table, files.committed_since(table, 0), schema, ALL))


@pytest.mark.parametrize(
    ("sizes", "mb"),
    [
        ([{1: 1 << 20, 2: 1 << 30}], data_files.MIN_MEMORY_MB + 4),
        ([{1: 1 << 20}, {1: 10 << 20}, {}], data_files.MIN_MEMORY_MB + 40),
        ([{1: 1 << 40}], data_files.MAX_MEMORY_MB),
        ([{1: 1}, None], data_files.MAX_MEMORY_MB),
        ([], data_files.MIN_MEMORY_MB),
    ],
    ids=["only its columns", "the largest file", "no more than", "unknown sizes", "no file"],
)
def test_memory_is_bounded_by_the_columns_that_are_read(sizes: list[dict[int, int] | None], mb: int) -> None:
    listed: Any = [DataFile.from_args(column_sizes=one) for one in sizes]
    assert data_files.memory_mb(listed, [NestedField(1, "n", LongType())]) == mb


def test_memory_of_nested_columns_is_not_computed() -> None:
    nested = NestedField(1, "n", ListType(2, LongType()))
    assert (
        data_files.memory_mb([DataFile.from_args(column_sizes={2: 1})], [nested]) == data_files.MAX_MEMORY_MB
    )


@pytest.mark.parametrize(("size", "is_short"), [(640, True), (641, False)])
@pytest.mark.parametrize("kind", [StringType(), BinaryType()])
def test_long_texts_get_all_memory(kind: Any, size: int, is_short: bool) -> None:
    """Ten rows, with at most 64 bytes each."""
    file = DataFile.from_args(column_sizes={1: size, 2: 9999}, record_count=10)
    mb = data_files.memory_mb([file], [NestedField(1, "n", kind), NestedField(2, "m", LongType())])
    assert mb == (data_files.MIN_MEMORY_MB if is_short else data_files.MAX_MEMORY_MB)
