"""Results read out of their table: all of them, then only what is new. The table is as Spark writes it."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.results import table as results_table
from sluice.clients.lake.results.table import Group, Results, ResultsReader, Window
from sluice.config.query_definition import definition
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.queries import progress
from sluice.core.queries.progress import QueryState
from sluice.queries.compare import by_key
from tests.support import lake as lakes
from tests.support import pages
from tests.support.raising import raising

# PyIceberg deletes before it writes, and says so where there is nothing to delete.
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match")

SPEC = pages.spec()
QUERY = SPEC.queries["editors"]
TABLE = QUERY.results_table
START = 1_772_406_000  # 2026-03-01 23:00:00 UTC
SCHEMA = Schema(
    NestedField(1, "user", StringType()),
    NestedField(2, "bot", BooleanType()),
    NestedField(3, "window_start", TimestamptzType()),
    NestedField(4, "edits", LongType()),
    NestedField(5, "version", LongType()),
)
ROWS = pa.schema(
    [
        pa.field("user", pa.string()),
        pa.field("bot", pa.bool_()),
        pa.field("window_start", pa.timestamp("us", "UTC")),
        pa.field("edits", pa.int64()),
        pa.field("version", pa.int64()),
    ]
)
STATE_ROWS = pa.schema([pa.field("query", pa.string())])
HOSTILE = ["<img src=x onerror=alert(1)>", "a\u202eb", "", "x" * 10_000, "🦉", "'; --", "\x00"]
Users = list[tuple[str | None, bool | None, int]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lakes.empty(tmp_path)
    made.catalog.create_namespace("results")
    made.catalog.create_namespace("queries")
    return made


def create(lake: Lake) -> None:
    by_window = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "window_start"))
    lake.catalog.create_table(TABLE, SCHEMA, partition_spec=by_window)
    lake.catalog.create_table(SPEC.queries_table, STATE_ROWS)


def say(lake: Lake, **state: Any) -> None:
    """What the queries' table says of the query."""
    told = QueryState(
        definition(QUERY), **{"batch": 4, "source_snapshot_id": 7, "source_snapshot_at": 1_000_000} | state
    )
    summary = progress.summary("batch", SPEC.name, 1, {"editors": told})
    table = lake.catalog.load_table(SPEC.queries_table)
    table.append(STATE_ROWS.empty_table(), snapshot_properties=summary)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def rows(windows: dict[int, Users], batch: int) -> pa.Table:
    made = [
        (user, bot, moment(START + 600 * number), edits, batch)
        for number, users in windows.items()
        for user, bot, edits in users
    ]
    return pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in made], schema=ROWS)


def write(lake: Lake, windows: dict[int, Users], batch: int = 4, kind: str = "batch") -> None:
    """Put windows (number -> users) in the place of those that are there, as the sink does."""
    properties = {"sluice.kind": kind, "sluice.batch-id": str(batch), "sluice.epoch": "1"}
    table = lake.catalog.load_table(TABLE)
    table.dynamic_partition_overwrite(rows(windows, batch), snapshot_properties=properties)


def reader(lake: Lake) -> ResultsReader:
    return ResultsReader(lake, SPEC, "editors")


def shown(results: Results) -> dict[int, list[Group]]:
    """Window number -> its users, sorted."""
    assert [w.start for w in results.windows] == sorted((w.start for w in results.windows), reverse=True)
    assert all(window.end == window.start + 600 for window in results.windows)
    return {
        round((w.start - START) / 600): sorted(w.groups, key=lambda group: group.name)
        for w in results.windows
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
    results = reader(lake)
    with pytest.raises(Missing, match=r"results\.editors"):
        results.read(0)
    create(lake)
    assert results.read(0) == Results()
    say(lake, batch=-1, source_snapshot_id=None, source_snapshot_at=0)
    assert results.read(0) == Results()


def test_what_is_in_the_table_is_what_is_shown(lake: Lake) -> None:
    create(lake)
    say(lake, watermark=1_400_000, late_rows=3, early_rows=2)
    write(lake, {0: [(user, False, n) for n, user in enumerate(HOSTILE)], 6: [("Ann", True, 2)]})
    found = reader(lake).read(0)
    assert found.at == pytest.approx(datetime.now(UTC).timestamp(), abs=60)
    assert (found.source_at, found.watermark, found.late, found.early) == (1000.0, 1400.0, 3, 2)
    assert found.windows[0] == Window(START + 3600.0, START + 4200.0, (Group("Ann", True, 2),))
    assert moment(found.windows[0].start).hour == 0, "midnight"
    assert shown(found)[0] == sorted(
        (Group(u, False, n) for n, u in enumerate(HOSTILE)), key=lambda group: group.name
    )


def test_a_user_whom_the_source_hides_has_no_name(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [(None, None, 2)]})
    assert shown(reader(lake).read(0)) == {0: [Group("", False, 2)]}


def test_a_page_without_kinds_whose_names_are_numbers(lake: Lake) -> None:
    """``version`` stands for a group's column of numbers."""
    create(lake)
    for number in (0, 10115):
        lake.catalog.load_table(TABLE).append(rows({0: [("Ann", True, 5)]}, number))
    page = replace(pages.of_zipcodes(), name="version")
    spec = replace(SPEC, queries={"editors": replace(QUERY, page=page)})
    found = ResultsReader(lake, spec, "editors").read(0)
    assert shown(found) == {0: [Group("0", False, 5), Group("10115", False, 5)]}


