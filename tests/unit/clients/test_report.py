"""A report read out of its table: all of it, and then only what is new. The table is as Spark writes it."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, LongType, NestedField, StringType, TimestamptzType

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.clients.report import ReportReader
from sluice.clients.table import Lake
from sluice.model.report import Editor, Report, Window
from tests.support import lake as lakes

# PyIceberg deletes before it writes, and says so where there is nothing to delete.
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match")

TABLE = "reports.editors"
START = 1_772_406_000  # 2026-03-01 23:00:00 UTC
SCHEMA = Schema(
    NestedField(1, "window_start", TimestamptzType()),
    NestedField(2, "window_end", TimestamptzType()),
    NestedField(3, "user", StringType()),
    NestedField(4, "bot", BooleanType()),
    NestedField(5, "edits", LongType()),
    NestedField(6, "late", LongType()),
)
ROWS = pa.schema(
    [
        pa.field("window_start", pa.timestamp("us", "UTC")),
        pa.field("window_end", pa.timestamp("us", "UTC")),
        pa.field("user", pa.string()),
        pa.field("bot", pa.bool_()),
        pa.field("edits", pa.int64()),
        pa.field("late", pa.int64()),
    ]
)
HOSTILE = ["<img src=x onerror=alert(1)>", "a\u202eb", "", "x" * 10_000, "🦉", "'; --", "\x00"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lakes.empty(tmp_path)
    made.catalog.create_namespace("reports")
    return made


def create(lake: Lake) -> None:
    by_window = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "window_start"))
    lake.catalog.create_table(TABLE, SCHEMA, partition_spec=by_window)


def said(kind: str = "report", **more: object) -> dict[str, str]:
    facts = {
        "kind": kind,
        "token": 1,
        "source": 7,
        "source_at": 1_000_000,
        "records": 100,
        "newest": 2_000_000,
        "watermark": 1_400_000,
        "late": 3,
    }
    return {f"sluice.{key}": str(value) for key, value in (facts | more).items()}


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def write(lake: Lake, windows: dict[int, list[tuple[str, bool, int, int]]], **facts: Any) -> None:
    """Put windows (number -> rows) in the place of those that are there, as the report's owner does."""
    rows = [
        (moment(START + 600 * number), moment(START + 600 * number + 600), *row)
        for number, made in windows.items()
        for row in made
    ]
    data = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in rows], schema=ROWS)
    table = lake.catalog.load_table(TABLE)
    table.dynamic_partition_overwrite(data, snapshot_properties=said(**facts))


