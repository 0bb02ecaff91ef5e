"""What a producer says it is doing."""

from __future__ import annotations

from spark_jobs.common.feed.client import SILENT_SECONDS, Activity


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
