"""What the queries' table says, and what sinks must hold: counted from the lake without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading import files
from sluice.clients.lake.results.positions import SnapshotExpired, late_rows, read_positions
from sluice.config.query_definition import definition
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.queries import progress
from sluice.core.queries.progress import QueryState
from sluice.core.queries.result import key_text
from sluice.queries.compare import by_key
from sluice.queries.recount import event_times, recount
from sluice.queries.windows import affected_windows, in_windows
from tests.support import lake as lakes
from tests.support.raising import raising

HITS = pa.schema(
    [
        pa.field("zipcode", pa.string()),
        pa.field("hittime", pa.timestamp("us", "UTC")),
        pa.field("user_id", pa.string()),
        pa.field("_kafka_partition", pa.int32()),
        pa.field("_kafka_offset", pa.int64()),
        pa.field("_kafka_timestamp", pa.timestamp("us", "UTC")),
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


def put(
    lake: Lake, *hits: tuple[str, str, str | None], first: int = 0, arrived: Sequence[str | None] = ()
) -> int:
    """Appends hits with offsets from ``first`` on; returns the snapshot. ``arrived``: when each came to
    Kafka, by default at its own time."""
    rows = [
        {
            "zipcode": zipcode,
            "hittime": at(time),
            "user_id": user,
            "_kafka_partition": 0,
            "_kafka_offset": first + number,
            "_kafka_timestamp": at(came) if came else None,
        }
        for number, ((zipcode, time, user), came) in enumerate(
            zip(hits, arrived or [hit[1] for hit in hits], strict=True)
        )
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
    told = progress.summary("batch", "hits", 4, states)
    lake.catalog.load_table("queries.hits").append(pa.Table.from_pylist(rows, LATE), snapshot_properties=told)


def affected(lake: Lake, query: Query, first: int, until: int) -> tuple[int, int] | None:
    """The windows of the rows with these offsets."""
    table, expected = lake.table("raw.hits"), OffsetRanges.of({0: [(first, until)]})
    times = event_times(table, files.committed_since(table, 0), expected, {"hittime"})
    return affected_windows(query, times)


def none() -> pa.Table:
    return pa.table(
        {name: pa.array([], pa.int64()) for name in ("window_start", "_kafka_partition", "_kafka_offset")}
    )


def test_a_hit_counts_in_each_window_that_holds_it(lake: Lake) -> None:
    snapshot = put(lake, ("a", "10:02:00", "x"), ("a", "10:01:59", "x"), ("b", "00:00:00", "x"))
    # Whatever Spark's windows are; tests/spark/test_py shows that they are the same.
    counted = recount(lake.table("raw.hits"), snapshot, WINDOWS, none(), None)
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
    standing = read_positions(lake.table("queries.hits"), BOTH)
    assert standing is not None
    late = late_rows(lake.table("queries.hits"), standing, "windows")
    assert late.num_rows == 1, "what was late before the rebuild is not late any more"
    counted = recount(lake.table("raw.hits"), snapshot, WINDOWS, late, None)
    assert counted == {"a|2026-03-01T09:57:00Z": (1,), "a|2026-03-01T10:02:00Z": (2,)}


def test_what_is_dated_ahead_of_its_arrival_by_more_than_the_watermark_is_in_no_window(lake: Lake) -> None:
    """A row whose arrival is unknown may be ahead, too; one without event time is in no window anyway."""
    snapshot = put(
        lake,
        ("on time", "10:02:00", "x"),
        ("by the watermark", "10:12:00", "x"),
        ("by a second more", "10:12:01", "x"),
        ("by a day", "23:59:59", "x"),
        ("unknown", "10:02:00", "x"),
        arrived=["10:02:00", "10:02:00", "10:02:00", "00:00:00", None],
    )
    counted = recount(lake.table("raw.hits"), snapshot, WINDOWS, none(), None)
    assert counted == {
        "on time|2026-03-01T09:57:00Z": (1,),
        "on time|2026-03-01T10:02:00Z": (1,),
        "by the watermark|2026-03-01T10:07:00Z": (1,),
        "by the watermark|2026-03-01T10:12:00Z": (1,),
    }
    everything = recount(lake.table("raw.hits"), snapshot, USERS, none(), None)
    assert len(everything) == 5, "a query without windows has no watermark to move"


def test_the_windows_of_rows_dated_ahead_are_compared_too(lake: Lake) -> None:
    """A sink that has them is wrong."""
    snapshot = put(lake, ("a", "10:02:00", "x"), ("a", "20:02:00", "x"), arrived=["10:02:00"] * 2)
    windows = affected(lake, WINDOWS, 0, 2)
    assert windows == (int(at("09:57:00").timestamp()), int(at("20:02:00").timestamp()))
    counted = recount(lake.table("raw.hits"), snapshot, WINDOWS, none(), windows)
    assert counted == {"a|2026-03-01T09:57:00Z": (1,), "a|2026-03-01T10:02:00Z": (1,)}


def test_different_users_are_counted_and_null_is_none(lake: Lake) -> None:
    put(lake, ("a", "10:00:00", "x"), ("a", "11:00:00", "x"), ("a", "12:00:00", "y"), ("b", "10:00:00", None))
    snapshot = put(lake, ("a", "10:00:00", "y"), ("b", "10:00:00", None), first=4)
    counted = recount(lake.table("raw.hits"), snapshot, USERS, none(), None)
    assert counted == {"a": (2, 4), "b": (0, 2)}


def test_only_the_windows_of_the_load_are_counted(lake: Lake) -> None:
    put(lake, ("a", "08:00:00", "x"), ("a", "10:02:00", "x"))
    snapshot = put(lake, ("a", "10:03:00", "x"), first=2)
    table = lake.table("raw.hits")
    windows = affected(lake, WINDOWS, 2, 3)
    counted = recount(table, snapshot, WINDOWS, none(), windows)
    assert counted == {"a|2026-03-01T09:57:00Z": (2,), "a|2026-03-01T10:02:00Z": (2,)}
    others = recount(table, snapshot, WINDOWS, none(), None)
    assert len(others) == 4
    assert in_windows(others, WINDOWS, windows) == counted
    assert in_windows(others, USERS, None) == others
    assert affected(lake, WINDOWS, 7, 9) is None
    nothing = replace(WINDOWS, where={"zipcode": ["none"]})
    assert affected(lake, nothing, 2, 3) == windows, "a sink that ignores the query's where is compared too"
    assert affected(lake, USERS, 2, 3) is None


def test_late_rows_of_an_expired_snapshot_of_the_queries_table_are_not_taken_for_none(lake: Lake) -> None:
    states = {name: QueryState(definition(query), batch=1) for name, query in BOTH.items()}
    say(lake, states, [(1, "10:02:00", 3)])
    positions = read_positions(lake.table("queries.hits"), BOTH)
    assert positions is not None
    expired = replace(positions, snapshot_id=7)
    with raising(SnapshotExpired, "snapshot 7", "queries.hits"):
        late_rows(lake.table("queries.hits"), expired, "windows")


def test_the_lake_is_counted_as_it_was_at_the_snapshot(lake: Lake) -> None:
    snapshot = put(lake, ("a", "10:02:00", "x"))
    put(lake, ("a", "10:02:00", "x"), first=1)
    assert recount(lake.table("raw.hits"), snapshot, USERS, none(), None) == {"a": (1, 1)}
    with raising(SnapshotExpired, "snapshot 7", "raw.hits"):
        recount(lake.table("raw.hits"), 7, USERS, none(), None)


def test_the_queries_stand_where_the_one_that_is_behind_stands(lake: Lake) -> None:
    assert read_positions(lake.table("queries.hits"), BOTH) is None
    ahead, behind = (
        QueryState(definition(WINDOWS), ends={"0": 9, "1": 3}),
        QueryState(definition(USERS), ends={"0": 7}),
    )
    rows = Query([Sink("files", prefix="f/")], ["zipcode"], mode="append")
    copied = QueryState(definition(rows), ends={"0": 1})
    say(lake, {"windows": ahead, "users": behind, "rows": copied})
    standing = read_positions(lake.table("queries.hits"), {**BOTH, "rows": rows})
    assert standing is not None
    assert standing.ends == {0: 7, 1: 0}, "what only copies rows counts nothing"
    assert standing.states == {"windows": ahead, "users": behind, "rows": copied}


def test_a_databases_rows_have_the_keys_of_a_topics(lake: Lake) -> None:
    rows = [("a", at("10:02:00").replace(tzinfo=None), 3, "version")]
    assert by_key(rows, WINDOWS) == {"a|2026-03-01T10:02:00Z": (3,)}


def test_an_empty_table_comes_to_nothing(lake: Lake) -> None:
    snapshot = put(lake)
    assert recount(lake.table("raw.hits"), snapshot, replace(USERS), none(), None) == {}


def test_moments_before_1970_and_moments_that_are_missing(lake: Lake) -> None:
    moments = [0, -1, -179, -180, -181, 119, 120, 121]
    rows = [
        {"zipcode": "a", "hittime": time, "_kafka_timestamp": time or at("00:00:00")}
        for time in [*(datetime.fromtimestamp(moment, UTC) for moment in moments), None]
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
    counted = recount(table, head.snapshot_id, WINDOWS, none(), None)
    assert counted == {key: (times,) for key, times in expected.items()}
