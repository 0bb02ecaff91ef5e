"""Results in an Iceberg table, on real services: each batch once, by the newest writer only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.results import table as results_table
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.queries.compare import by_key
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.spark.failures import Fenced
from spark_jobs.common.spark.session import SETTINGS, catalog_options
from tests.support.queried import Queried
from tests.support.raising import raising
from tests.support.services import Services

EDITS = Query(
    [Sink("iceberg", table="results.editors")],
    ["user", "bot"],
    {"edits": "count"},
    "change_timestamp",
    TimeWindow(10, 10),
    10,
)
TYPES = {
    "user": "string",
    "bot": "boolean",
    "window_start": "timestamp",
    "edits": "bigint",
    "version": "bigint",
}
FIRST, SECOND = 1_772_406_000, 1_772_406_600
# user, bot, window's start (seconds since 1970), edits
Result = tuple[str | None, bool | None, int, int]

_numbers = count()


class Editors:
    """A results table of its own, its writers, and its rows."""

    def __init__(self, spark: SparkSession, services: Services) -> None:
        self.spark, self.table = spark, f"results.editors_{next(_numbers)}"
        self.query = replace(EDITS, sinks=[Sink("iceberg", table=self.table)])
        self.platform = services.stack.platform("consumer")

    def writer(self, kind: type[IcebergSink] = IcebergSink, query_name: str = "editors") -> IcebergSink:
        return kind(self.spark, self.target(query_name), TYPES)

    def target(self, query_name: str = "editors") -> Target:
        return Target("wiki_changes", query_name, self.query, self.query.sinks[0], threading.Event())

    def results(self, *rows: Result) -> DataFrame:
        frame = self.spark.createDataFrame(list(rows), "user STRING, bot BOOLEAN, at BIGINT, edits BIGINT")
        made = frame.select("user", "bot", F.timestamp_seconds("at").alias("window_start"), "edits")
        return made.persist()

    def rows(self) -> set[Result]:
        found = self.spark.table(f"{CATALOG}.{self.table}")
        columns = ("user", "bot", F.unix_seconds("window_start"), "edits")
        return {(row[0], row[1], row[2], row[3]) for row in found.select(*columns).collect()}

    def batches(self) -> list[str]:
        """Batch numbers on ``main``, oldest first."""
        summaries = [s.summary for s in IcebergTable(self.spark, self.table).snapshots(MAIN)]
        return [s["sluice.batch-id"] for s in summaries if s.get("sluice.kind") == "batch"][::-1]

    def files(self) -> set[str]:
        return {row[0] for row in self.spark.table(f"{CATALOG}.{self.table}").select("_file").collect()}


class KilledBeforePublishing(IcebergSink):
    """A writer whose process ends between its commit and ``main``."""

    def _publish(self, *_: Any) -> None:
        raise KeyboardInterrupt


class SuspendedBeforePublishing(IcebergSink):
    """A writer that a successor replaces between its commit and ``main``."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def _publish(self, *given: Any) -> None:
        self.meanwhile()
        super()._publish(*given)


@pytest.fixture(autouse=True)
def configured(services: Services, configure: Callable[[dict[str, str]], None]) -> None:
    """As a process of queries: a catalog that is open keeps its file IO."""
    services.minio, services.postgres  # noqa: B018
    settings = {key: value for key, value in SETTINGS.items() if key.startswith("spark.sql.")}
    configure(catalog_options(services.stack.platform("consumer")) | settings)


@pytest.fixture
def editors(spark: SparkSession, services: Services) -> Editors:
    return Editors(spark, services)


def test_a_batch_repeated_after_a_kill_is_there_once(editors: Editors) -> None:
    first = editors.writer()
    assert first.open(1) is None
    assert first.write(0, editors.results(("Ann", False, FIRST, 2)))
    killed = editors.writer(KilledBeforePublishing)
    assert killed.open(2) == 0
    again = editors.results(("Ann", False, FIRST, 3), ("Bob", True, FIRST, 1))
    with pytest.raises(KeyboardInterrupt):
        killed.write(1, again)
    assert editors.rows() == {("Ann", False, FIRST, 2)}, "nothing is published"
    successor = editors.writer()
    assert successor.open(3) == 0
    with raising(Fenced, "writer epoch 3"):
        editors.writer().open(3)
    assert successor.write(1, again)
    assert not successor.write(1, again)
    assert editors.rows() == {("Ann", False, FIRST, 3), ("Bob", True, FIRST, 1)}
    assert editors.batches() == ["0", "1"]


def test_an_earlier_writer_is_refused_whenever_it_wakes_up(editors: Editors) -> None:
    zombie = editors.writer(SuspendedBeforePublishing)
    assert isinstance(zombie, SuspendedBeforePublishing)
    zombie.open(1)
    zombie.write(0, editors.results(("Ann", False, FIRST, 2)))
    successor = editors.writer()

    def acquire() -> None:
        assert successor.open(2) == 0
        successor.write(1, editors.results(("Ann", False, FIRST, 3)))

    zombie.meanwhile = acquire
    stale = editors.results(("Ann", False, FIRST, 99))
    with raising(Fenced, "writer epoch 1, newer epoch 2"):
        zombie.write(1, stale)
    zombie.meanwhile = lambda: None
    for late in (lambda: zombie.write(2, stale), lambda: editors.writer().open(1)):
        with raising(Fenced, "writer epoch 1, newer epoch 2"):
            late()
    assert editors.rows() == {("Ann", False, FIRST, 3)}
    assert editors.batches() == ["0", "1"]


