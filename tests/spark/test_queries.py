"""Queries over the lake: their sinks hold what the lake holds, whichever process dies in between."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from sluice.clients.kafka.query_progress import Totals, parse
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.queries.run import check_no_debug_sinks
from spark_jobs.common.spark.checkpoint import CheckpointCorrupted
from spark_jobs.common.spark.failures import Fenced
from tests.support.queried import Hit, Make, wait
from tests.support.raising import raising

HOUR = 3600
SINKS = [Sink("console"), Sink("memory")]
WINDOWS = Query(SINKS, ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10, trigger_seconds=0)
AUDIENCE = Query(
    SINKS,
    ["zipcode"],
    {"hits": "count", "users": "distinct user_id", "isps": "distinct isp"},
    "hittime",
    TimeWindow(60, 60),
    10,
    trigger_seconds=0,
)
ZIPCODES = Query(SINKS, ["zipcode"], {"hits": "count"}, mode="complete", trigger_seconds=0)
ROWS = Query([Sink("console")], ["zipcode"], mode="append", trigger_seconds=0)
ALL = {"windows": WINDOWS, "audience": AUDIENCE, "zipcodes": ZIPCODES}


def hits(chance: random.Random, number: int, at: int) -> list[Hit]:
    """Around a moment, some of them much too late, and many on a window's very edge."""

    def moment() -> int:
        late = chance.choice([0, 0, 0, 0, 600, 1200, 5000])
        edge = chance.random() < 0.3
        found = at + chance.randrange(300) - late
        return found - found % 300 + 120 - chance.randrange(2) if edge else found

    return [
        (
            f"{chance.randrange(5):05}",
            moment(),
            f"user-{chance.randrange(9)}",
            f"isp-{chance.randrange(3)}",
        )
        for _ in range(number)
    ]


class Broken(RuntimeError):
    """What a sink raises because the test says so."""


@pytest.mark.parametrize(
    "moments",
    [
        ["", "before", "after"],
        pytest.param(["after", "", "before", "", "after", "before", ""], marks=pytest.mark.exhaustive),
    ],
)
def test_sinks_hold_what_the_lake_holds_whichever_fails_when(make: Make, moments: list[str]) -> None:
    """A sink that fails, before it has a batch or after, lets no other count twice."""
    chance = random.Random(1)  # noqa: S311
    queried = make(**ALL)
    at = 1_700_000_000
    running = queried.own()
    for moment in moments:
        at += chance.randrange(900)
        queried.put(hits(chance, 30, at))
        if moment:
            victim = chance.choice([sink for sinks in queried.sinks.values() for sink in sinks])
            victim.fail = failing(moment)
            error = wait(running)
            assert isinstance(error, Broken), error
            victim.fail = lambda now, batch: None
            queried.stop()
            running = queried.own()
        else:
            queried.catch_up(running)
    queried.catch_up(running)
    assert queried.late("windows")
    assert queried.late("audience")
    for name, sinks in queried.sinks.items():
        assert queried.states()[name].batch_offset == 0, "never rebuilt"
        for sink in sinks:
            assert sink.results == queried.counted(name), sink.name
            assert sink.batches == sorted(set(sink.batches))
        assert queried.recounted(name) == queried.sinks[name][0].results, f"{name}, without Spark"
    assert sum(hits for (hits,) in queried.sinks["zipcodes"][0].results.values()) == 30 * len(moments)


@pytest.mark.exhaustive
def test_a_hit_that_is_late_by_exactly_the_watermark_is_kept_apart(make: Make) -> None:
    queried = make(windows=WINDOWS)
    running = queried.own()
    newest = 1_700_000_000 - 1_700_000_000 % 300 + 120  # a window begins
    queried.put([("00001", newest, "a", "x")])
    queried.catch_up(running)
    queried.put([("00001", newest - 601, "a", "x"), ("00002", newest - 600, "a", "x")])
    queried.catch_up(running)
    assert queried.late("windows") == {(1, newest - 1200): 1}
    assert queried.sinks["windows"][0].results == queried.counted("windows")


