"""A measurement that runs beside what is measured."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Background:
    """Calls :meth:`step` every ``seconds`` in a thread, from ``with`` to its end.

    The first error of a step ends the calls, and is raised by :meth:`check` and at the end of ``with``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def step(self) -> None:
        """What is done each time; a subclass says."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise the error of a step."""
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        # An error of the block itself says more.
        if error is None:
            self.check()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._seconds):
                self.step()
        except Exception as error:
            self.failure = error