def test_later_rows_correct_a_window_and_leave_the_others_alone(editors: Editors) -> None:
    writer = editors.writer()
    writer.open(1)
    writer.write(
        0, editors.results(("Ann", False, FIRST, 2), (None, None, FIRST, 1), ("Bob", True, SECOND, 5))
    )
    before = editors.files()
    writer.write(1, editors.results((None, None, FIRST, 4), ("Cid", False, FIRST, 1)))
    assert editors.rows() == {
        ("Ann", False, FIRST, 2),
        (None, None, FIRST, 4),
        ("Cid", False, FIRST, 1),
        ("Bob", True, SECOND, 5),
    }
    after = editors.files()
    assert len(before) == len(after) == 2, "a window is one file"
    assert len(before & after) == 1
    assert writer.write(2, editors.results()), "a batch without results is told all the same"
    assert editors.batches() == ["0", "1", "2"]


def test_a_whole_result_replaces_the_table_or_nothing(editors: Editors) -> None:
    zombie = editors.writer()
    zombie.open(1)
    before = {("Ann", False, FIRST, 2), ("Bob", True, SECOND, 5)}
    zombie.write(0, editors.results(*before), is_whole=True)
    killed = editors.writer(KilledBeforePublishing)
    assert killed.open(2) == 0
    whole = editors.results(("Ann", False, FIRST, 3))
    with pytest.raises(KeyboardInterrupt):
        killed.write(1, whole, is_whole=True)
    assert editors.rows() == before
    successor = editors.writer()
    assert successor.open(3) == 0
    assert successor.write(1, whole, is_whole=True)
    with raising(Fenced, "writer epoch 1, newer epoch 3"):
        zombie.write(2, editors.results(), is_whole=True)
    assert not successor.write(1, editors.results(), is_whole=True)
    assert editors.rows() == {("Ann", False, FIRST, 3)}
    assert successor.write(2, editors.results(), is_whole=True)
    assert editors.rows() == set()
    assert editors.batches() == ["0", "1", "2"]


def test_a_table_of_something_else_is_refused(editors: Editors) -> None:
    editors.writer().open(1)
    with raising(SinkWriteFailed, editors.table, "query editors"):
        editors.writer(query_name="others").open(2)
    with raising(SinkWriteFailed, editors.table, "new table"):
        other = {**TYPES, "edits": "string"}
        IcebergSink(editors.spark, editors.target(), other)


@pytest.fixture
def queried(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Queried]:
    name = f"queried_results_{next(_numbers)}"
    sinks = [Sink("memory"), Sink("iceberg", table=f"results.{name}")]
    windows = Query(
        sinks,
        ["zipcode"],
        {"hits": "count"},
        "hittime",
        TimeWindow(10, 5),
        10,
        "update",
        0,
        {"isp": ["x", "y"]},
    )
    made = Queried(spark, services, name, {"windows": windows}, tmp_path)
    yield made
    made.stop()


@pytest.mark.exhaustive
def test_a_rebuild_and_the_recount_come_to_the_same(queried: Queried) -> None:
    """Rows of other values of ``where`` are counted nowhere, not even as late."""
    running = queried.own()
    for number, at in enumerate((100_000, 200_000, 100_000)):
        queried.put([("1", at, "a", "x"), ("1", at + number, "b", "y"), ("2", at, "c", "z")])
        queried.catch_up(running)
    assert sum(queried.late("windows").values()) == 4
    assert_as_in_the_lake(queried)
    queried.lose_checkpoints()
    queried.catch_up(queried.own())
    base = queried.states()["windows"].batch_offset
    assert base > 0
    assert not queried.late("windows", base)
    found = assert_as_in_the_lake(queried)
    assert sum(found.values()) == 12


@pytest.mark.exhaustive
def test_a_query_goes_on_behind_a_compaction(queried: Queried) -> None:
    """A batch over compacted files would count their rows twice."""
    running = queried.own()
    for at in (100_000, 100_300):
        queried.put([("1", at, "a", "x")])
        queried.catch_up(running)
    compacted = queried.spark.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{queried.spec.table}', "
        "options => map('rewrite-all', 'true'))"
    ).collect()
    assert compacted[0]["rewritten_data_files_count"] == 2
    queried.catch_up(running)
    queried.put([("1", 100_300, "a", "x")])
    queried.catch_up(running)
    assert sum(assert_as_in_the_lake(queried).values()) == 6
    assert queried.states()["windows"].batch_offset == 0


def assert_as_in_the_lake(queried: Queried) -> dict[str, int]:
    """The Iceberg table, the sink on disk, and the recount without Spark; gives the results."""
    recounted = {key: hits for key, (hits,) in queried.recounted("windows").items()}
    assert {key: hits for key, (hits,) in queried.sinks["windows"][0].results.items()} == recounted
    lake = Lake.open(queried.platform)
    try:
        query = queried.spec.queries["windows"]
        table = lake.table(query.results_table)
        assert results_table.last_batch(table) == queried.states()["windows"].number
        found = by_key(results_table.read(table, query), query)
    finally:
        lake.close()
    told = {key.replace("T", " ").replace("Z", ""): hits for key, (hits,) in found.items()}
    assert told == recounted
    return told
