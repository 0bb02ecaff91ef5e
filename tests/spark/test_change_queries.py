"""Running queries survive a change of their stream's table: corrected in every sink, or said not to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.core.changes.published import CHANGE
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.consumer.state import changes_until
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.common.maintenance.staged_change import StagedChange
from spark_jobs.common.queries.first_batch import PartialSnapshotRead
from spark_jobs.common.queries.streaming_query import ColumnsWidened, SourceChanged, StreamingQueryRun
from tests.support import queried as rig
from tests.support.queried import Make, Queried, wait

SINKS = [Sink("console"), Sink("memory")]
WINDOWS = Query(SINKS, ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10, trigger_seconds=0)
ZIPCODES = Query(SINKS, ["zipcode"], {"hits": "count"}, mode="complete", trigger_seconds=0)
ROWS = Query([Sink("console")], ["zipcode"], mode="append", trigger_seconds=0)


def remove(queried: Queried, *offsets: int) -> None:
    """A change by which the rows at these offsets of partition 0 go; without any, of the quarantine alone."""
    gone = OffsetRanges.of({0: [(offset, offset + 1) for offset in offsets]})
    reader = OffsetReader(connect(queried.platform.s3))
    with StagedChange(queried.spark, queried.spec.table, reader) as staged:
        touched = staged.touched(gone)
        assert touched.rows == len(offsets)
        kept = staged.written(staged.rows_without(touched.partial, gone)) if touched.partial else []
        table = IcebergTable(queried.spark, queried.spec.table)
        before = changes_until(table.snapshots(MAIN), table.head(MAIN))
        name = f"c{before.count + 1}"
        said = {
            "sluice.kind": CHANGE,
            **before.more(name, f"s3://warehouse/{name}.json", moves_rows=bool(offsets)).properties(),
        }
        assert staged.publish(touched.files, kept, name, lambda _: said)


def ended(running: list[StreamingQueryRun]) -> list[Exception]:
    for query in running:
        with pytest.raises(Exception):  # noqa: B017, PT011
            Queried.catch_up([query])
    return [error for query in running if (error := query.error()) is not None]


@pytest.mark.parametrize("is_running", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_windows_are_counted_again_without_the_rows_that_went(make: Make, is_running: bool) -> None:
    queried = make(windows=WINDOWS, zipcodes=ZIPCODES)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00001", 100_000, "b", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    if not is_running:
        queried.stop()
    remove(queried, 1)
    if is_running:
        assert [type(error) for error in ended(running)] == [SourceChanged, SourceChanged]
    running = queried.own()
    queried.catch_up(running)
    queried.put([("00002", 100_000, "b", "x")])
    queried.catch_up(running)
    for name in ("windows", "zipcodes"):
        state = queried.states()[name]
        assert (state.source_changes, state.uncorrected) == (1, 0)
        for sink in queried.sinks[name]:
            assert sink.results == queried.counted(name, state.batch_offset)


def test_a_change_of_the_quarantine_alone_rebuilds_no_query(make: Make) -> None:
    queried = make(windows=WINDOWS)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    before = queried.states()["windows"]
    remove(queried)
    queried.put([("00002", 100_000, "b", "x")])
    queried.catch_up(running)
    queried.stop()
    queried.catch_up(queried.own())
    state = queried.states()["windows"]
    assert (state.source_changes, state.batch_offset) == (0, before.batch_offset)
    for sink in queried.sinks["windows"]:
        assert sink.results == queried.counted("windows", state.batch_offset)


class Broken(RuntimeError):
    """What a sink raises because the test says so."""


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.exhaustive), "after"])
def test_groups_whose_rows_all_went_leave_every_sink_though_a_rebuild_fails_first(
    make: Make, moment: str
) -> None:
    """Some of the sinks have the rebuild's first batch, and others not."""
    table = f"results.gone_{moment}"
    windows = replace(WINDOWS, sinks=[*SINKS, Sink("iceberg", table=table)])
    queried = make(windows=windows, zipcodes=ZIPCODES)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_300, "a", "x"), ("00003", 200_000, "a", "x")])
    queried.catch_up(running)
    # Its windows are final by now, and each is a partition of the Iceberg table.
    queried.put([("00003", 300_000, "a", "x"), ("00002", 100_000, "late", "x")])
    queried.catch_up(running)
    queried.stop()
    remove(queried, 1, 4)
    for sinks in queried.sinks.values():
        sinks[1].fail = failing(moment)
    assert isinstance(wait(queried.own()), Broken)
    queried.stop()
    for sinks in queried.sinks.values():
        sinks[1].fail = lambda now, batch: None
    assert_without(queried, table, "00002")
    remove(queried, 0, 2, 3)
    assert_without(queried, table, "00001", "00002", "00003")
    queried.put([("00002", 300_000, "b", "x")])
    assert_without(queried, table, "00001", "00003")