@pytest.mark.exhaustive
def test_a_hit_dated_20_hours_ahead_makes_no_other_late(make: Make) -> None:
    """In the first batch, which reads the table up to a snapshot, and in one that reads what was added."""
    queried = make(windows=WINDOWS, zipcodes=ZIPCODES)
    now = 1_700_000_000
    running = queried.own()
    for ahead in (20 * HOUR, 601):
        queried.put([("00001", now + ahead, "a", "x")], arrived=now)
        queried.catch_up(running)
        for _ in range(2):
            now += 60
            queried.put([("00002", now, "a", "x")])
            queried.catch_up(running)
    # By exactly the watermark's delay, it is in time.
    queried.put([("00003", now + 600, "a", "x")], arrived=now)
    queried.catch_up(running)
    state = queried.states()["windows"]
    assert (state.early_rows, state.late_rows, queried.late("windows")) == (2, 0, {})
    assert state.watermark <= now * 1000
    counted = queried.sinks["windows"][0].results
    assert counted == queried.counted("windows") == queried.recounted("windows")
    assert sum(number for (number,) in counted.values()) == 5 * 2, "each in two windows"
    assert queried.sinks["zipcodes"][0].results == {"00001": [2], "00002": [4], "00003": [1]}
    assert queried.states()["zipcodes"].early_rows == 0
    windows = next(run for run in running if run.name == "windows").streaming
    assert windows is not None
    reports = [parse(json.loads(report.json), "windows", Totals(0.0)) for report in windows.recentProgress]
    assert sum(report.early for report in reports) == 2, "as Spark's progress says"


@pytest.mark.exhaustive
def test_early_rows_are_counted_again_with_all_others(make: Make) -> None:
    queried = make(windows=WINDOWS)
    running = queried.own()
    queried.put([("00001", 200_000, "a", "x"), ("00001", 100_000, "a", "x")], arrived=100_000)
    queried.catch_up(running)
    queried.lose_checkpoints()
    running = queried.own()
    queried.catch_up(running)
    assert queried.states()["windows"].batch_offset > 0
    assert queried.states()["windows"].early_rows == 1
    assert queried.sinks["windows"][0].results == queried.counted("windows")


def failing(moment: str) -> Callable[[str, int], None]:
    def fail(now: str, batch: int) -> None:
        if now == moment:
            raise Broken(f"{moment} batch {batch}")

    return fail


@pytest.mark.exhaustive
def test_a_query_without_a_checkpoint_is_rebuilt(make: Make) -> None:
    """Late rows count then: there is no watermark before the first batch."""
    queried = make(windows=WINDOWS)
    (sink, other) = queried.sinks["windows"]
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x")])
    queried.catch_up(running)
    queried.put([("00001", 200_000, "a", "x")])
    queried.catch_up(running)
    queried.put([("00001", 100_000, "a", "x")])
    queried.catch_up(running)
    assert sum(queried.late("windows").values()) == 2
    queried.lose_checkpoints()
    before = dict(sink.versions)
    running = queried.own()
    queried.catch_up(running)
    base = queried.states()["windows"].batch_offset
    assert base > max(before.values())
    assert not queried.late("windows", base)
    assert sink.results == other.results == queried.counted("windows", base)
    assert min(sink.versions.values()) >= base


@pytest.mark.exhaustive
def test_a_sink_that_lost_what_it_had_is_filled_again(make: Make) -> None:
    queried = make(windows=WINDOWS)
    (sink, other) = queried.sinks["windows"]
    running = queried.own()
    for at in (100_000, 100_300):
        queried.put([("00001", at, "a", "x")])
        queried.catch_up(running)
    queried.stop()
    sink.forget()
    running = queried.own()
    queried.catch_up(running)
    assert (
        sink.results == other.results == queried.counted("windows", queried.states()["windows"].batch_offset)
    )


