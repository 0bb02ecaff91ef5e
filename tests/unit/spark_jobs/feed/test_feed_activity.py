"""What a producer says it is doing."""

from __future__ import annotations

import pytest

from spark_jobs.common.feed.client import SILENT_SECONDS, Activity, EventsForgotten
from tests.support.raising import raising

KEEPS = 7_200.0


def test_connecting_since_the_feed_was_last_heard() -> None:
    now = [100.0]
    activity = Activity(lambda: now[0])
    now[0] = 130.0
    assert activity.state() == ("connecting", 100.0)
    activity.text_received()
    assert activity.state()[0] != "connecting"
    now[0] = 150.0
    activity.connecting("503")
    now[0] = 160.0
    activity.connecting("refused")
    assert activity.state() == ("connecting", 130.0)
    assert activity.error == "refused"


def test_streaming_until_events_are_missing() -> None:
    now = [100.0]
    activity = Activity(lambda: now[0])
    activity.text_received()
    activity.event_received()
    now[0] += SILENT_SECONDS
    activity.text_received()
    assert activity.state() == ("streaming", 100.0)
    now[0] += 1
    assert activity.state() == ("waiting", 100.0)


def test_sending_while_kafka_has_to_catch_up() -> None:
    now = [100.0]
    activity = Activity(lambda: now[0])
    activity.text_received()
    activity.event_received()
    activity.blocked(True)
    now[0] = 105.0
    activity.blocked(True)
    assert activity.state() == ("backpressured", 100.0)
    activity.blocked(False)
    assert activity.state()[0] == "streaming"


class Heard:
    """An activity whose position was saved at 0, at a time that is set; the feed keeps events for KEEPS."""

    def __init__(self) -> None:
        self.now = 100.0
        self.activity = Activity(lambda: self.now, 0.0, self._gap, stall_seconds=30)

    def _gap(self, since: float, now: float) -> str:
        return f"from {since:.0f} to {now:.0f}" if now - since > KEEPS else ""

    def text(self, after: float = 0.0) -> float:
        """Receive a text so many seconds later; up to when the feed's events were handled then."""
        self.now += after
        self.activity.text_received()
        return self.activity.read_at

    def event(self, is_new: bool = True, event_time: float | None = None) -> float:
        self.text()
        self.activity.handled(is_new=is_new, event_time=event_time)
        return self.activity.read_at


def test_a_connection_s_first_texts_say_nothing_of_the_events_behind_the_position() -> None:
    heard = Heard()
    assert [heard.text(), heard.text(SILENT_SECONDS - 1)] == [0.0, 0.0]
    # An event that came before: the next may be the one that ends the process.
    assert [heard.event(is_new=False), heard.text(SILENT_SECONDS - 1)] == [0.0, 0.0]
    assert heard.text(1) == heard.now, "no event came for a while"
    # A server that ends each connection soon, too.
    heard.activity.connecting()
    assert heard.text(1) == heard.now


def test_the_last_new_event_s_time_counts_while_the_producer_is_behind() -> None:
    heard = Heard()
    assert heard.event(event_time=20.0) == 20.0
    assert heard.text(5) == 20.0
    assert heard.event(event_time=heard.now + 50) == heard.now, "its clock is ahead"
    assert heard.event() == heard.now
    heard.now += 1
    assert heard.event(is_new=False) == heard.now - 1


def test_texts_that_waited_while_the_process_was_suspended_do_not_count_as_silence() -> None:
    heard = Heard()
    heard.text()
    before = heard.text(SILENT_SECONDS)
    assert [heard.text(3_600), heard.text()] == [before, before]
    assert heard.text(SILENT_SECONDS) == heard.now


def test_events_may_be_forgotten_between_two_texts_or_before_a_connection() -> None:
    heard = Heard()
    heard.text()
    heard.event()
    with raising(EventsForgotten, "from 100 to 7400"):
        heard.text(KEEPS + 100)
    heard.now = 200.0
    heard.text()
    heard.activity.connecting()
    with raising(EventsForgotten, "from 100 to 7301"):
        heard.text(KEEPS - 99)
    # Its clock went back.
    heard.now = 50.0
    assert heard.event() == 50.0


@pytest.mark.parametrize("behind", [10.0, 100.0])
def test_on_a_connection_a_producer_may_be_behind_by_more_than_the_feed_keeps(behind: float) -> None:
    heard = Heard()
    heard.event(event_time=heard.now - KEEPS + behind)
    for _ in range(3):
        assert heard.event(event_time=heard.now - KEEPS - 50) < heard.now - KEEPS
