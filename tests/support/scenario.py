"""Named steps of a scenario: one test that goes through several checks, each of which builds on the last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def step(name: str) -> Iterator[None]:
    """A step of a test. Its failure begins with the name; the seconds it took are printed."""
    began = time.monotonic()
    try:
        yield
    except Exception as error:
        raise AssertionError(f"step {name!r}: {type(error).__name__}: {error}") from error
    finally:
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)
