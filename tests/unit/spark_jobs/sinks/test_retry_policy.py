"""How long a sink waits for a system that does not answer, on a clock that the test turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from spark_jobs.common.sinks import base
from spark_jobs.common.sinks.base import (
    FIRST_SECONDS,
    MAX_SECONDS,
    STOP_SECONDS,
    RetryPolicy,
    SinkWriteFailed,
    TransientError,
)
from tests.support.raising import raising

REFUSED = "database d at h:1 does not answer (refused)"
SINK, FIX, STANDS = "hits: sink jdbc counts", "fix it", "takes no records"


class Stop(threading.Event):
    """Waiting takes no time, and turns the clock; it is set at ``stops_at``."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.stops_at = 1000.0, float("inf")
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return self.now >= self.stops_at

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if timeout:
            self.waits.append(timeout)
            self.now += timeout
        return self.is_set()


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    stop = Stop()
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: stop.now))
    return stop


def retry_policy(stop: Stop, seconds: float = 60) -> RetryPolicy:
    return RetryPolicy(SINK, FIX, seconds, stop)


class Work:
    """Fails as it is told, then is done."""

    def __init__(self, *fails: Exception) -> None:
        self._fails = list(fails)
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self._fails:
            raise self._fails.pop(0)
        return "done"


def away(count: int) -> list[Exception]:
    return [TransientError(REFUSED, "does not answer")] * count


def test_it_is_tried_until_it_is_done_and_each_wait_is_longer_up_to_a_bound(stop: Stop) -> None:
    work = Work(*away(12))
    assert retry_policy(stop, 1000).call(work) == "done"
    assert work.tries == 13
    bounds = [min(MAX_SECONDS, FIRST_SECONDS * 2**number) for number in range(12)]
    assert bounds[-1] == MAX_SECONDS
    for waited, most in zip(stop.waits, bounds, strict=True):
        assert most / 2 <= waited <= most
    assert len({waited for waited in stop.waits if waited > MAX_SECONDS / 2}) > 1, "not all at once"


def test_after_its_seconds_it_gives_up_and_says_what_is_wrong_and_the_fix(stop: Stop) -> None:
    with raising(SinkWriteFailed, SINK, REFUSED, "30 s", FIX):
        retry_policy(stop, 30).call(Work(*away(1000)))
    assert stop.now == pytest.approx(1030), "the last try is at the end, not before and not long after"
    assert sum(stop.waits) == pytest.approx(30)


def test_without_seconds_the_first_failure_is_the_end(stop: Stop) -> None:
    work = Work(*away(1))
    with raising(SinkWriteFailed, SINK, "0 s", FIX):
        retry_policy(stop, 0).call(work)
    assert (work.tries, stop.waits) == (1, [])


def test_the_time_runs_from_the_first_failure_and_not_from_the_beginning(stop: Stop) -> None:
    tries = []

    def slow() -> str:
        tries.append(stop.now)
        if len(tries) == 1:
            stop.now += 500
            raise away(1)[0]
        return "done"

    assert retry_policy(stop, 30).call(slow) == "done"


def test_another_work_starts_from_zero(stop: Stop) -> None:
    waiting = retry_policy(stop, 30)
    with pytest.raises(SinkWriteFailed):
        waiting.call(Work(*away(1000)))
    stop.waits.clear()
    assert waiting.call(Work(*away(3))) == "done"
    assert stop.waits[0] <= FIRST_SECONDS


def test_what_does_not_pass_is_not_tried_again(stop: Stop) -> None:
    for error in (SinkWriteFailed("refuses the login"), ZeroDivisionError()):
        work = Work(error)
        with pytest.raises(type(error)):
            retry_policy(stop).call(work)
        assert work.tries == 1
    assert stop.waits == []


def test_a_stop_ends_the_waiting_between_tries(stop: Stop) -> None:
    stop.stops_at = 1003.0
    with raising(SinkWriteFailed, SINK, REFUSED, "stop", FIX):
        retry_policy(stop, 1000).call(Work(*away(1000)))
    assert stop.now < 1003 + MAX_SECONDS


def stalled(waiting: RetryPolicy, stop: Stop, *seconds: float) -> None:
    """Work that waits by itself for so many seconds, one after the other."""

    def work() -> None:
        waiting.check_stalled(STANDS)
        for number in seconds:
            stop.now += number
            waiting.check_stalled(STANDS)

    waiting.call(work)


def test_work_that_waits_by_itself_is_not_made_to_wait_and_has_the_same_time(stop: Stop) -> None:
    waiting = retry_policy(stop)
    stalled(waiting, stop, 30, 29)
    stalled(waiting, stop, 59)
    with raising(SinkWriteFailed, SINK, STANDS, "60 s", FIX):
        stalled(waiting, stop, 59, 1)
    assert stop.waits == []


def test_a_stop_ends_what_has_not_moved_for_a_while_and_nothing_before(stop: Stop) -> None:
    stop.stops_at = 0.0
    stalled(retry_policy(stop), stop, STOP_SECONDS - 0.1)
    with raising(SinkWriteFailed, SINK, STANDS, "stop", FIX):
        stalled(retry_policy(stop), stop, STOP_SECONDS - 0.1, 0.2)


def test_one_line_as_long_as_the_same_is_wrong_and_one_when_it_is_over(
    stop: Stop, levels: Callable[..., list[str]]
) -> None:
    waiting = retry_policy(stop)
    waiting.call(Work())
    assert levels() == [], "nothing was wrong"
    waiting.call(Work(*away(4), TransientError("d has no room left", "has no room left"), *away(1)))
    assert levels(SINK) == ["WARNING", "WARNING", "WARNING", "INFO"]
    assert levels(SINK, REFUSED) == ["WARNING"] * 2
    assert levels(SINK, REFUSED, "60 s") == levels(SINK, "d has no room left") == ["WARNING"]
    assert levels(SINK, f"{stop.now - 1000:.1f} s") == ["INFO"]


def test_what_was_behind_it_is_kept(stop: Stop) -> None:
    cause = OSError("refused")
    failure = away(1)[0]
    failure.__cause__ = cause
    with pytest.raises(SinkWriteFailed) as ended:
        retry_policy(stop, 0).call(Work(failure))
    assert ended.value.__cause__ is cause