@pytest.mark.exhaustive
def test_a_sink_one_batch_ahead_of_a_restored_catalog_is_filled_again(make: Make) -> None:
    """Its batch is planned up to a snapshot that is lost: Spark would repeat it, and fail, for ever."""
    queried = make(windows=WINDOWS)
    (sink, other) = queried.sinks["windows"]
    queried.put([("00001", 100_000, "a", "x")])
    queried.catch_up(queried.own())
    before = IcebergTable(queried.spark, queried.spec.table).head(MAIN)
    other.fail = failing("after")
    queried.put([("00001", 100_300, "a", "x"), ("00001", 100_300, "b", "x")])
    assert isinstance(wait(queried.running), Broken)
    other.fail = lambda now, batch: None
    queried.stop()
    queried.spark.sql(
        f"CALL {CATALOG}.system.rollback_to_snapshot('{queried.spec.table}', {before})"
    ).collect()
    queried.put([("00001", 100_300, "c", "x")])
    queried.catch_up(queried.own())
    base = queried.states()["windows"].batch_offset
    assert sink.results == other.results == queried.counted("windows", base)


@pytest.mark.exhaustive
def test_rows_go_on_behind_a_writers_end_each_once(make: Make) -> None:
    queried = make(rows=ROWS)
    (sink,) = queried.sinks["rows"]
    for number in range(3):
        running = queried.own()
        queried.put([(f"0000{number}", 100_000, "a", "x")])
        queried.catch_up(running)
        queried.stop()
    assert queried.states()["rows"].batch_offset == 0
    assert len(sink.results) == 3
    assert len(sink.batches) == len(set(sink.batches))


def test_rows_that_a_sink_lost_are_not_sent_twice_but_told(make: Make) -> None:
    queried = make(rows=ROWS)
    (sink,) = queried.sinks["rows"]
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    assert len(sink.results) == 2
    queried.stop()
    sink.forget()
    with raising(LookupError, "query rows", "console"):
        queried.own()


def test_a_zombie_writes_nothing_and_says_so(make: Make) -> None:
    queried = make(windows=WINDOWS)
    queried.put([("00001", 100_000, "a", "x")])
    zombie = queried.own()
    queried.catch_up(zombie)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x")])
    queried.catch_up(running)
    # Or that its checkpoint is gone, which its successor removed: the process asks then who owns the queries.
    assert wait(zombie)
    with raising(Fenced, "writer epoch 1, newer epoch 2"):
        queried.writers[0].raise_fenced_from(RuntimeError("what it met first"))
    queried.catch_up(running)
    for sink in queried.sinks["windows"]:
        assert sink.results == queried.counted("windows")
        assert len(sink.batches) == len(set(sink.batches))


def test_a_person_may_look_at_a_query_and_leaves_nothing_behind(make: Make, spark: SparkSession) -> None:
    queried = make(zipcodes=ZIPCODES)
    queried.put([("00001", 100_000, "a", "x"), ("00001", 100_300, "a", "x"), ("00002", 100_000, "a", "x")])
    assert queried.previewed("zipcodes") == [("00001", 2), ("00002", 1)]
    assert not spark.catalog.tableExists(f"{CATALOG}.{queried.spec.queries_table}")


def test_a_supervised_stream_refuses_what_no_one_would_see() -> None:
    spec = replace(streams.load("isp_hits"), queries=ALL)
    with raising(ConfigError, "query windows", "console", "--preview windows"):
        check_no_debug_sinks(spec)
    check_no_debug_sinks(streams.load("isp_hits"))


def test_a_batch_whose_number_is_taken_is_not_skipped(make: Make) -> None:
    """Skipped, its rows would be in no sink."""
    queried = make(zipcodes=ZIPCODES)
    running = queried.own()
    writer = queried.writers[-1]
    writer.states = {"zipcodes": replace(writer.states["zipcodes"], batch=57, source_snapshot_id=1)}
    queried.put([("00001", 100_000, "a", "x")])
    error = wait(running)
    assert isinstance(error, CheckpointCorrupted), error


def test_a_query_that_is_declared_otherwise_is_refused(make: Make) -> None:
    queried = make(windows=WINDOWS)
    queried.own()
    queried.spec = replace(queried.spec, queries={"windows": replace(WINDOWS, watermark_minutes=20)})
    with raising(ConfigError, "query windows", '"watermark_minutes": 10'):
        queried.own()
