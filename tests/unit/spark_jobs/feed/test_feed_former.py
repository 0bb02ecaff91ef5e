"""The position that release 0.1.0 saved in PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import Lake
from sluice.config.platform_sections.s3 import S3
from sluice.config.sections.feed import Feed
from spark_jobs.common.feed.former import Former, lock_key, parse
from spark_jobs.common.feed.position import FeedRecord, PositionUnknown, SavedPosition, Tail, resume
from tests.support.raising import raising

NAME = "feed.test/stream"
FEED = Feed("https://feed.test/stream", "a", "id", "e:read")
NOW = 1_000_000.0
# A row as that release wrote it: 20 is acknowledged, 21 and 22 were under way.
ROW: dict[str, Any] = {
    "acknowledged": 20,
    "decision": None,
    "ends": {"0": 30, "1": 12},
    "feed": NAME,
    "first_sequence": 1,
    "ids_sequence": 4,
    "next_sequence": 23,
    "position": "p18",
    "read_at": NOW - 60,
    "tail_starts": {"0": 25, "1": 12},
    "topic_id": "one",
}
BOUNDS = {0: (0, 33), 1: (0, 12)}


def former(**other: Any) -> SavedPosition:
    return parse(json.dumps(ROW | other), '["a", "b"]')


def tail(*sequences: int, **more: Any) -> Tail:
    found = Tail("one", "positions", BOUNDS, [FeedRecord(n, f"e{n}") for n in sequences])
    return replace(found, **more)


def start(found: Tail, saved: SavedPosition) -> SavedPosition:
    return resume(found, saved, NAME, FEED, NOW)


def test_it_is_written_down_once() -> None:
    # Another number would let both releases produce at once.
    assert lock_key("wiki_changes") == 5320905647688268311
    assert lock_key("wiki_changes") != lock_key("nyc_taxi")
    assert all(-(2**63) <= lock_key(str(n)) < 2**63 for n in range(100))


def test_a_producer_that_was_stopped_goes_on_where_it_ended() -> None:
    stopped = former(acknowledged=22, ids_sequence=22, position="p22")
    assert stopped.ids_ends == stopped.ends == {0: 30, 1: 12}
    begun = start(tail(), stopped)
    assert (begun.position, begun.next_sequence, begun.ids) == ("p22", 23, ["a", "b"])
    assert begun.is_former
    # Retention has deleted all since.
    assert start(tail(bounds={0: (30, 30), 1: (12, 12)}), stopped).position == "p22"


def test_one_that_was_killed_recognises_what_it_had_sent_since() -> None:
    killed = former()
    assert killed.ids_ends == {0: 25, 1: 12}
    # Records 21 and 24 were only queued.
    begun = start(tail(17, 19, 20, 22, 23, 25), killed)
    assert (begun.position, begun.next_sequence) == ("p18", 26)
    assert begun.ids == ["a", "b", "e17", "e19", "e20", "e22", "e23", "e25"]


@pytest.mark.parametrize(
    ("found", "saved", "named"),
    [
        # Deleted records whose ids were not saved; a topic that was restored; no position so far.
        (tail(20, bounds={0: (26, 33), 1: (0, 12)}), former(), "[0]"),
        (tail(20, bounds={0: (0, 29), 1: (0, 12)}), former(), "29"),
        (tail(20, topic_id="two"), former(), "recreated"),
        (tail(20), former(feed="other.test/"), "other.test/"),
        (tail(20), former(position=None), "no position"),
    ],
)
def test_nothing_is_guessed(found: Tail, saved: SavedPosition, named: str) -> None:
    with raising(PositionUnknown, named):
        start(found, saved)


def test_no_catalog_but_a_database_has_a_row() -> None:
    catalog = Catalog("rest", "https://catalog.test")
    platform: Any = SimpleNamespace(
        lake=Lake("s3://w/lake", "s3://w/ledger", catalog), s3=S3("key", "hidden")
    )
    former = Former(platform, "wiki_changes")
    assert former.load(0) is None
    former.forget()
    former.close()
