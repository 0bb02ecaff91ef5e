"""The queries' sinks hold what the lake does, at the same batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from sluice.airflow.operators.load.compare_sinks import CompareSinksOperator
from sluice.clients.lake.results import positions
from sluice.clients.lake.results.positions import QueryPositions, SnapshotExpired
from sluice.config import streams
from sluice.config.query_definition import definition
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.config.tables import lake_tables
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.queries.progress import QueryState
from sluice.loads.verification import checks
from sluice.queries import recount, sinks
from sluice.queries.compare import Aggregates, QueryComparison, compare, report
from sluice.queries.sinks import TRIES, SinksCheck
from sluice.queries.windows import CLOCK_SLACK_SECONDS, NEWEST_WINDOWS, written_since
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger, sent

SPEC = streams.load("isp_hits")


COUNTS: Aggregates = {"00001|2026-03-01T10:02:00Z": (3,), "00002|2026-03-01T10:02:00Z": (4,)}
WINDOW = 1_772_359_320
ZIPCODES: Aggregates = {"00001": (3,), "00002": (4,)}
AUDIENCE: Aggregates = {"00001|2026-03-01T00:00:00Z": (7, 3, 2)}


class World:
    """A lake and its sinks, each at a batch."""

    def __init__(self) -> None:
        self.ledger = ledger("isp_hits")
        sent(self.ledger, {"source_id": "s"}, {"0": [0, 9]})
        self.batch = 5
        self.counted_up_to = 9
        # The watermark of the windows' queries, in ms since 1970; the load's rows have times of their own.
        self.watermark = (WINDOW - 3600) * 1000
        self.has_rows = True
        # The windows that the lake's results were counted in, in turn.
        self.counted: list[tuple[int, int] | None] = []
        # The batches that a kind of sink says first, before it says the queries'.
        self.at: dict[str, list[int]] = {}
        self.topic = dict(COUNTS)
        self.known = NewTables()
        # From when on the windows' topic was read, in turn.
        self.since: list[float | None] = []
        # What it has only if it is read from its begin.
        self.before: dict[str, tuple[int, ...]] = {}
        # The same of the topic of all zipcodes, whose query is complete.
        self.zipcodes_before: dict[str, tuple[int, ...]] = {}
        self.zipcodes_since: float | None = None
        # What the windows' table holds: at each reading the next, of which the last stays.
        self.tables = [dict(COUNTS)]
        # How often the lake's snapshot has expired when it is counted.
        self.expired = 0
        # How often the load's rows were looked for.
        self.planned = 0
        # What was asked of the windows' table, in order: its batch, or its rows.
        self.requested: list[int | str] = []

    @property
    def table(self) -> dict[str, tuple[int, ...]]:
        return self.tables[-1]

    def standing(self) -> QueryPositions:
        states = {
            name: QueryState(
                definition(query),
                batch=self.batch,
                source_snapshot_id=77,
                early_rows=4 if query.window else 0,
                ends={"0": self.counted_up_to},
                watermark=self.watermark if query.window else 0,
            )
            for name, query in SPEC.queries.items()
        }
        return QueryPositions(1, states, frozenset(states))

    def late(self, table: str, standing: QueryPositions, name: str) -> pa.Table:
        return pa.table({"_kafka_offset": [0, 1]})

    def touched(
        self, table: str, tasks: list[str], expected: OffsetRanges, columns: set[str]
    ) -> dict[str, tuple[int, int]]:
        self.planned += 1
        if not self.has_rows:
            return {}
        assert (tasks, expected) == (["file"], OffsetRanges.of({0: [(0, 9)]}))
        return dict.fromkeys(columns, (WINDOW - 86_400, WINDOW))

    def recount(
        self, table: str, snapshot_id: int, query: Query, late: pa.Table, windows: tuple[int, int] | None
    ) -> Aggregates:
        if self.expired:
            self.expired -= 1
            raise SnapshotExpired("snapshot 77 of table raw.isp_hits has expired")
        if len(query.aggregates) == 3:
            return dict(AUDIENCE)
        if query.window:
            self.counted.append(windows)
        return dict(COUNTS) if query.window else dict(ZIPCODES)

    def sink(
        self, name: str, sink: Sink, windows: tuple[int, int] | None, since: float | None
    ) -> tuple[Callable[[], int], Callable[[], Aggregates]] | None:
        if sink.kind not in ("jdbc", "kafka"):
            return None
        if (name, sink.kind) == ("windows", "kafka"):
            self.since.append(since)
        if (name, sink.kind) == ("zipcodes", "kafka"):
            self.zipcodes_since = since
        return lambda: self._batch(name, sink), lambda: self._read(name, sink)

    def _batch(self, name: str, sink: Sink) -> int:
        told = self.at.get(sink.kind, [])
        batch = told.pop(0) if told else self.batch
        if sink.table == "isp_hits_windows":
            self.requested.append(batch)
        return batch

    def _read(self, name: str, sink: Sink) -> Aggregates:
        if name == "audience":
            return dict(AUDIENCE)
        if sink.kind == "kafka":
            if name != "windows":
                return dict(ZIPCODES) | (self.zipcodes_before if self.zipcodes_since is None else {})
            return self.topic | (self.before if self.since[-1] is None else {})
        self.requested.append("rows")
        return dict(self.tables.pop(0) if len(self.tables) > 1 else self.tables[0])

    @contextmanager
    def patched(self) -> Iterator[Any]:
        """The lake."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(positions, "read_positions", lambda table, queries: self.standing())
            patch.setattr(positions, "late_rows", self.late)
            patch.setattr(SinksCheck, "readers", lambda _, *given: self.sink(*given))
            patch.setattr(sinks, "PAUSE_SECONDS", 0.0)
            patch.setattr(checks, "files_since", lambda table, name, sources: ["file"])
            patch.setattr(recount, "event_times", self.touched)
            patch.setattr(recount, "recount", self.recount)
            yield SimpleNamespace(table=lambda name: name)

    def run(self) -> dict[str, Any]:
        made = CompareSinksOperator(task_id="compare_sinks", stream="isp_hits")
        with self.patched() as lake:
            hook = SimpleNamespace(lake=lake, platform=SimpleNamespace(kafka=None))
            made.__dict__ |= {"ledger": self.ledger, "tables": self.known, "platform_hook": hook}
            return made.work(given(run_id="r"))

    def all(self) -> list[QueryComparison]:
        with self.patched() as lake:
            return SinksCheck(SPEC, lake, cast("Any", None), cast("Any", None)).compare_all()


