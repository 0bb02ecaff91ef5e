"""What the queries' table says, and what sinks must hold: counted from the lake without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.clients.errors import Unreachable
from sluice.clients.lake import query_results
from sluice.clients.lake.catalog import Lake
from sluice.model.queries import state
from sluice.model.queries.state import QueryState, definition
from sluice.model.spec.query import Query, Sink, TimeWindow, key_text
from sluice.model.verification.ranges import OffsetRanges
from tests.support import lake as lakes
from tests.support.raising import raising

HITS = pa.schema(
    [
        pa.field("zipcode", pa.string()),
        pa.field("hittime", pa.timestamp("us", "UTC")),
        pa.field("user_id", pa.string()),
        pa.field("_kafka_partition", pa.int32()),
        pa.field("_kafka_offset", pa.int64()),
    ]
)
LATE = pa.schema(
    [
        pa.field("query", pa.string()),
        pa.field("batch", pa.int64()),
        pa.field("window_start", pa.timestamp("us", "UTC")),
        pa.field("_kafka_partition", pa.int32()),
        pa.field("_kafka_offset", pa.int64()),
    ]
)
WINDOWS = Query([Sink("console")], ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10)
USERS = Query([Sink("console")], ["zipcode"], {"users": "distinct user_id", "hits": "count"})
BOTH = {"windows": WINDOWS, "users": USERS}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}").replace(tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = lakes.empty(tmp_path)
    for namespace in ("raw", "queries"):
        made.catalog.create_namespace(namespace)
    made.catalog.create_table("raw.hits", HITS)
    made.catalog.create_table("queries.hits", LATE)
    yield made
    made.close()


def put(lake: Lake, *hits: tuple[str, str, str | None], first: int = 0) -> int:
    """Appends hits with offsets from ``first`` on; returns the snapshot."""
    rows = [
        {
            "zipcode": zipcode,
            "hittime": at(time),
            "user_id": user,
            "_kafka_partition": 0,
            "_kafka_offset": first + number,
        }
        for number, (zipcode, time, user) in enumerate(hits)
    ]
    table = lake.catalog.load_table("raw.hits")
    table.append(pa.Table.from_pylist(rows, HITS))
    head = table.current_snapshot()
    assert head is not None
    return head.snapshot_id


def say(lake: Lake, states: dict[str, QueryState], late: Sequence[tuple[int, str, int]] = ()) -> None:
    """A batch of the windows' query with late rows: (batch, window's beginning, offset)."""
    rows = [
        {
            "query": "windows",
            "batch": batch,
            "window_start": at(start),
            "_kafka_partition": 0,
            "_kafka_offset": offset,
        }
        for batch, start, offset in late
    ]
    told = state.summary("batch", "hits", 4, states)
    lake.catalog.load_table("queries.hits").append(pa.Table.from_pylist(rows, LATE), snapshot_properties=told)


def none() -> pa.Table:
    return pa.table(
        {name: pa.array([], pa.int64()) for name in ("window_start", "_kafka_partition", "_kafka_offset")}
    )


def test_a_hit_counts_in_each_window_that_holds_it(lake: Lake) -> None:
    snapshot = put(lake, ("a", "10:02:00", "x"), ("a", "10:01:59", "x"), ("b", "00:00:00", "x"))
    # Whatever Spark's windows are; tests/spark/test_query_results.py shows that they are the same.
    counted = query_results.recount(lake.table("raw.hits"), snapshot, WINDOWS, none(), None)
    assert counted == {
        "a|2026-03-01T09:52:00Z": (1,),
        "a|2026-03-01T09:57:00Z": (2,),
        "a|2026-03-01T10:02:00Z": (1,),
        "b|2026-02-28T23:52:00Z": (1,),
        "b|2026-02-28T23:57:00Z": (1,),
    }


def test_what_came_too_late_for_one_window_counts_in_the_other(lake: Lake) -> None:
    snapshot = put(lake, ("a", "10:02:00", "x"), ("a", "10:02:00", "x"))
    states = {
        name: QueryState(definition(query), batch_offset=5, batch=1, source_snapshot_id=snapshot)
        for name, query in BOTH.items()
    }
    say(lake, states, [(6, "09:57:00", 1), (4, "09:57:00", 0)])
    standing = query_results.read_positions(lake.table("queries.hits"), BOTH)
    assert standing is not None
    late = query_results.late_rows(lake.table("queries.hits"), standing, "windows")
    assert late.num_rows == 1, "what was late before all was counted anew is not late any more"
    counted = query_results.recount(lake.table("raw.hits"), snapshot, WINDOWS, late, None)
    assert counted == {"a|2026-03-01T09:57:00Z": (1,), "a|2026-03-01T10:02:00Z": (2,)}


def test_different_users_are_counted_and_nobody_is_none(lake: Lake) -> None:
    put(lake, ("a", "10:00:00", "x"), ("a", "11:00:00", "x"), ("a", "12:00:00", "y"), ("b", "10:00:00", None))
    snapshot = put(lake, ("a", "10:00:00", "y"), ("b", "10:00:00", None), first=4)
    counted = query_results.recount(lake.table("raw.hits"), snapshot, USERS, none(), None)
    assert counted == {"a": (2, 4), "b": (0, 2)}


def test_only_the_windows_of_the_load_are_counted(lake: Lake) -> None:
    put(lake, ("a", "08:00:00", "x"), ("a", "10:02:00", "x"))
    snapshot = put(lake, ("a", "10:03:00", "x"), first=2)
    table = lake.table("raw.hits")
    windows = query_results.affected_windows(table, snapshot, WINDOWS, OffsetRanges.of({0: [(2, 3)]}))
    counted = query_results.recount(table, snapshot, WINDOWS, none(), windows)
    assert counted == {"a|2026-03-01T09:57:00Z": (2,), "a|2026-03-01T10:02:00Z": (2,)}
    others = query_results.recount(table, snapshot, WINDOWS, none(), None)
    assert len(others) == 4
    assert query_results.in_windows(others, WINDOWS, windows) == counted
    assert query_results.in_windows(others, USERS, None) == others
    assert query_results.affected_windows(table, snapshot, WINDOWS, OffsetRanges.of({0: [(7, 9)]})) is None
    nobody = replace(WINDOWS, where={"zipcode": ["none"]})
    assert (
        query_results.affected_windows(table, snapshot, nobody, OffsetRanges.of({0: [(2, 3)]})) == windows
    ), "a sink that ignores the query's where is compared too"
    assert query_results.affected_windows(table, snapshot, USERS, OffsetRanges.of({0: [(2, 3)]})) is None


def test_the_lake_is_counted_as_it_was_at_the_snapshot(lake: Lake) -> None:
    snapshot = put(lake, ("a", "10:02:00", "x"))
    put(lake, ("a", "10:02:00", "x"), first=1)
    assert query_results.recount(lake.table("raw.hits"), snapshot, USERS, none(), None) == {"a": (1, 1)}
    with raising(Unreachable, "snapshot 7", "raw.hits"):
        query_results.recount(lake.table("raw.hits"), 7, USERS, none(), None)


def test_the_queries_stand_where_the_one_that_is_behind_stands(lake: Lake) -> None:
    assert query_results.read_positions(lake.table("queries.hits"), BOTH) is None
    ahead, behind = (
        QueryState(definition(WINDOWS), ends={"0": 9, "1": 3}),
        QueryState(definition(USERS), ends={"0": 7}),
    )
    rows = Query([Sink("files", prefix="f/")], ["zipcode"], mode="append")
    copied = QueryState(definition(rows), ends={"0": 1})
    say(lake, {"windows": ahead, "users": behind, "rows": copied})
    standing = query_results.read_positions(lake.table("queries.hits"), {**BOTH, "rows": rows})
    assert standing is not None
    assert (standing.epoch, standing.ends) == (4, {0: 7, 1: 0}), "what only copies rows counts nothing"
    assert standing.states == {"windows": ahead, "users": behind, "rows": copied}


def test_a_databases_rows_have_the_keys_of_a_topics(lake: Lake) -> None:
    rows = [("a", at("10:02:00").replace(tzinfo=None), 3, "version")]
    assert query_results.by_key(rows, WINDOWS) == {"a|2026-03-01T10:02:00Z": (3,)}


def test_an_empty_table_comes_to_nothing(lake: Lake) -> None:
    snapshot = put(lake)
    assert query_results.recount(lake.table("raw.hits"), snapshot, replace(USERS), none(), None) == {}


def test_moments_before_1970_and_moments_that_are_missing(lake: Lake) -> None:
    moments = [0, -1, -179, -180, -181, 119, 120, 121]
    rows = [
        {"zipcode": "a", "hittime": datetime.fromtimestamp(moment, UTC) if moment is not None else None}
        for moment in (*moments, None)
    ]
    table = lake.catalog.load_table("raw.hits")
    table.append(pa.Table.from_pylist(rows, HITS))
    head, expected = table.current_snapshot(), Counter[str]()
    assert head is not None
    assert WINDOWS.window is not None
    for moment in moments:
        expected.update(
            key_text(["a", datetime.fromtimestamp(start, UTC)]) for start in WINDOWS.window.starts(moment)
        )
    counted = query_results.recount(table, head.snapshot_id, WINDOWS, none(), None)
    assert counted == {key: (times,) for key, times in expected.items()}