def failing(moment: str) -> Callable[[str, int], None]:
    def fail(now: str, batch: int) -> None:
        if now == moment:
            raise Broken(f"{moment} batch {batch}")

    return fail


def assert_without(queried: Queried, table: str, *zipcodes: str) -> None:
    """A new writer's results are those of the rows, in every sink, and none is of these ``zipcodes``."""
    queried.stop()
    queried.catch_up(queried.own())
    for name, sinks in queried.sinks.items():
        state = queried.states()[name]
        expected = queried.counted(name, state.batch_offset)
        assert not [key for key in expected if key.startswith(zipcodes)]
        assert {sink.name: sink.results for sink in sinks} == {sink.name: expected for sink in sinks}
        assert state.uncorrected == 0
    rows = queried.spark.table(f"{CATALOG}.{table}").collect()
    found = {f"{row['zipcode']}|{row['window_start']}": [row["hits"]] for row in rows}
    assert found == queried.sinks["windows"][0].results


def test_rows_that_were_sent_stay_where_they_are_and_the_query_says_so(make: Make) -> None:
    queried = make(rows=ROWS)
    (sink,) = queried.sinks["rows"]
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    remove(queried, 0)
    assert [type(error) for error in ended(running)] == [SourceChanged]
    running = queried.own()
    queried.put([("00003", 100_000, "a", "x")])
    queried.catch_up(running)
    assert len(sink.results) == 3
    state = queried.states()["rows"]
    assert (state.source_changes, state.uncorrected) == (1, 1)


def test_rows_that_another_program_overwrote_end_the_query(make: Make) -> None:
    queried = make(zipcodes=ZIPCODES)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    queried.spark.sql(f"UPDATE {queried.table} SET zipcode = '00003' WHERE zipcode = '00002'")
    queried.put([("00001", 100_000, "b", "x")])
    assert [type(error) for error in ended(running)] == [PartialSnapshotRead]


@pytest.mark.exhaustive
def test_a_column_that_becomes_wider_ends_the_query_before_it_writes_and_it_goes_on_with_that(
    make: Make,
) -> None:
    queried = make(zipcodes=ZIPCODES)
    running = queried.own()
    queried.put([("00001", 100_000, "a", "x"), ("00002", 100_000, "a", "x")])
    queried.catch_up(running)
    before = queried.states()["zipcodes"].batch
    queried.spark.sql(f"ALTER TABLE {queried.table} ALTER COLUMN _kafka_partition TYPE BIGINT")
    queried.put([("00001", 100_000, "b", "x")])
    assert [type(error) for error in ended(running)] == [ColumnsWidened]
    assert queried.states()["zipcodes"].batch == before
    running = queried.own()
    queried.catch_up(running)
    state, sinks = queried.states()["zipcodes"], queried.sinks["zipcodes"]
    assert state.batch_offset == 0, "it counts nothing by that column"
    expected = queried.counted("zipcodes", state.batch_offset)
    assert {sink.name: sink.results for sink in sinks} == {sink.name: expected for sink in sinks}


STATUSES = replace(ZIPCODES, group_by=["status"])
DISTINCT = replace(ZIPCODES, aggregates={"statuses": "distinct status"})


