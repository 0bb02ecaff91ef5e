"""What the records of a feed say."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.common.feed import records
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import FeedRecord
from spark_jobs.common.feed.records import feed_name, feed_record, newest_ids, record_headers
from spark_jobs.common.feed.resume import feed_records

FEED = "example.org/v2/stream"


def test_a_record_says_what_it_was_given() -> None:
    assert feed_record(record_headers(Event("é"), 41, FEED, "a")) == FeedRecord(41, "é")
    said = record_headers(Event("f"), 42, FEED, "m", 9_000)
    assert ("feed-position", b"m") in said
    assert ("original-size", b"9000") in said


def test_without_a_position_the_header_is_left_out() -> None:
    assert "feed-position" not in dict(record_headers(Event("e"), 1, FEED, None))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("event-id", b"e")],
        [("event-id", b"e"), ("feed-sequence", b"no number")],
        [("event-id", b"\xff"), ("feed-sequence", b"1")],
        [("event-id", None), ("feed-sequence", b"1")],
    ],
)
def test_another_program_s_record_is_none_of_the_feed_s(headers: list[tuple[str, bytes | None]]) -> None:
    assert feed_record(headers) is None


def test_a_feed_s_records_are_in_the_order_of_their_numbers() -> None:
    def message(headers: Any) -> Any:
        return SimpleNamespace(headers=lambda: headers)

    read = [message(record_headers(Event(f"e{n}"), n, FEED, None)) for n in (7, 4)] + [message(None)]
    assert feed_records(read) == [FeedRecord(4, "e4"), FeedRecord(7, "e7")]


def test_of_many_ids_the_last_ones_are_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ["ab", 'c"', "é", "d"]
    monkeypatch.setattr(records, "MAX_IDS_BYTES", len(json.dumps(ids)))
    assert newest_ids(ids) == ids
    monkeypatch.setattr(records, "MAX_IDS_BYTES", len(json.dumps(ids[1:])))
    assert newest_ids(ids) == ids[1:]
    assert newest_ids([]) == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (
            "https://stream.wikimedia.org/v2/stream/recentchange",
            "stream.wikimedia.org/v2/stream/recentchange",
        ),
        ("http://127.0.0.1:18081/v2/stream/recentchange?since=0", "127.0.0.1/v2/stream/recentchange"),
    ],
)
def test_a_feed_is_its_host_and_path(url: str, name: str) -> None:
    assert feed_name(url) == name
