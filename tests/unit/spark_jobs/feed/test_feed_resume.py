"""What the end of a topic says about its feed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.resume import StreamPosition, stream_position, tail_of
from spark_jobs.common.feed.sender import feed_name, record_headers

FEED = "example.org/v2/stream"
ENDS = {0: 3, 1: 2}


def test_the_newest_record_of_all_partitions_says_where_to_resume() -> None:
    tail = tail_of(
        [
            StreamPosition(4, "d", "p1", FEED),
            StreamPosition(9, "i", "p7", FEED),
            StreamPosition(7, "g", "p5", FEED),
        ],
        ENDS,
        FEED,
    )
    assert (tail.resume, tail.next_sequence, tail.ids, tail.ends) == ("p7", 10, ["d", "g", "i"], ENDS)


def test_an_empty_topic_begins_with_what_is_new() -> None:
    tail = tail_of([], ENDS, FEED)
    assert (tail.resume, tail.next_sequence, tail.ids) == (None, 1, [])


def test_another_feeds_position_says_nothing(levels: Callable[..., list[str]]) -> None:
    other = "other.example.org/v2/stream"
    tail = tail_of([StreamPosition(4, "d", "p1", other)], ENDS, FEED)
    assert (tail.resume, tail.next_sequence, tail.ids) == (None, 5, ["d"])
    assert levels(other, FEED) == ["WARNING"]


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
