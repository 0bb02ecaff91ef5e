"""One history of the protocol: catalog, topic, and processes that a history interleaves.

Each process is a greenlet that runs the project's own code and stops at every call of a remote system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from tests.protocol.catalog import AnswerLost, Catalog
from tests.protocol.dataframes import Spark
from tests.protocol.kafka import Topic
from tests.protocol.reader import QUARANTINE, STREAM, Reader

PARTITIONS = 2


class Process:
    """``error``: what ended it. ``at``: the call that it makes next."""

    def __init__(self, world: World, name: str, work: Callable[[Process], None]) -> None:
        self.world, self.name = world, name
        self.at = "start"
        self.error: BaseException | None = None
        self.writer: Any = None
        self._greenlet = greenlet(lambda: self._run(work))

    @property
    def is_alive(self) -> bool:
        return not self._greenlet.dead

    def _run(self, work: Callable[[Process], None]) -> None:
        try:
            work(self)
        except GreenletExit:
            self.world.note(f"{self.name}: killed at {self.at}")
        except Exception as error:
            self.error = error
            self.world.note(f"{self.name}: ended: {type(error).__name__}: {error}")

    def step(self) -> None:
        """Run up to the next call. Raises what no process may raise."""
        self.at = self._greenlet.switch() or "end"

    def throw(self, error: BaseException) -> None:
        """End the process, or answer its call with an error."""
        self.at = self._greenlet.throw(error) or "end"


class World:
    """What the processes of a history share."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.topic = Topic(PARTITIONS)
        self.catalog = Catalog([QUARANTINE, STREAM], self._committed)
        self.spark = Spark(self)
        self.processes: list[Process] = []
        self.restored = False
        # After a restore of one table, or to a moment within a batch: their counts may say that they differ.
        self.tables_may_differ = False
        self.reader = Reader(self)

    def start(self, name: str, work: Callable[[Process], None]) -> Process:
        process = Process(self, f"{name}{len(self.processes) + 1}", work)
        self.processes.append(process)
        return process

    @property
    def alive(self) -> list[Process]:
        """Newest first."""
        return [process for process in reversed(self.processes) if process.is_alive]

    def point(self, call: str) -> None:
        """Let the history decide who goes on. No process, no decision: then it is the operator's call."""
        current: Any = getcurrent()
        if current.parent is not None:
            current.parent.switch(call)

    def answer(self, call: str, table: str, branch: str, number: int) -> None:
        """To a commit that Iceberg repeats by itself: an append. What is rewritten is gone by then, and a
        commit of the project's own is not repeated."""
        try:
            self.point(call)
        except AnswerLost:
            self.catalog.repeat(table, branch, number)

    def note(self, event: str) -> None:
        self.story.append(event)

    def _committed(self, table: str, what: str) -> None:
        current: Any = getcurrent()
        names = [p.name for p in self.processes if p._greenlet is current]
        self.note(f"{names[0] if names else 'operator'}: {table}: {what}")
        self.reader.check()

    def close(self) -> None:
        for process in self.alive:
            # One that catches it is asked again.
            while process.is_alive:
                process.throw(GreenletExit())
