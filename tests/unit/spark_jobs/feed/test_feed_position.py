"""A saved position and a topic, and where the feed is resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.sections.feed import LATEST, SAVED, Feed, FeedResume
from spark_jobs.common.feed.position import (
    PositionUnknown,
    SavedPosition,
    Start,
    StreamPosition,
    Tail,
    finding,
    read_starts,
    resume,
)
from tests.support.raising import raising

NAME = "feed.test/stream"
FEED = Feed("https://feed.test/stream", "a", "id", "e:read")
NOW = 1_000_000.0
SAVED_AT = SavedPosition(
    topic_id="one",
    feed=NAME,
    position="p20",
    acknowledged=20,
    next_sequence=23,
    first_sequence=1,
    ends={0: 30, 1: 12},
    tail_starts={0: 25, 1: 12},
    read_at=NOW - 60,
    ids_sequence=4,
    ids=["a", "b"],
)
BOUNDS = {0: (0, 40), 1: (0, 12)}


def record(sequence: int, position: str | None, feed: str = NAME) -> StreamPosition:
    return StreamPosition(sequence, f"e{sequence}", position, feed, (0, sequence))


def tail(*records: StreamPosition, topic_id: str = "one", **more: object) -> Tail:
    return replace(Tail(topic_id, BOUNDS, records), **more)  # type: ignore[arg-type]


def start(found: Tail, saved: SavedPosition | None = SAVED_AT, feed: Feed = FEED) -> Start:
    return resume(found, saved, NAME, feed, NOW)


def test_what_is_saved_comes_back_as_it_was() -> None:
    saved = replace(SAVED_AT, position="\x7f é \u2028", decision={"finding": "1", "at": 1.5})
    assert SavedPosition.parse(saved.dump(), '["a", "b"]') == saved
    assert 'ids":' not in saved.dump().replace(" ", "")


def test_a_feed_that_never_ran_begins_with_new_events() -> None:
    empty = Tail("one", {0: (0, 0)})
    begun = resume(empty, None, NAME, FEED, NOW)
    assert (begun.position, begun.next_sequence, begun.ids, begun.read_at) == (None, 1, [], NOW)


@pytest.mark.parametrize(
    ("newest", "position"),
    [
        # The record that was acknowledged last; one that was under way when it was saved; one sent since.
        (record(20, "p17"), "p20"),
        (record(22, "p18"), "p20"),
        (record(23, "p21"), "p21"),
    ],
)
def test_the_newer_of_both_positions_counts(newest: StreamPosition, position: str) -> None:
    begun = start(tail(record(19, "p16"), newest))
    assert begun.position == position
    assert begun.next_sequence == max(newest.sequence + 1, 23)
    assert begun.ids == ["a", "b", "e19", f"e{newest.sequence}"]
    assert begun.read_at == NOW - 60


def test_without_a_saved_position_the_topic_is_enough_if_nothing_hides_its_newest_record() -> None:
    assert start(tail(record(9, "p8")), None).position == "p8"
    with raising(PositionUnknown, "[1]"):
        start(tail(record(9, "p8"), hidden=[1]), None)


def test_a_topic_that_retention_emptied_is_resumed_at_the_saved_position() -> None:
    emptied = tail(bounds={0: (30, 30), 1: (12, 12)})
    closed = replace(SAVED_AT, ids_sequence=20)
    assert start(emptied, closed).position == "p20"
    assert start(emptied, closed).ids == ["a", "b"]
    # It was killed: events that come again would not be recognised.
    with raising(PositionUnknown, "20"):
        start(emptied)


@pytest.mark.parametrize(
    ("found", "saved", "named"),
    [
        (tail(), None, "none of the feed"),
        (tail(record(20, "p", "other.test/")), None, "other.test/"),
        (tail(record(20, None)), None, "no position"),
        (tail(record(30, "p"), topic_id="two"), SAVED_AT, "two"),
        (tail(record(20, "p")), replace(SAVED_AT, feed="other.test/"), "other.test/"),
        (tail(record(30, "p", "other.test/")), SAVED_AT, "other.test/"),
        (tail(record(20, "p"), bounds={0: (0, 29), 1: (0, 12)}), SAVED_AT, "29"),
        (tail(record(20, "p"), bounds={0: (0, 30)}), SAVED_AT, "12"),
        (tail(record(30, "p"), bounds={0: (31, 40), 1: (0, 12)}), SAVED_AT, "[0]"),
        (tail(), SAVED_AT, "20"),
        (tail(record(19, "p")), SAVED_AT, "20"),
        (tail(record(20, "p"), hidden=[1]), SAVED_AT, "[1]"),
    ],
)
def test_nothing_is_guessed(found: Tail, saved: SavedPosition | None, named: str) -> None:
    number = finding(found.topic_id, saved, NAME)
    with raising(PositionUnknown, named, NAME, "[feed.resume]", number, saved.position if saved else ""):
        start(found, saved)
    # A person's decision about another finding does not count.
    with pytest.raises(PositionUnknown):
        start(found, saved, replace(FEED, resume=FeedResume("00000000", LATEST)))

    begun = start(found, saved, replace(FEED, resume=FeedResume(number, LATEST)))
    assert (begun.position, begun.read_at, begun.first_sequence) == (None, NOW, begun.next_sequence)
    assert begun.decision is not None
    assert (begun.decision["finding"], begun.decision["position"]) == (number, LATEST)
    assert named in begun.decision["reason"]
    assert start(found, saved, replace(FEED, resume=FeedResume(number, "p7"))).position == "p7"


def test_a_decision_holds_once() -> None:
    recreated = tail(topic_id="two", bounds={0: (0, 0), 1: (0, 0)})
    decided = replace(FEED, resume=FeedResume(finding("two", SAVED_AT, NAME), SAVED))
    begun = start(recreated, feed=decided)
    assert begun.position == "p20"
    # It was saved for this topic; then the topic is made again.
    with pytest.raises(PositionUnknown):
        start(tail(topic_id="three"), replace(SAVED_AT, topic_id="two"), decided)
    with raising(PositionUnknown, SAVED):
        start(tail(), None, replace(FEED, resume=FeedResume(finding("one", None, NAME), SAVED)))


def test_new_events_are_begun_with_again_while_none_of_them_was_written() -> None:
    begun = replace(SAVED_AT, position=None, acknowledged=22, first_sequence=23, ids_sequence=22)
    assert start(tail(record(20, "p17")), begun).position is None
    with pytest.raises(PositionUnknown):
        start(tail(record(23, None)), begun)
    assert start(tail(record(23, "p23")), begun).position == "p23"


def test_a_feed_without_positions_says_so() -> None:
    silent = replace(FEED, has_positions=False)
    assert start(tail(record(20, None)), replace(SAVED_AT, position=None), silent).position is None


def test_a_gap_that_the_source_no_longer_keeps_is_told() -> None:
    keeps = replace(FEED, keeps_hours=2)
    known = tail(record(20, "p17"))
    assert start(known, feed=keeps).position == "p20"
    with raising(PositionUnknown, "2.5 hours", "keeps_hours"):
        start(known, replace(SAVED_AT, read_at=NOW - 9_000), keeps)
    assert start(known, replace(SAVED_AT, read_at=NOW - 9_000)).position == "p20", "it is not declared"


def test_a_partition_whose_needed_tail_is_deleted_is_a_doubt_unless_the_ids_are_saved() -> None:
    """Killed, so the saved ids are old; the newest record is there, others were in partition 0."""
    deleted = {0: (26, 40), 1: (0, 12)}
    found = tail(record(20, "p17"), bounds=deleted)
    with raising(PositionUnknown, "[0]", "cannot be recognised"):
        start(found)
    # A record that was sent since the position was saved brings none of them back.
    with raising(PositionUnknown, "[0]", "cannot be recognised"):
        start(tail(record(23, "p21"), bounds=deleted))
    assert start(found, replace(SAVED_AT, ids_sequence=20)).position == "p20"
    assert start(found, replace(SAVED_AT, ids_sequence=19)).position == "p20", "what was deleted is saved"
    # Nothing of partition 0 before its first offset is needed.
    assert start(found, replace(SAVED_AT, tail_starts={0: 26, 1: 12})).position == "p20"


def test_from_where_a_topic_is_read() -> None:
    bounds = {0: (20, 1_000), 1: (0, 12), 2: (0, 5)}
    saved = replace(SAVED_AT, tail_starts={0: 900, 1: 12})
    # All of the new partition is read; of the others what is needed, however much others wrote.
    assert read_starts(saved, "one", bounds, 10, 200) == ({0: 900, 1: 12, 2: 0}, True)
    tails = {0: 990, 1: 2, 2: 0}
    assert read_starts(saved, "one", bounds, 10, 100) == (tails, False), "too many records"
    assert read_starts(saved, "two", bounds, 10, 200) == (tails, False)
    assert read_starts(None, "one", bounds, 10, 200) == (tails, False)
    assert read_starts(replace(saved, tail_starts={0: 3}), "one", bounds, 10, 10_000)[0][0] == 20
