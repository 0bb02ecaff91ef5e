"""A stand-in that acts in a thread while a test's `with` block runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self

INTERVAL = 0.1


class Background(ABC):
    """Acts every INTERVAL seconds. The end of the block raises what it failed by."""

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @abstractmethod
    def act(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._end.wait(INTERVAL):
                self.act()
        except BaseException as error:
            self.failure = error
