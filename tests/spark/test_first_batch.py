"""The first batch of a query reads the whole table, though most of its snapshots have expired."""

from __future__ import annotations

import logging
import threading
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.queries import first_batch
from spark_jobs.common.queries.first_batch import PartialSnapshotRead
from tests.support.queried import Hit, Make, Queried, wait
from tests.support.raising import raising

SINKS = [Sink("console"), Sink("memory")]
WINDOWS = Query(SINKS, ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10, trigger_seconds=0)
ZIPCODES = Query(SINKS, ["zipcode"], {"hits": "count"}, mode="complete", trigger_seconds=0)
ROWS = Query([Sink("console")], ["zipcode"], mode="append", trigger_seconds=0)
BOTH = {"windows": WINDOWS, "zipcodes": ZIPCODES}
# Early in a window.
BEGIN = 1_700_000_000 - 1_700_000_000 % 300 + 120


def hit(minutes: int, zipcode: str = "00001") -> Hit:
    return (zipcode, BEGIN + 60 * minutes, "a", "x")


def five_batches(queried: Queried) -> None:
    """Each an hour after the one before; the last has a row of the first hour, which is late elsewhere."""
    for hour in range(5):
        queried.put([hit(60 * hour), hit(60 * hour, "00002")])
    queried.put([hit(0)])


def assert_exact(queried: Queried) -> None:
    for name, sinks in queried.sinks.items():
        base = queried.states()[name].batch_offset
        for sink in sinks:
            assert sink.results == queried.counted(name, base), f"{name} {sink.name}"
            assert len(sink.batches) == len(set(sink.batches))
        assert queried.recounted(name) == sinks[0].results, f"{name}, without Spark"


def test_all_rows_are_counted_and_late_ones_from_the_second_batch_on(make: Make) -> None:
    queried = make(**BOTH)
    five_batches(queried)
    queried.expire()
    running = queried.own()
    queried.catch_up(running)
    assert not queried.late("windows"), "no row of the first batch is late"
    assert sum(hits for (hits,) in queried.sinks["zipcodes"][0].results.values()) == 11
    assert_exact(queried)
    queried.put([hit(241), hit(0)])
    queried.catch_up(running)
    late = {(12, BEGIN - 300), (12, BEGIN)}
    assert set(queried.late("windows")) == late
    assert_exact(queried)


@pytest.mark.exhaustive
def test_a_batch_that_is_published_before_the_first_one_is_read_by_the_second(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's source would read as many files of the first snapshot as that added."""
    queried = make(**BOTH)
    five_batches(queried)
    queried.expire()
    plan = first_batch.plan

    def planned_and_published(*args: Any) -> Any:
        try:
            return plan(*args)
        finally:
            queried.put([hit(300), hit(300, "00003")])

    monkeypatch.setattr(first_batch, "plan", planned_and_published)
    running = queried.own()
    queried.catch_up(running)
    assert_exact(queried)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("moment", "batches"), [pytest.param("before", [0], marks=pytest.mark.exhaustive), ("after", [0, 1])]
)
def test_a_first_batch_that_failed_runs_again_over_the_rows_that_a_sink_has(
    make: Make, moment: str, batches: list[int]
) -> None:
    queried = make(**BOTH, rows=ROWS)
    five_batches(queried)
    queried.expire()
    # All three reach it: the first error ends the process, at whatever point the others are.
    together = threading.Barrier(len(queried.sinks), timeout=60)
    for sinks in queried.sinks.values():
        sinks[0].fail = failing(moment, together)
    assert isinstance(wait(queried.own()), Broken)
    queried.stop()
    assert all(state.batch == -1 and state.source_snapshot_at for state in queried.states().values()), (
        "the snapshots since then are kept for the next batch"
    )
    for sinks in queried.sinks.values():
        sinks[0].fail = lambda now, batch: None
    queried.put([hit(241)])
    queried.catch_up(queried.own())
    assert queried.sinks["rows"][0].batches == batches
    del queried.sinks["rows"]
    assert_exact(queried)


class Broken(RuntimeError):
    """What a sink raises because the test says so."""


def failing(moment: str, together: threading.Barrier | None = None) -> Any:
    def fail(now: str, batch: int) -> None:
        if now == moment:
            if together is not None:
                together.wait()
            raise Broken(f"{moment} batch {batch}")

    return fail


@pytest.mark.exhaustive
def test_a_rebuild_reads_rows_of_expired_snapshots(make: Make) -> None:
    queried = make(**BOTH)
    queried.put([hit(0)])
    queried.catch_up(queried.own())
    five_batches(queried)
    queried.lose_checkpoints()
    queried.expire()
    queried.catch_up(queried.own())
    assert all(state.batch_offset > 0 for state in queried.states().values())
    assert_exact(queried)


