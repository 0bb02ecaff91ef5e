"""Errors by their kind and the data that they name, whatever their words are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")


@contextmanager
def raising(kind: type[E], *data: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expects an error of this kind that names each of ``data``, in whatever words: names, numbers, keys."""
    with pytest.raises(kind) as caught:
        yield caught
    missing = [str(datum) for datum in data if str(datum) not in str(caught.value)]
    assert not missing, f"{caught.value!r} does not name {missing}"


def in_time(call: Callable[[], object], seconds: float) -> BaseException | None:
    """What it raised; fails if it does not end."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"it waits for longer than {seconds:g} s"
    return failure[0] if failure else None


def once_corrected(call: Callable[[], T], refused: type[Exception], seconds: float = 20) -> T:
    """What it gives: after a refusal a login is asked for again some moments later."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except refused:
            assert time.monotonic() < until, "it is refused still"
            time.sleep(0.1)
