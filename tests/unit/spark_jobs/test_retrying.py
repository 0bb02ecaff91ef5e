"""Trying again, with a bound, on a clock that the test turns."""

from __future__ import annotations

import logging
import threading

import pytest

from spark_jobs.common.sinks import retrying
from spark_jobs.common.sinks.base import Unwritten
from spark_jobs.common.sinks.retrying import FIRST_SECONDS, MOST_SECONDS, Passing, Retrying, Stopped


class Clock(threading.Event):
    """The stop of a sink, whose waiting takes no time; it is set at ``stops_at``."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.stops_at = 1000.0, float("inf")
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.now += timeout
        return self.now >= self.stops_at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(retrying.time, "monotonic", made.monotonic)
    return made


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
    return [Passing("database d at h:1 does not answer (refused)", "does not answer")] * count


def test_it_is_tried_until_it_is_done_and_each_wait_is_longer_up_to_a_bound(clock: Clock) -> None:
    work = Work(*away(12))
    assert Retrying("jdbc hits", 1000, clock).until_done(work) == "done"
    assert work.tries == 13
    bounds = [min(MOST_SECONDS, FIRST_SECONDS * 2**number) for number in range(12)]
    assert bounds[-1] == MOST_SECONDS
    for waited, most in zip(clock.waits, bounds, strict=True):
        assert most / 2 <= waited <= most
    assert len({waited for waited in clock.waits if waited > MOST_SECONDS / 2}) > 1, "not all at once"


def test_after_its_seconds_it_gives_up_and_says_what_is_wrong(clock: Clock) -> None:
    work = Work(*away(1000))
    with pytest.raises(Unwritten) as ended:
        Retrying("jdbc hits", 30, clock).until_done(work)
    assert str(ended.value) == (
        f"jdbc hits: database d at h:1 does not answer (refused); tried {work.tries} times in 30 s; mend it, "
        "and start the stream again: nothing is lost"
    )
    assert not isinstance(ended.value, Stopped)
    assert clock.now == pytest.approx(1030), "the last try is at the end, not before and not long after"
    assert sum(clock.waits) == pytest.approx(30)


def test_the_time_runs_from_the_first_failure_and_not_from_the_beginning(clock: Clock) -> None:
    tries = []

    def slow() -> str:
        tries.append(clock.now)
        if len(tries) == 1:
            clock.now += 500
            raise away(1)[0]
        return "done"

    assert Retrying("jdbc hits", 30, clock).until_done(slow) == "done"


def test_what_does_not_pass_is_not_tried_again(clock: Clock) -> None:
    for error in (Unwritten("jdbc hits: refuses the login"), ZeroDivisionError()):
        work = Work(error)
        with pytest.raises(type(error)):
            Retrying("jdbc hits", 30, clock).until_done(work)
        assert work.tries == 1
    assert clock.waits == []


def test_a_stop_ends_the_waiting(clock: Clock) -> None:
    clock.stops_at = 1003.0
    work = Work(*away(1000))
    with pytest.raises(Stopped) as ended:
        Retrying("jdbc hits", 1000, clock).until_done(work)
    assert str(ended.value) == (
        "jdbc hits: database d at h:1 does not answer (refused); told to stop while waiting for it"
    )
    assert clock.now < 1003 + MOST_SECONDS


def test_one_line_as_long_as_the_same_is_wrong(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tries = Retrying("jdbc hits", 1000, clock)
    tries.until_done(Work())
    assert caplog.messages == [], "nothing was wrong"
    tries.until_done(Work(*away(4), Passing("d has no room left", "has no room left"), *away(1)))
    assert [message.split(";")[0] for message in caplog.messages] == [
        "jdbc hits: database d at h:1 does not answer (refused)",
        "jdbc hits: d has no room left",
        "jdbc hits: database d at h:1 does not answer (refused)",
        f"jdbc hits: well again after {clock.now - 1000:.1f} s",
    ]


def test_what_was_behind_it_is_kept(clock: Clock) -> None:
    cause = OSError("refused")
    failure = away(1)[0]
    failure.__cause__ = cause
    with pytest.raises(Unwritten) as ended:
        Retrying("jdbc hits", 0, clock).until_done(Work(failure))
    assert ended.value.__cause__ is cause
