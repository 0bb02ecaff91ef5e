"""A server of asyncio's in a thread of its own, for callers that have no loop."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from typing import Self


class ThreadedServer(ABC):
    """Serves from `with` to its end; once only."""

    def __init__(self, name: str) -> None:
        """`name`: its thread's."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None

    @abstractmethod
    async def _serve(self, end: asyncio.Event) -> None:
        """Serve until `end`, in the thread. Sets `_ready` when it can be reached."""

    def __enter__(self) -> Self:
        """Raises OSError for a port that is taken."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        """Open connections are dropped. Once more does nothing."""
        if self._thread.is_alive() and self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._begin())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _begin(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        await self._serve(self._end)