@pytest.mark.exhaustive
def test_a_query_that_was_stopped_until_its_snapshot_expired_is_rebuilt(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    queried = make(**BOTH)
    queried.put([hit(0), hit(100)])
    queried.catch_up(queried.own())
    queried.stop()
    source = queried.states()["windows"].source_snapshot_id
    five_batches(queried)
    queried.expire()
    with caplog.at_level(logging.WARNING):
        queried.catch_up(queried.own())
    assert f"snapshot {source}" in caplog.text
    assert "expired" in caplog.text
    assert all(state.batch_offset > 0 for state in queried.states().values())
    assert_exact(queried)


@pytest.mark.exhaustive
def test_rows_are_not_sent_twice_when_their_snapshot_has_expired(make: Make) -> None:
    queried = make(rows=ROWS)
    queried.put([hit(0)])
    queried.catch_up(queried.own())
    queried.stop()
    five_batches(queried)
    queried.expire()
    with raising(LookupError, "query rows", "expired", "restored", "new prefix"):
        queried.own()


@pytest.mark.exhaustive
def test_a_batch_that_ran_over_rows_of_a_restored_catalog_is_rebuilt(make: Make, spark: SparkSession) -> None:
    """The snapshot of the queries' table is still on main, that of the batch that runs again is not."""
    queried = make(windows=WINDOWS)
    queried.put([hit(0)])
    queried.catch_up(queried.own())
    source = queried.states()["windows"].source_snapshot_id
    for sink in queried.sinks["windows"]:
        sink.fail = failing("after")
    queried.put([hit(0), hit(0)])
    wait(queried.running)
    queried.stop()
    for sink in queried.sinks["windows"]:
        sink.fail = lambda now, batch: None
    spark.sql(f"CALL {CATALOG}.system.rollback_to_snapshot('{queried.spec.table}', {source})")
    queried.put([hit(1)])
    queried.catch_up(queried.own())
    assert_exact(queried)


@pytest.mark.exhaustive
def test_a_preview_shows_rows_of_expired_snapshots(make: Make) -> None:
    queried = make(zipcodes=ZIPCODES)
    five_batches(queried)
    queried.expire()
    assert queried.previewed("zipcodes") == [("00001", 6), ("00002", 5)]


def compacted(queried: Queried) -> Queried:
    """The first and last entry of the manifest are of removed files."""
    for minute in range(5):
        queried.put([hit(minute, "00002" if minute % 2 else "00001")])
    queried.spark.sql(
        f"CALL {CATALOG}.system.rewrite_manifests(table => '{queried.spec.table}', use_caching => false)"
    )
    queried.put([hit(5)])
    return queried


@pytest.mark.exhaustive
def test_a_query_that_begins_behind_a_compaction_counts_every_row_once(make: Make) -> None:
    """Before it, the snapshots that are kept list no removed file; behind it, no more."""
    queried = compacted(make(**BOTH))
    assert compact(queried.spark, queried.spec.table, date(2026, 3, 1))
    queried.catch_up(queried.own())
    assert_exact(queried)
    queried.lose_checkpoints()
    queried.put([hit(6)])
    queried.expire()
    queried.catch_up(queried.own())
    assert_exact(queried)


@pytest.mark.exhaustive
def test_files_that_another_program_removed_are_not_counted_again(make: Make, spark: SparkSession) -> None:
    """Their entries stay in manifests, also of later snapshots, until the manifests are rewritten."""
    queried = compacted(make(**BOTH))
    spark.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{queried.spec.table}', "
        "where => 'zipcode = \"00001\"', options => map('rewrite-all', 'true'))"
    )
    queried.put([hit(6)])
    queried.catch_up(queried.own())
    assert_exact(queried)
    queried.lose_checkpoints()
    queried.expire()
    with raising(PartialSnapshotRead, queried.spec.table, "removed files", "maintenance"):
        queried.own()
    assert compact(spark, queried.spec.table, date(2026, 3, 1)), "the manifests, without a file to rewrite"
    queried.put([hit(7)])
    queried.catch_up(queried.own())
    assert_exact(queried)


@pytest.mark.exhaustive
def test_late_rows_and_states_survive_a_compaction_of_their_table(make: Make) -> None:
    """Nothing is rebuilt: the writer acquires the lease again, and the batch in flight runs again."""
    queried = make(windows=WINDOWS)
    running, name = queried.own(), queried.spec.queries_table
    for batch in range(6):
        queried.put([hit(100 + batch), hit(0)])
        queried.catch_up(running)
    late, files = queried.late("windows"), f"SELECT * FROM {CATALOG}.{name}.files"
    assert queried.spark.sql(files).count() == 5
    assert compact(queried.spark, name, date(2026, 3, 1), ())
    assert queried.spark.sql(files).count() == 1
    assert queried.late("windows") == late
    queried.put([hit(107), hit(0)])
    assert isinstance(wait(running), ConcurrentCommit)
    queried.stop()
    # As run_with_lease does.
    queried.catch_up(queried.own())
    assert queried.states()["windows"].batch_offset == 0
    assert len(queried.late("windows")) > len(late)
    assert set(queried.late("windows").values()) == {1}
    assert_exact(queried)
