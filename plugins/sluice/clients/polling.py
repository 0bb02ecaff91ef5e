"""Polling."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    check: Callable[[], T], seconds: float, interval: float = 0.2, is_done: Callable[[T], bool] = bool
) -> T:
    """Call ``check`` until its result ``is_done``, for at most ``seconds``; return its last result."""
    deadline = time.monotonic() + seconds
    while not is_done(result := check()) and time.monotonic() < deadline:
        time.sleep(interval)
    return result