def put_statuses(queried: Queried, *hits: tuple[str, int | str]) -> None:
    """Hits of (zipcode, status in SQL), each in a snapshot of its own."""
    for zipcode, status in hits:
        offset = queried._offset
        queried._offset += 1
        at = "timestamp_seconds(100000)"
        queried.spark.sql(
            f"INSERT INTO {queried.table} VALUES "
            f"({status}, '{zipcode}', {at}, 'a', 'x', DATE'1970-01-02', 0, {offset}, {at}, NULL, NULL)"
        )


def assert_counted(queried: Queried) -> None:
    for name, sinks in queried.sinks.items():
        expected = queried.counted(name, queried.states()[name].batch_offset)
        assert {sink.name: sink.results for sink in sinks} == {sink.name: expected for sink in sinks}


@pytest.mark.exhaustive
def test_values_of_a_column_that_became_wider_are_counted_with_those_from_before(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has 5 of an INT beside 5 of a BIGINT in a set, and reads no groups that are by an INT."""
    monkeypatch.setattr(rig, "COLUMNS", f"status INT, {rig.COLUMNS}")
    table = "results.statuses"
    windows = replace(WINDOWS, group_by=["status"], sinks=[*SINKS, Sink("iceberg", table=table)])
    queried = make(statuses=STATUSES, distinct=DISTINCT, windows=windows)
    running = queried.own()
    put_statuses(queried, ("1", 5), ("1", 6), ("2", 5))
    queried.catch_up(running)
    queried.spark.sql(f"ALTER TABLE {queried.table} ALTER COLUMN status TYPE BIGINT")
    put_statuses(queried, ("1", 5), ("1", 2**40))
    assert [type(error) for error in ended(running)] == [ColumnsWidened] * 3
    queried.catch_up(queried.own())
    assert_counted(queried)
    assert queried.sinks["distinct"][0].results == {"1": [3], "2": [1]}
    rebuilt = {name: state.batch_offset for name, state in queried.states().items()}
    assert all(rebuilt.values())
    queried.stop()
    running = queried.own()
    put_statuses(queried, ("2", 6), ("2", 2**40))
    queried.catch_up(running)
    assert_counted(queried)
    assert {name: state.batch_offset for name, state in queried.states().items()} == rebuilt, "once"
    rows = queried.spark.table(f"{CATALOG}.{table}").collect()
    found = {f"{row['status']}|{row['window_start']}": [row["hits"]] for row in rows}
    assert found == queried.sinks["windows"][0].results


@pytest.mark.exhaustive
def test_a_state_of_before_types_were_kept_goes_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "COLUMNS", f"status INT, {rig.COLUMNS}")
    queried = make(distinct=DISTINCT)
    running = queried.own()
    states = queried.writers[-1].states
    states["distinct"] = replace(states["distinct"], types={})
    put_statuses(queried, ("1", 5), ("1", 6))
    queried.catch_up(running)
    queried.stop()
    assert queried.states()["distinct"].types == {}
    running = queried.own()
    put_statuses(queried, ("1", 6), ("1", 7))
    queried.catch_up(running)
    assert queried.sinks["distinct"][0].results == {"1": [3]}
    state = queried.states()["distinct"]
    assert (state.batch_offset, state.types) == (0, {"zipcode": "string", "status": "int"})


@pytest.mark.exhaustive
def test_records_with_a_further_field_are_other_values(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig, "COLUMNS", f"status STRUCT<code: INT>, {rig.COLUMNS}")
    queried = make(distinct=DISTINCT)
    running = queried.own()
    put_statuses(queried, ("1", "struct(5)"), ("1", "struct(6)"))
    queried.catch_up(running)
    queried.spark.sql(f"ALTER TABLE {queried.table} ADD COLUMN status.reason STRING")
    put_statuses(queried, ("1", "struct(5, 'slow')"), ("1", "struct(5, 'full')"))
    assert [type(error) for error in ended(running)] == [ColumnsWidened]
    queried.catch_up(queried.own())
    assert_counted(queried)
    assert queried.sinks["distinct"][0].results == {"1": [4]}
