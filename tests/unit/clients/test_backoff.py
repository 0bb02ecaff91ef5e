"""Pauses after failures: longer each time, bounded, and as a server asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from sluice.clients import backoff
from sluice.clients.backoff import MOST_ASKED_SECONDS, Backoff, seconds_asked
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.raising import raising

AWAY = Unreachable("it is away", ErrorCode.S3_UNREACHABLE)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(backoff, "now", lambda: now[0])
    return now


def test_pauses_double_up_to_a_bound_and_end_with_a_success(clock: list[float]) -> None:
    made, pauses = Backoff(), []
    for _ in range(100):
        made.failed(AWAY)
        pauses.append(made.left)
    assert 0.5 <= pauses[0] <= 1
    assert 1 <= pauses[1] <= 2
    assert all(15 <= pause <= 30 for pause in pauses[6:])
    assert len(set(pauses[10:])) > 1, "not all processes at once"
    made.succeeded()
    assert (made.left, made.failure) == (0, None)
    made.failed(AWAY)
    clock[0] += 1.01
    made.check()
    assert (made.left, made.failure) == (0, AWAY)
    made.succeeded(5)
    made.check()
    assert made.left == 5


def test_a_pause_ends_with_what_is_still_good(clock: list[float]) -> None:
    made = Backoff()
    for _ in range(9):
        made.failed(AWAY, good=0.25)
    assert made.left == 0.25
    made.failed(AWAY, 60, good=0.25)
    assert made.left == 60, "the server said more"


def test_the_error_is_another_one_each_time() -> None:
    made, found = Backoff(), list[BaseException]()
    made.failed(AWAY)
    for _ in range(2):
        with raising(Unreachable, "it is away") as caught:
            made.check()
        found.append(caught.value)
    first, second = found
    assert isinstance(first, Unreachable)
    assert first is not second, "its traceback would grow"
    assert (first.code, first.__cause__) == (AWAY.code, AWAY)


def test_a_server_may_ask_for_more(clock: list[float]) -> None:
    made = Backoff()
    made.failed(AWAY, 120)
    assert made.left == 120
    made.failed(AWAY, 1e9)
    assert made.left == MOST_ASKED_SECONDS


def test_what_a_header_says() -> None:
    assert seconds_asked("17") == 17
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < seconds_asked(at) <= 60
    assert [seconds_asked(text) for text in ("", "soon", "-5", "1e9", "²")] == [0] * 5
