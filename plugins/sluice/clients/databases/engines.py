"""One pool of connections for all of a process's clients with the same address and login.

A triggerer, an observer or a server of pages opens a catalog for each stream: with a pool for each, the
connections that PostgreSQL has end at some thirty streams.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import sqlalchemy as sa

# Connections that stay open while no one asks, those at once, and the wait (seconds) for one of them.
KEPT, MOST, WAIT_SECONDS = 1, 8, 30.0


@dataclass
class _Shared:
    engine: sa.Engine
    users: int = 0


class Engines:
    """By address with login, for threads. A process that was forked has its own."""

    def __init__(self) -> None:
        self._shared: dict[tuple[int, str], _Shared] = {}
        self._lock = Lock()

    def take(self, url: str) -> tuple[sa.Engine, Callable[[], None]]:
        """The engine, and what gives it back, once: its connections end with its last user's."""
        key = (os.getpid(), url)
        with self._lock:
            if key not in self._shared:
                self._shared[key] = _Shared(_made(url))
            shared = self._shared[key]
            shared.users += 1
        is_taken = True

        def give_back() -> None:
            nonlocal is_taken
            with self._lock:
                shared.users -= is_taken
                is_taken = False
                if shared.users == 0 and self._shared.get(key) is shared:
                    del self._shared[key]
            if shared.users == 0:
                shared.engine.dispose()

        return shared.engine, give_back


def _made(url: str) -> sa.Engine:
    if sa.make_url(url).get_backend_name() == "sqlite":
        # A file, which may be replaced, and has no connections to save.
        return sa.create_engine(url, poolclass=sa.NullPool)
    # Tested before use: a trigger runs for hours.
    return sa.create_engine(
        url,
        pool_pre_ping=True,
        poolclass=sa.QueuePool,
        pool_size=KEPT,
        max_overflow=MOST - KEPT,
        pool_timeout=WAIT_SECONDS,
    )


ENGINES = Engines()
