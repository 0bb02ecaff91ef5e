"""The feed's demo: when it replays what, what it counts in the lake, and what it calls wrong."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from local.base import REPO, UsageError
from local.demo import feed as demo_feed
from local.demo import run
from local.demo.checks import DemoResult
from local.demo.feed import (
    FeedDemo,
    Found,
    Span,
    busiest,
    collect_found,
    format_window,
    read,
    result,
)
from local.demo.hits import HitsDemo
from local.demo.run import DEMOS, chosen
from local.demo.taxi import TaxiDemo
from local.replay.events import Feed
from local.runtime.context import Context
from local.services import replay
from local.stack.stack import Stack
from sluice.cli.airflow_api import Airflow
from sluice.cli.runs import watch_run
from sluice.clients.lake.results.table import Group, Results, Window
from tests.support import lake as lakes
from tests.support.raising import raising

GREEN = Found(records=130, rows=129, quarantined=1, event_ids=129, gaps=0, missing=0, duplicates=0)


def made(replayed: int = 100, uncounted: int = 0, editors: int = 1, **changes: int) -> DemoResult:
    more = {"top": [{"user": "ada", "bot": False, "edits": 3}] * editors}
    return result(replayed, dataclasses.replace(GREEN, **changes), 60, uncounted, more)


def test_green() -> None:
    assert made().failures == []
    assert made().to_json()["event_ids"] == 129


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"replayed": 0}, "no events were replayed"),
        ({"missing": 2}, "2 of 100 replayed events"),
        ({"gaps": 3, "rows": 126}, "3 offsets"),
        ({"rows": 128}, "130 records came onto the topic, but 128 are in the lake and 1 in quarantine"),
        ({"duplicates": 1}, "1 records are in the lake more than once"),
        ({"uncounted": 3}, "not counted 3 records"),
        ({"editors": 0}, "no window has an editor"),
    ],
)
def test_each_thing_that_must_not_be(change: dict[str, int], said: str) -> None:
    [failure] = made(**change).failures
    assert said in failure


def test_every_demo_is_found_by_its_stream() -> None:
    assert isinstance(chosen(""), TaxiDemo)
    assert chosen("nyc_taxi").result == REPO / "build" / "demo.json"
    wiki = chosen("wiki_changes")
    assert wiki.result == REPO / "build" / "demo-wiki_changes.json"
    assert (wiki.feed, chosen("").feed) == ("replay", None)
    assert (wiki.load, wiki.supervision) == ("wiki_changes_load", "wiki_changes_stream")
    hits = chosen("isp_hits")
    assert isinstance(hits, HitsDemo)
    assert hits.result == REPO / "build" / "demo-isp_hits.json"
    with raising(UsageError, "rides", *DEMOS):
        chosen("rides")
    with raising(UsageError, "nyc_taxi"):
        FeedDemo("nyc_taxi")


# When it replays.


class ToldAirflow(Airflow):
    """Takes note of what it is told."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def unpause(self, dag: str) -> None:
        self.told.append(f"unpause {dag}")


class World:
    """Airflow, the replay server and Kafka, as far as the demo asks and tells them."""

    def __init__(self, stack: Stack) -> None:
        self.told: list[str] = []
        self.open = 0
        self.airflow = ToldAirflow(self.told)
        self.stack = stack
        self.demo = FeedDemo("wiki_changes")

    def status(self, context: Context) -> dict[str, Any]:
        return {"open": self.open, "feed": {"seed": 5}}

    def burst(self, context: Context, events: int, rate: float) -> int:
        assert (events, rate) == (demo_feed.BURST, demo_feed.BURST_RATE)
        self.told.append("burst")
        return 700


