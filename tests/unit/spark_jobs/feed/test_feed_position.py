"""A committed position and a topic, and where the feed is resumed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice.config.sections.feed import LATEST, SAVED, Feed, FeedResume
from spark_jobs.common.feed.position import (
    FeedRecord,
    PositionUnknown,
    SavedPosition,
    Tail,
    finding,
    resume,
)
from tests.support.raising import raising

NAME = "feed.test/stream"
FEED = Feed("https://feed.test/stream", "a", "id", "e:read")
NOW = 1_000_000.0
# The ids up to 20 are saved; 21 and 22 came since.
SAVED_AT = SavedPosition(
    topic_id="one",
    feed=NAME,
    position="p22",
    next_sequence=23,
    ends={0: 40, 1: 12},
    ids_ends={0: 38, 1: 12},
    ids_sequence=20,
    read_at=NOW - 60,
    instance="x",
    ids=["e19", "e20"],
)
BOUNDS = {0: (0, 40), 1: (0, 12)}
LAST = FeedRecord(21, "e21"), FeedRecord(22, "e22")


def tail(*records: FeedRecord, topic_id: str = "one", **more: object) -> Tail:
    return replace(Tail(topic_id, "positions", BOUNDS, records), **more)  # type: ignore[arg-type]


def start(found: Tail, saved: SavedPosition | None = SAVED_AT, feed: Feed = FEED) -> SavedPosition:
    return resume(found, saved, NAME, feed, NOW)


def stored(saved: SavedPosition) -> tuple[bytes, bytes]:
    return saved.dump().encode(), saved.dump_ids().encode()


def test_what_is_saved_comes_back_as_it_was() -> None:
    saved = replace(SAVED_AT, position="\x7f é \u2028", decision={"finding": "1", "at": 1.5})
    found = SavedPosition.parse(*stored(saved))
    assert (found, found.ids) == (saved, ["e19", "e20"])
    assert '"ids":' not in saved.dump()


def test_a_later_release_may_save_more() -> None:
    text, ids = stored(SAVED_AT)
    more = json.dumps(json.loads(text) | {"later": 1}).encode()
    assert SavedPosition.parse(more, ids) == SAVED_AT


def test_ids_of_another_save_do_not_count() -> None:
    text, ids = stored(SAVED_AT)
    for others in (None, stored(replace(SAVED_AT, ids_sequence=19))[1]):
        found = SavedPosition.parse(text, others)
        assert (found.ids, found.ids_sequence) == ([], 0)
        with raising(PositionUnknown, "20 of the feed's last records"):
            start(tail(*LAST), found)
    assert SavedPosition.parse(text, ids).ids_sequence == 20


def test_a_feed_that_never_ran_begins_with_new_events() -> None:
    empty = Tail("one", "positions", {0: (0, 0)})
    begun = resume(empty, None, NAME, FEED, NOW)
    assert (begun.position, begun.next_sequence, begun.ids, begun.read_at) == (None, 1, [], NOW)


def test_it_resumes_at_the_saved_position_with_the_ids_of_the_last_events() -> None:
    begun = start(tail(*LAST))
    assert (begun.position, begun.next_sequence, begun.read_at) == ("p22", 23, NOW - 60)
    assert begun.ids == ["e19", "e20", "e21", "e22"]
    assert begun.ends == {0: 40, 1: 12}


def test_a_topic_that_retention_emptied_is_resumed_if_all_ids_are_saved() -> None:
    emptied = tail(bounds={0: (40, 40), 1: (12, 12)})
    assert start(emptied, replace(SAVED_AT, ids_sequence=22)).position == "p22"
    with raising(PositionUnknown, "2 of the feed's last records"):
        start(emptied)


@pytest.mark.parametrize(
    ("found", "saved", "named"),
    [
        (tail(*LAST), None, "no position is saved"),
        (tail(topic_id="two"), SAVED_AT, "two"),
        (tail(*LAST), replace(SAVED_AT, feed="other.test/"), "other.test/"),
        (tail(*LAST, bounds={0: (0, 39), 1: (0, 12)}), SAVED_AT, "39"),
        (tail(*LAST, bounds={0: (0, 40)}), SAVED_AT, "12"),
        (tail(*LAST, bounds={0: (41, 50), 1: (0, 12)}), SAVED_AT, "[0]"),
        (tail(*LAST, FeedRecord(23, "e23")), SAVED_AT, "record 23"),
        (tail(LAST[1]), SAVED_AT, "1 of the feed's last records"),
        (tail(records=None), SAVED_AT, "too many records"),
        (tail(*LAST), replace(SAVED_AT, position=None), "no position"),
    ],
)
def test_nothing_is_guessed(found: Tail, saved: SavedPosition | None, named: str) -> None:
    number = finding(found, saved, NAME)
    with raising(PositionUnknown, named, NAME, "[feed.resume]", number, (saved and saved.position) or ""):
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


def test_numbers_go_on_behind_the_topic_s() -> None:
    found = tail(*LAST, FeedRecord(29, "e29"))
    decided = replace(FEED, resume=FeedResume(finding(found, SAVED_AT, NAME), SAVED))
    assert start(found, feed=decided).next_sequence == 30


def test_a_decision_holds_once() -> None:
    recreated = tail(topic_id="two", bounds={0: (0, 0), 1: (0, 0)})
    decided = replace(FEED, resume=FeedResume(finding(recreated, SAVED_AT, NAME), SAVED))
    assert start(recreated, feed=decided).position == "p22"
    # It was saved for this topic; then the topic is made again.
    with pytest.raises(PositionUnknown):
        start(tail(topic_id="three"), replace(SAVED_AT, topic_id="two"), decided)
    lost = replace(FEED, resume=FeedResume(finding(tail(), None, NAME), LATEST))
    assert start(tail(), None, lost).position is None
    # The topic of positions is lost once more.
    with pytest.raises(PositionUnknown):
        start(tail(positions_id="another"), None, lost)
    with raising(PositionUnknown, SAVED):
        start(tail(), None, replace(FEED, resume=FeedResume(finding(tail(), None, NAME), SAVED)))


def test_new_events_are_begun_with_again_while_none_of_them_was_written() -> None:
    begun = replace(SAVED_AT, position=None, first_sequence=23, ids_sequence=22)
    assert start(tail(), begun).position is None
    with pytest.raises(PositionUnknown):
        start(tail(), replace(begun, next_sequence=24, ids_sequence=23))


def test_a_feed_without_positions_says_so() -> None:
    silent = replace(FEED, has_positions=False)
    assert start(tail(*LAST), replace(SAVED_AT, position=None), silent).position is None


def test_a_gap_that_the_source_no_longer_keeps_is_told() -> None:
    keeps = replace(FEED, keeps_hours=2)
    assert start(tail(*LAST), feed=keeps).position == "p22"
    with raising(PositionUnknown, "2.5 hours", "keeps_hours"):
        start(tail(*LAST), replace(SAVED_AT, read_at=NOW - 9_000), keeps)
    assert start(tail(*LAST), replace(SAVED_AT, read_at=NOW - 9_000)).position == "p22", "not declared"


def test_a_feed_of_which_no_event_came_yet_may_have_a_gap_too() -> None:
    keeps, begun = replace(FEED, keeps_hours=2), SavedPosition("one", NAME, read_at=NOW - 7_100)
    empty = Tail("one", "positions", {0: (0, 0)})
    assert start(empty, begun, keeps).position is None
    with raising(PositionUnknown, "2.5 hours"):
        start(empty, replace(begun, read_at=NOW - 9_000), keeps)
    # By declaration it begins with new events each time.
    silent = replace(keeps, has_positions=False)
    assert start(empty, replace(begun, read_at=NOW - 9_000), silent).position is None


def test_a_clock_that_was_ahead_hides_no_gap() -> None:
    keeps = replace(FEED, keeps_hours=2)
    assert start(tail(*LAST), replace(SAVED_AT, read_at=NOW + 50), keeps).position == "p22"
    with raising(PositionUnknown, "in 2.0 hours by this machine's clock"):
        start(tail(*LAST), replace(SAVED_AT, read_at=NOW + 7_200), keeps)