def shown(report: Report) -> dict[int, list[Editor]]:
    """Window number -> its users, sorted."""
    assert [w.start for w in report.windows] == sorted((w.start for w in report.windows), reverse=True)
    assert all(window.end == window.start + 600 for window in report.windows)
    return {
        round((w.start - START) / 600): sorted(w.editors, key=lambda editor: editor.user)
        for w in report.windows
    }


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of file was opened."""
    kinds: Counter[str] = Counter()
    new_input = PyArrowFileIO.new_input

    def counted(self: PyArrowFileIO, location: str) -> Any:
        kind = {".parquet": "data", ".json": "metadata", ".avro": "manifest"}[Path(location).suffix]
        kinds["list" if "snap-" in location else kind] += 1
        return new_input(self, location)

    monkeypatch.setattr(PyArrowFileIO, "new_input", counted)
    return kinds


def test_before_there_is_a_table_it_is_missing(lake: Lake) -> None:
    reader = ReportReader(lake, TABLE)
    with pytest.raises(Missing, match=r"reports\.editors does not exist; the stream's report makes it"):
        reader.read(0)
    create(lake)
    assert reader.read(0) == Report(None, None, None, None, 0, 0, None, ())


def test_a_take_over_of_nothing_says_nothing(lake: Lake) -> None:
    create(lake)
    facts = said("genesis", source="", source_at="", newest="", watermark="", records=0, late=0)
    lake.catalog.load_table(TABLE).append(ROWS.empty_table(), snapshot_properties=facts)
    assert ReportReader(lake, TABLE).read(0) == Report(None, None, None, None, 0, 0, None, ())


def test_what_is_in_the_table_is_what_is_shown(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [(user, False, n, 0) for n, user in enumerate(HOSTILE)], 6: [("Ann", True, 2, 1)]})
    report = ReportReader(lake, TABLE, clock=lambda: 1000.0).read(0)
    assert report.at == pytest.approx(datetime.now(UTC).timestamp(), abs=60)
    assert (report.source_at, report.newest, report.watermark) == (1000.0, 2000.0, 1400.0)
    assert (report.records, report.late, report.pace) == (100, 3, None)
    assert report.windows[0] == Window(START + 3600.0, START + 4200.0, (Editor("Ann", True, 2, 1),))
    assert moment(report.windows[0].start).hour == 0, "midnight"
    assert shown(report)[0] == sorted(
        (Editor(u, False, n, 0) for n, u in enumerate(HOSTILE)), key=lambda e: e.user
    )


def test_only_windows_from_the_moment_asked_for_are_read(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    write(lake, {number: [("Ann", False, 1, 0)] for number in range(5)})
    reader = ReportReader(lake, TABLE)
    opened.clear()
    assert sorted(shown(reader.read(START + 1800))) == [3, 4]
    assert opened["data"] == 2
    assert sorted(shown(reader.read(START + 1800.1))) == [4]
    assert sorted(shown(reader.read(START))) == [0, 1, 2, 3, 4]
    assert opened["data"] == 5, "none twice"


def test_a_refresh_reads_what_is_new_and_nothing_else(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    for number in range(6):
        write(lake, {number: [("Ann", False, number, 0), ("Bob", True, 1, 0)]})
    reader = ReportReader(lake, TABLE)
    assert len(reader.read(0).windows) == 6
    opened.clear()
    assert len(reader.read(0).windows) == 6
    assert opened == {}, "nothing is new"
    write(lake, {5: [("Cid", False, 9, 0)], 6: [("Cid", False, 1, 1)]}, records=150, late=4)
    opened.clear()
    report = reader.read(0)
    assert shown(report)[5] == [Editor("Cid", False, 9, 0)]
    assert shown(report)[6] == [Editor("Cid", False, 1, 1)]
    assert shown(report)[4] == [Editor("Ann", False, 4, 0), Editor("Bob", True, 1, 0)]
    assert (report.records, report.late) == (150, 4)
    assert opened["data"] == 2
    assert opened["metadata"] == 1
    assert opened["manifest"] <= 2


def test_what_is_gone_from_the_table_is_forgotten(lake: Lake) -> None:
    create(lake)
    reader = ReportReader(lake, TABLE)
    for edits in range(4):
        write(lake, {0: [("Ann", False, edits, 0)], 1: [("Bob", False, 1, 0)]})
        assert shown(reader.read(0))[0] == [Editor("Ann", False, edits, 0)]
    assert len(reader._pieces) == 2
    files = sum(len(files) for files in reader._manifests.values())
    assert files == 2
    lake.catalog.load_table(TABLE).delete("user == 'Ann'")
    assert sorted(shown(reader.read(0))) == [1]


def test_a_window_may_lie_in_several_files(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1, 0)]})
    rows = [dict(zip(ROWS.names, (moment(START), moment(START + 600), "Bob", False, 2, 0), strict=True))]
    lake.catalog.load_table(TABLE).append(pa.Table.from_pylist(rows, schema=ROWS), snapshot_properties=said())
    found = shown(ReportReader(lake, TABLE).read(0))
    assert found == {0: [Editor("Ann", False, 1, 0), Editor("Bob", False, 2, 0)]}


def test_the_pace_comes_from_the_reports_own_snapshots(lake: Lake) -> None:
    create(lake)
    now = [1000.0]
    reader = ReportReader(lake, TABLE, clock=lambda: now[0])
    write(lake, {0: [("Ann", False, 1, 0)]}, source_at=900_000, records=100)
    assert reader.read(0).pace is None
    write(lake, {0: [("Ann", False, 2, 0)]}, source_at=920_000, records=300)
    write(lake, {}, kind="takeover", source_at=920_000, records=300)
    assert reader.read(0).pace == 10.0
    now[0] = 2000.0
    assert reader.read(0).pace == 0.0


def test_maintenance_does_not_hide_what_the_report_says(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1, 0)]})
    reader = ReportReader(lake, TABLE)
    before = reader.read(0)
    lake.catalog.load_table(TABLE).append(ROWS.empty_table())
    assert reader.read(0) == before


def test_rows_that_were_deleted_one_by_one_are_not_shown_as_if_they_were_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg writes no such manifests, so one is called so."""
    create(lake)
    write(lake, {0: [("Ann", False, 1, 0)]})
    monkeypatch.setattr(ManifestFile, "content", ManifestContent.DELETES)
    with pytest.raises(Refused, match=r"reports\.editors has rows that were deleted one by one"):
        ReportReader(lake, TABLE).read(0)


def test_a_file_that_cannot_be_read_is_unreachable_and_is_read_the_next_time(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1, 0)]})
    reader = ReportReader(lake, TABLE)
    (path,) = [task.file.file_path for task in lake.catalog.load_table(TABLE).scan().plan_files()]
    file = Path(path.removeprefix("file://"))
    away = file.with_suffix(".away")
    file.rename(away)
    with pytest.raises(Unreachable, match=r"1 files of table reports\.editors"):
        reader.read(0)
    away.rename(file)
    assert shown(reader.read(0)) == {0: [Editor("Ann", False, 1, 0)]}


def test_a_catalog_that_does_not_answer_is_unreachable(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lake)
    reader = ReportReader(lake, TABLE)
    reader.read(0)

    def away(name: str) -> None:
        raise Unreachable("the catalog's database does not answer")

    monkeypatch.setattr(lake, "location", away)
    with pytest.raises(Unreachable):
        reader.read(0)


def test_of_many_threads_one_reads(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    write(lake, {number: [("Ann", False, 1, 0)] for number in range(4)})
    reader = ReportReader(lake, TABLE)
    opened.clear()
    together = threading.Barrier(6)

    def read(_: int) -> Report:
        together.wait()
        return reader.read(0)

    with ThreadPoolExecutor(6) as pool:
        reports = list(pool.map(read, range(6)))
    assert opened["data"] == 4
    assert len({len(report.windows) for report in reports}) == 1