@pytest.fixture
def world(stack: Callable[[str], Stack], monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(stack("replay"))
    monkeypatch.setattr(replay, "status", made.status)
    monkeypatch.setattr(replay, "burst", made.burst)
    monkeypatch.setattr(made.demo, "_topic", lambda stack: {0: (3, 17), 1: (0, 0)})
    return made


def tasks(**states: str | None) -> list[dict[str, Any]]:
    return [{"task_id": name, "state": state} for name, state in states.items()]


def test_the_load_comes_first_then_supervision_then_the_events(world: World) -> None:
    demo = world.demo

    def watch(**states: str | None) -> list[str]:
        world.told.clear()
        demo.watch(world.stack, world.airflow, tasks(**states))
        return list(world.told)

    demo.ready(world.airflow)
    assert world.told == ["unpause wiki_changes_load"]
    assert watch(provision_topic="running") == []
    assert watch(provision_topic="success", produce=None) == ["unpause wiki_changes_stream"]
    assert watch(provision_topic="success", produce="deferred") == [], "the feed is not read yet"
    world.open = 1
    assert watch(provision_topic="success", produce="running") == [], (
        "the load's start offsets are not planned"
    )
    assert watch(provision_topic="success", produce="deferred") == ["burst"]
    assert watch(provision_topic="success", produce="deferred") == [], "once"
    assert demo.before == {0: 17, 1: 0}
    feed = Feed(start=0, seed=5)
    wanted = demo.replayed_ids(world.stack)
    assert len(wanted) == demo_feed.EVENTS
    assert feed.event_id(700) in wanted
    assert feed.event_id(699) not in wanted


def test_if_the_feed_was_not_read_nothing_was_replayed(world: World) -> None:
    assert world.demo.replayed_ids(world.stack) == set()
    assert demo_feed.EVENTS < demo_feed.LOADED < demo_feed.BURST


# What it counts.


def test_a_span_is_what_came_between_two_moments() -> None:
    span = Span.between({0: 10}, {0: (0, 14), 1: (3, 5)})
    assert span.offsets == {0: (10, 14), 1: (3, 5)}


Row = tuple[int | None, int | None, str]
ROWS = pa.schema([("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64()), ("event_id", pa.string())])


def rows(*found: Row) -> pa.RecordBatchReader:
    rows = [dict(zip(ROWS.names, row, strict=True)) for row in found]
    return pa.Table.from_pylist(rows, ROWS).to_reader(max_chunksize=2)


SPAN = Span({0: (10, 14), 1: (0, 2)})


def found(table: Sequence[Row], quarantined: Sequence[Row] = (), wanted: Collection[str] = ()) -> Found:
    return collect_found(rows(*table), rows(*quarantined), SPAN, "event_id", wanted, lambda missing: missing)


def test_what_the_lake_holds_of_a_span() -> None:
    first = [(0, 9, "before"), (0, 10, "a"), (0, 11, "b")]
    quarantined = [(0, 12, "x"), (0, 12, "x"), (None, None, "y"), (1, 1, "z"), (1, 5, "w")]
    whole = found([*first, (0, 13, "d"), (1, 0, "e"), (1, 2, "later")], quarantined, {"before", "a", "later"})
    assert whole == Found(records=6, rows=4, quarantined=2, event_ids=4, gaps=0, missing=0, duplicates=0)
    component = found(first, quarantined, {"before", "a", "later"})
    assert (component.gaps, component.missing) == (2, 1)
    assert found([]) == Found(records=6, rows=0, quarantined=0, event_ids=0, gaps=6, missing=0, duplicates=0)


def test_an_event_that_is_there_again_is_seen_wherever_it_lies() -> None:
    assert found([(0, 10, "a"), (0, 11, "a")]).duplicates == 1
    assert found([(0, 9, "a"), (0, 11, "a")]).duplicates == 1


def test_what_kafka_got_long_before_is_not_read(tmp_path: Path) -> None:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    fields = [("event_id", pa.string()), ("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())]
    schema = pa.schema([*fields, ("_kafka_timestamp", pa.timestamp("us", tz="UTC"))])
    table, quarantined = (
        lake.catalog.create_table(f"raw.{name}", schema) for name in ("events", "quarantined")
    )
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    data = [("old", 0, 9, at.replace(hour=11)), ("a", 0, 10, at), ("b", 0, 11, at.replace(hour=13))]
    columns = [list(column) for column in zip(*data, strict=True)]
    table.append(pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema))
    wanted = {"old", "a", "b"}
    found = read(table, quarantined, SPAN, "event_id", at.timestamp(), wanted, lambda missing: missing)
    assert (found.missing, found.rows) == (1, 2)


# What it shows.


def window(start: float, **edits: int) -> Window:
    return Window(start, start + 600, tuple(Group(user, False, count) for user, count in edits.items()))


def test_the_newest_window_with_an_edit_in_it() -> None:
    results = Results(windows=(window(1200), window(600, ada=2), window(0, bob=3)))
    assert busiest(results) == window(600, ada=2)
    assert busiest(Results()) is None
    assert format_window(window(36_000)) == "10:00 to 10:10 UTC"
    assert format_window(None) == "no window yet"


def test_the_screen_shows_figures_editors_and_the_page(stack: Callable[[str], Stack]) -> None:
    demo = FeedDemo("wiki_changes")
    demo.window = Window(36_000, 36_600, (Group("[red]<b>\x1b[31m", True, 1234),))
    console = Console(record=True, width=140, file=io.StringIO())
    run.show(console, stack("replay"), demo, made(), {"produce": 1.0, "in the lake": 2.0})
    text = console.export_text()
    assert "wiki_changes_load: success" in text
    assert f"{demo.title}, 10:00 to 10:10 UTC" in text
    assert r"[red]<b>\x1b[31m" in text
    assert "1,234" in text
    assert "/results/wiki_changes.editors" in text
    assert "select * from wiki_changes limit 5" in text
    lines = {line.split("│")[1].strip(): line for line in text.splitlines() if line.count("│") == 4}
    assert "the clock" in lines["in the lake"]
    assert "the task" in lines["produce"]


def test_watching_a_run_shows_its_tasks_each_time() -> None:
    class StreamingQueryRun(ToldAirflow):
        def watch_run(
            self, dag: str, run_id: str, seconds: float, interval: float = 1.0
        ) -> Iterator[dict[str, Any]]:
            yield from ({"state": "running"}, {"state": "success"})

        def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
            return tasks(produce="running")

    for terminal in (False, True):
        seen: list[Any] = []
        console = Console(file=io.StringIO(), force_terminal=terminal)
        state, _ = watch_run(StreamingQueryRun([]), "dag", "run", console, 1.0, seen.append)
        assert (state, seen) == ("success", [tasks(produce="running")] * 2)