def test_a_query_without_a_page_is_refused(lake: Lake) -> None:
    spec = replace(SPEC, queries={"editors": replace(QUERY, page=None)})
    with raising(ConfigError, "stream 'wiki_changes': query 'editors' has no page. Fix: declare one"):
        ResultsReader(lake, spec, "editors")


def test_the_results_of_some_windows_with_their_batch(lake: Lake) -> None:
    create(lake)
    assert results_table.last_batch(lake.table(TABLE)) is None
    write(lake, {number: [(None, None, number), ("a|b", True, 9)] for number in range(4)}, batch=7)
    lake.catalog.load_table(TABLE).append(ROWS.empty_table())
    table = lake.table(TABLE)
    assert results_table.last_batch(table) == 7
    found = by_key(results_table.read(table, QUERY, (START + 600, START + 1200)), QUERY)
    assert found == {
        "\\N|\\N|2026-03-01T23:10:00Z": (1,),
        "\\N|\\N|2026-03-01T23:20:00Z": (2,),
        "a\\|b|True|2026-03-01T23:10:00Z": (9,),
        "a\\|b|True|2026-03-01T23:20:00Z": (9,),
    }
    assert len(list(results_table.read(table, QUERY))) == 8


def test_only_windows_from_the_moment_asked_for_are_read(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    write(lake, {number: [("Ann", False, 1)] for number in range(5)})
    results = reader(lake)
    opened.clear()
    assert sorted(shown(results.read(START + 1800))) == [3, 4]
    assert opened["data"] == 2
    assert sorted(shown(results.read(START + 1800.1))) == [4]
    assert sorted(shown(results.read(START))) == [0, 1, 2, 3, 4]
    assert opened["data"] == 5, "none twice"


def test_a_refresh_reads_what_is_new_and_nothing_else(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    for number in range(6):
        write(lake, {number: [("Ann", False, number), ("Bob", True, 1)]})
    results = reader(lake)
    assert len(results.read(0).windows) == 6
    opened.clear()
    assert len(results.read(0).windows) == 6
    assert opened == {}, "nothing is new"
    write(lake, {5: [("Cid", False, 9)], 6: [("Cid", False, 1)]}, batch=5)
    opened.clear()
    found = results.read(0)
    assert shown(found)[5] == [Group("Cid", False, 9)]
    assert shown(found)[6] == [Group("Cid", False, 1)]
    assert shown(found)[4] == [Group("Ann", False, 4), Group("Bob", True, 1)]
    assert opened["data"] == 2
    assert opened["metadata"] == 1
    assert opened["manifest"] <= 2


def test_what_is_gone_from_the_table_is_forgotten(lake: Lake) -> None:
    create(lake)
    results = reader(lake)
    for edits in range(4):
        write(lake, {0: [("Ann", False, edits)], 1: [("Bob", False, 1)]})
        assert shown(results.read(0))[0] == [Group("Ann", False, edits)]
    assert len(results._pieces) == 2
    files = sum(len(files) for files in results._manifests.values())
    assert files == 2
    lake.catalog.load_table(TABLE).delete("user == 'Ann'")
    assert sorted(shown(results.read(0))) == [1]


def test_a_window_may_lie_in_several_files(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1)]})
    lake.catalog.load_table(TABLE).append(rows({0: [("Bob", False, 2)]}, 5))
    found = shown(reader(lake).read(0))
    assert found == {0: [Group("Ann", False, 1), Group("Bob", False, 2)]}


def test_maintenance_does_not_hide_what_the_sink_says(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1)]})
    results = reader(lake)
    before = results.read(0)
    lake.catalog.load_table(TABLE).append(ROWS.empty_table())
    assert results.read(0) == before


def test_rows_that_were_deleted_one_by_one_are_not_shown_as_if_they_were_there(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg writes no such manifests, so one is called so."""
    create(lake)
    write(lake, {0: [("Ann", False, 1)]})
    monkeypatch.setattr(ManifestFile, "content", ManifestContent.DELETES)
    with pytest.raises(Refused, match=r"results\.editors has row-level deletes"):
        reader(lake).read(0)


def test_a_file_that_is_gone_is_named_and_is_read_when_it_is_back(lake: Lake) -> None:
    create(lake)
    write(lake, {0: [("Ann", False, 1)]})
    results = reader(lake)
    (path,) = [task.file.file_path for task in lake.catalog.load_table(TABLE).scan().plan_files()]
    file = Path(path.removeprefix("file://"))
    away = file.with_suffix(".away")
    file.rename(away)
    with raising(Refused, "1 files of table results.editors", file.name) as caught:
        results.read(0)
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
    away.rename(file)
    assert shown(results.read(0)) == {0: [Group("Ann", False, 1)]}


def test_a_catalog_that_does_not_answer_is_unreachable(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    create(lake)
    results = reader(lake)
    results.read(0)

    def away(name: str) -> None:
        raise Unreachable("the catalog's database does not answer")

    monkeypatch.setattr(lake, "location", away)
    with pytest.raises(Unreachable):
        results.read(0)


def test_of_many_threads_one_reads(lake: Lake, opened: Counter[str]) -> None:
    create(lake)
    write(lake, {number: [("Ann", False, 1)] for number in range(4)})
    results = reader(lake)
    opened.clear()
    together = threading.Barrier(6)

    def read(_: int) -> Results:
        together.wait()
        return results.read(0)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(read, range(6)))
    assert opened["data"] == 4
    assert len({len(each.windows) for each in found}) == 1
