"""Running queries survive a change of their stream's table: corrected in every sink, or said not to be."""

from __future__ import annotations

import pytest

from sluice.model.spec.query import Query, Sink, TimeWindow
from sluice.model.verification.changes import CHANGE, Changes
from sluice.model.verification.ranges import OffsetRanges
from spark_jobs.common.lake.read_offsets import OffsetReader
from spark_jobs.common.maintenance.staged_change import StagedChange
from spark_jobs.common.queries.first_batch import PartialSnapshotRead
from spark_jobs.common.queries.streaming_query import SourceChanged, StreamingQueryRun
from tests.support.queried import Make, Queried

SINKS = [Sink("console"), Sink("memory")]
WINDOWS = Query(SINKS, ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10, trigger_seconds=0)
ZIPCODES = Query(SINKS, ["zipcode"], {"hits": "count"}, mode="complete", trigger_seconds=0)
ROWS = Query([Sink("console")], ["zipcode"], mode="append", trigger_seconds=0)


def remove(queried: Queried, *offsets: int) -> None:
    """A change by which the rows at these offsets of partition 0 go."""
    gone = OffsetRanges.of({0: [(offset, offset + 1) for offset in offsets]})
    reader = OffsetReader(queried.platform.s3)
    with StagedChange(queried.spark, queried.spec.table, reader) as staged:
        touched = staged.touched(gone)
        assert touched.rows == len(offsets)
        kept = staged.written(staged.rows_without(touched.partial, gone)) if touched.partial else []
        said = {"sluice.kind": CHANGE, **Changes().more("c1", "s3://warehouse/c1.json").properties()}
        assert staged.publish(touched.files, kept, "c1", lambda _: said)


def ended(running: list[StreamingQueryRun]) -> list[Exception]:
    for query in running:
        with pytest.raises(Exception):  # noqa: B017, PT011
            Queried.catch_up([query])
    return [error for query in running if (error := query.error()) is not None]


@pytest.mark.parametrize("is_running", [True, False])
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
        # A group without rows would stay in the sinks; here none is left so.
        assert (state.source_changes, state.uncorrected) == (1, 1)
        for sink in queried.sinks[name]:
            assert sink.results == queried.counted(name, state.batch_offset)


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