@pytest.fixture
def checked() -> World:
    return World()


def test_sinks_that_hold_what_the_lake_does_are_side_by_side(
    checked: World, capsys: pytest.CaptureFixture[str]
) -> None:
    found = checked.run()
    assert found["windows"] == {
        "batch": 5,
        "compared": "the load's windows 2026-02-28T09:57:00Z to 2026-03-01T10:02:00Z",
        "late": 2,
        "early": 4,
        "sinks": {
            "jdbc isp_hits_windows": {"results": 2, "lake": 7, "sink": 7},
            "kafka isp-hits-windows": {"results": 2, "lake": 7, "sink": 7},
        },
    }
    assert "hits" not in found, "plain files hold no results"
    kept = checked.ledger.get("runs/r/reconciliation.json")
    assert kept is not None
    assert [query["query"] for query in kept["queries"]] == ["zipcodes", "windows", "audience"]
    assert [query["early"] for query in kept["queries"]] == [0, 4, 4]
    # The queries' table too: until the ledger knows of it, it would count as new if it was lost.
    assert checked.known.noted == lake_tables(SPEC)
    told = capsys.readouterr().out
    assert "jdbc isp_hits_audience" in told
    assert "early" in told


def test_what_differs_is_named_and_nothing_is_kept(checked: World) -> None:
    checked.topic["00001|2026-03-01T10:02:00Z"] = (4,)
    del checked.table["00002|2026-03-01T10:02:00Z"]
    with pytest.raises(Refused) as failure:
        checked.run()
    said = str(failure.value)
    assert "windows, jdbc isp_hits_windows: 1 of 2" in said
    assert "missing 00002|2026-03-01T10:02:00Z" in said
    assert "different 00001|2026-03-01T10:02:00Z (hits 4, in the lake hits 3)" in said
    assert checked.ledger.get("runs/r/reconciliation.json") is None


def test_a_topic_is_read_from_where_it_can_have_the_windows(checked: World) -> None:
    checked.run()
    (since,) = checked.since
    # The earlier of the two windows that hold the first row.
    first = WINDOW - 86_400 - 300
    assert since == first - SPEC.queries["windows"].watermark_minutes * 60 - CLOCK_SLACK_SECONDS


def test_a_result_that_was_written_earlier_is_found_before_it_counts_as_missing(
    checked: World,
) -> None:
    checked.before = {"00001|2026-03-01T10:02:00Z": checked.topic.pop("00001|2026-03-01T10:02:00Z")}
    assert checked.run()["windows"]["sinks"]["kafka isp-hits-windows"]["sink"] == 7
    assert [since is None for since in checked.since] == [False, True]


def test_a_group_without_rows_is_extra_however_long_ago_it_was_written(checked: World) -> None:
    """In mode complete too: a batch writes all groups, so one that is gone is older than the newest batch."""
    checked.zipcodes_before = {"00009": (1,)}
    with raising(Refused, "zipcodes, kafka isp-hits-zipcodes", "not in the lake 00009"):
        checked.run()


@pytest.mark.parametrize(
    ("mode", "windows", "expected"),
    [("complete", None, None), ("update", None, None), ("update", (9, 9), 9.0)],
)
def test_from_when_on_a_topic_has_all_results(
    mode: str, windows: tuple[int, int] | None, expected: float | None
) -> None:
    query = replace(SPEC.queries["zipcodes"], mode=mode, watermark_minutes=0)
    since = written_since(query, windows)
    assert since == (None if expected is None else expected - CLOCK_SLACK_SECONDS)


