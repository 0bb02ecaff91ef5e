"""How long a sink waits for a system that does not answer, on a clock that the test turns."""

from __future__ import annotations

import logging
import threading

import pytest

from spark_jobs.common.sinks.base import Unwritten
from spark_jobs.common.sinks.patience import FIRST_SECONDS, MOST_SECONDS, STOP_SECONDS, Patience


class Stop(threading.Event):
    """Waiting takes no time, and turns the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self.is_set() and timeout:
            self.waits.append(timeout)
            self.now += timeout
        return self.is_set()


@pytest.fixture
def stop() -> Stop:
    return Stop()


@pytest.fixture
def patience(stop: Stop) -> Patience:
    return Patience("hits: sink kafka counts", "see that Kafka is up", 60, stop, lambda: stop.now)


def test_each_wait_is_longer_up_to_a_bound_and_a_success_begins_anew(stop: Stop, patience: Patience) -> None:
    for _ in range(8):
        patience.failed("no answer")
    assert stop.waits == [FIRST_SECONDS, 0.4, 0.8, 1.6, 3.2, MOST_SECONDS, MOST_SECONDS, MOST_SECONDS]
    patience.over()
    patience.failed("no answer")
    assert stop.waits[-1] == FIRST_SECONDS


def test_a_streak_ends_when_it_took_too_long_and_says_the_mend(stop: Stop, patience: Patience) -> None:
    patience.standing("no answer")
    stop.now += 59
    patience.standing("no answer")
    stop.now += 1
    with pytest.raises(Unwritten) as ended:
        patience.failed("the last reason")
    assert str(ended.value) == ("hits: sink kafka counts: the last reason, for 60 s; see that Kafka is up")
    assert stop.waits == [], "whoever has waited already is not made to wait"


def test_without_seconds_the_first_failure_is_the_end(stop: Stop) -> None:
    with pytest.raises(Unwritten, match="no answer, for 0 s; start Kafka"):
        Patience("hits", "start Kafka", 0, stop, lambda: stop.now).failed("no answer")


def test_a_success_between_is_the_end_of_a_streak(stop: Stop, patience: Patience) -> None:
    for _ in range(3):
        patience.standing("no answer")
        stop.now += 59
        patience.over()


def test_a_stop_ends_what_has_not_moved_for_a_while_and_nothing_before(
    stop: Stop, patience: Patience
) -> None:
    stop.set()
    patience.failed("no answer")
    stop.now += STOP_SECONDS - 0.1
    patience.failed("no answer")
    stop.now += 0.2
    with pytest.raises(Unwritten, match="no answer, and the process was asked to stop; see that Kafka is up"):
        patience.failed("no answer")


def test_one_line_when_it_begins_and_one_when_it_is_over(
    stop: Stop, patience: Patience, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    patience.over()
    assert caplog.messages == [], "nothing was wrong"
    for _ in range(5):
        patience.failed("no answer")
    stop.now = 1007.0
    patience.over()
    patience.over()
    assert caplog.messages == [
        "hits: sink kafka counts: no answer; trying again for up to 60 s",
        "hits: sink kafka counts: works again after 7 s",
    ]
