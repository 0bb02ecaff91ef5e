"""Waiting for what may be otherwise later."""

from __future__ import annotations

from itertools import count

from sluice.clients.polling import wait_for


def test_it_returns_the_last_result_done_or_not() -> None:
    numbers = count()
    assert wait_for(lambda: next(numbers), 60, interval=0, is_done=lambda n: n == 3) == 3
    assert wait_for(lambda: next(numbers), 0, interval=0, is_done=lambda n: False) == 4
