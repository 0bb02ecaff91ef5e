"""What the end of a topic says about its feed."""

from __future__ import annotations

import pytest

from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import StreamPosition
from spark_jobs.common.feed.resume import stream_position, tail_of
from spark_jobs.common.feed.sender import feed_name, record_headers

FEED = "example.org/v2/stream"


def test_a_tail_has_its_own_records_in_their_order_and_what_others_hide() -> None:
    records = [
        StreamPosition(4, "d", "p1", FEED, (0, 11)),
        StreamPosition(9, "i", "p7", FEED, (1, 8)),
        StreamPosition(7, "g", "p5", FEED, (0, 12)),
    ]
    bounds = {0: (3, 13), 1: (0, 10), 2: (5, 10), 3: (7, 7)}
    starts = {0: 11, 1: 8, 2: 5, 3: 7}
    tail = tail_of(records, "id", bounds, starts, is_complete=False)
    assert [record.sequence for record in tail.records] == [4, 7, 9]
    # Partition 0 was read from 11 on, and all is the feed's; of 2 all that is kept was read.
    assert tail.hidden == [1]
    assert tail.ends == {0: 13, 1: 10, 2: 10, 3: 7}
    assert tail_of(records, "id", bounds, starts, is_complete=True).hidden == []


def test_a_record_says_what_it_was_given() -> None:
    assert stream_position(record_headers(Event("é"), 41, FEED, "a")) == StreamPosition(41, "é", "a", FEED)
    said = record_headers(Event("f"), 42, FEED, "m", 9_000)
    assert stream_position(said) == StreamPosition(42, "f", "m", FEED)
    assert ("original-size", b"9000") in said


def test_without_a_position_the_header_is_left_out() -> None:
    said = record_headers(Event("e"), 1, FEED, None)
    assert "feed-position" not in dict(said)
    assert stream_position(said) == StreamPosition(1, "e", None, FEED)


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
def test_a_foreign_record_is_none_of_the_feeds(headers: list[tuple[str, bytes | None]]) -> None:
    assert stream_position(headers) is None


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