def test_results_of_other_windows_than_the_loads_are_not_its_matter(checked: World) -> None:
    checked.table["00009|2026-03-01T10:07:00Z"] = (1,)
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["results"] == 2


def test_a_sink_that_is_behind_is_not_read(checked: World) -> None:
    """It has the batch by the time that it was read: what was read may be of before."""
    checked.at["jdbc"] = [4]
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["sink"] == 7
    assert checked.requested == [4, 5, "rows", 5]


def test_a_sink_that_went_on_while_it_was_read_is_read_again(checked: World) -> None:
    checked.at["jdbc"] = [5, 6]
    checked.tables.insert(0, {"00001|2026-03-01T10:02:00Z": (9,)})
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["sink"] == 7
    assert checked.requested == [5, "rows", 6, 5, "rows", 5]


def test_a_sink_that_always_goes_on_is_not_taken_for_checked(checked: World) -> None:
    checked.at["kafka"] = [6] * 100
    with raising(Unreachable, "zipcodes", TRIES):
        checked.run()
    assert len(checked.at["kafka"]) == 100 - TRIES


def test_a_snapshot_that_expires_while_sinks_are_read_is_replaced_by_the_queries_newest(
    checked: World,
) -> None:
    checked.expired = TRIES - 1
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["lake"] == 7
    assert checked.planned == 1, "for all queries and tries"


def test_a_snapshot_that_has_expired_for_good_is_no_pass(checked: World) -> None:
    checked.expired = 100
    with raising(SnapshotExpired, "snapshot 77", "raw.isp_hits"):
        checked.run()
    assert checked.expired == 100 - TRIES
    assert checked.ledger.get("runs/r/reconciliation.json") is None


def test_a_load_that_the_query_has_not_counted_yet_is_no_pass(checked: World) -> None:
    checked.counted_up_to = 8
    with raising(Refused, "zipcodes", "{0: 9}"):
        checked.run()


def without_rows(checked: World) -> World:
    """All of the load's sources were verified before, so it has no offsets of its own."""
    checked.ledger = ledger("isp_hits")
    checked.ledger.put("runs/r/plan.json", {"sources": []})
    checked.ledger.put("runs/r/produced.json", {"sources": {}, "end_offsets": {"0": 9}})
    checked.has_rows = False
    delay = SPEC.queries["windows"].watermark_minutes * 60
    checked.watermark = (WINDOW + 10 - delay) * 1000
    return checked


def test_a_load_without_rows_is_compared_in_the_newest_windows(
    checked: World, capsys: pytest.CaptureFixture[str]
) -> None:
    found = without_rows(checked).run()
    assert found["windows"]["sinks"]["jdbc isp_hits_windows"] == {"results": 2, "lake": 7, "sink": 7}
    slide = SPEC.queries["windows"].window
    assert slide is not None
    first = WINDOW - (NEWEST_WINDOWS - 1) * slide.slide_minutes * 60
    assert set(checked.counted) == {(first, WINDOW)}
    line = next(row for row in capsys.readouterr().out.splitlines() if "jdbc isp_hits_windows" in row)
    assert "the lake's newest windows" in line
    assert "2026-03-01T10:02:00Z" in line


def test_a_difference_in_the_newest_windows_fails_a_load_without_rows(checked: World) -> None:
    del without_rows(checked).table["00002|2026-03-01T10:02:00Z"]
    with raising(Refused, "jdbc isp_hits_windows: 1 of 2", "missing 00002"):
        checked.run()


def test_before_the_first_watermark_a_load_without_rows_is_compared_in_all_windows(
    checked: World,
) -> None:
    without_rows(checked).watermark = 0
    found = checked.run()["windows"]
    assert (found["compared"], set(checked.counted)) == ("all windows", {None})
    assert found["sinks"]["jdbc isp_hits_windows"]["results"] == 2


def test_without_a_load_all_results_are_compared(checked: World) -> None:
    checked.counted_up_to = 0
    found = {compared.query: compared for compared in checked.all()}
    assert (list(found), set(checked.counted)) == (["zipcodes", "windows", "audience"], {None})
    assert not any(compared.problems() for compared in found.values())
    checked.table["00009|2020-01-01T00:00:00Z"] = (1,)
    (problem,) = [problem for compared in checked.all() for problem in compared.problems()]
    assert "not in the lake 00009|2020-01-01T00:00:00Z" in problem


def test_a_sink_and_a_lake_without_results_are_not_said_to_pass() -> None:
    nothing = compare("jdbc x", SPEC.queries["windows"], {}, {})
    told = report([QueryComparison("windows", 5, 77, 0, 0, "all windows", [nothing])])
    assert "nothing to compare" in told
    assert "passed" not in told
    no_sinks = report([QueryComparison("windows", 5, 77, 0, 0, "all windows", [])])
    assert "nothing to compare" in no_sinks
