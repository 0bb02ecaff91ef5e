"""One answer for many, one question at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from sluice.core.errors import Unreachable
from sluice.web.data import cache
from sluice.web.data.cache import TtlCache


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=clock))
    return clock


def test_an_answer_is_kept_for_its_seconds_and_no_longer(clock: Clock) -> None:
    answers = iter(range(10))
    made = TtlCache(lambda: next(answers), seconds=5)
    assert [made.get(), made.get()] == [0, 0]
    clock.now += 4.9
    assert made.get() == 0
    clock.now += 0.1
    assert made.get() == 1


def test_none_is_an_answer(clock: Clock) -> None:
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)

    made = TtlCache(ask, seconds=5)
    assert [made.get() for _ in range(2)] == [None, None]
    assert asked == [1]


def test_its_age_counts_from_the_answer(clock: Clock) -> None:
    def slow() -> float:
        clock.now += 20
        return clock.now

    made = TtlCache(slow, seconds=5)
    assert made.get() == made.get()


def test_an_error_is_raised_and_not_kept(clock: Clock) -> None:
    answers: list[Exception | int] = [Unreachable("S3 is away"), 7]

    def ask() -> int:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    made = TtlCache(ask, seconds=5)
    with pytest.raises(Unreachable, match="S3 is away"):
        made.get()
    assert made.get() == 7


def test_many_ask_at_once_and_one_question_is_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_WAIT_SECONDS", 10)
    asked: list[int] = []
    go = Event()

    def ask() -> int:
        asked.append(1)
        go.wait(10)
        return 7

    made = TtlCache(ask, seconds=60)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(made.get) for _ in range(8)]
        go.set()
        assert [answer.result(10) for answer in answers] == [7] * 8
    assert len(asked) == 1


def test_who_waits_too_long_is_told_so_and_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_WAIT_SECONDS", 0.05)
    go, begun = Event(), Event()

    def hang() -> int:
        begun.set()
        go.wait(10)
        return 7

    made = TtlCache(hang, seconds=60)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(made.get)
        assert begun.wait(10)
        with pytest.raises(Unreachable, match=r"0\.05 s"):
            made.get()
        go.set()
        assert first.result(10) == 7
    assert made.get() == 7
