"""Waiting until what was produced is published."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow.triggers.base import TriggerEvent

from sluice.clients.errors import ClientError
from sluice.model.config import ConfigError
from sluice.model.process import ENDED, ProcessState, ProcessStatus
from sluice.model.ranges import RangeSet
from sluice.triggers.base import StreamTrigger

if TYPE_CHECKING:
    from sluice.clients.table import Published

MOST_RESTARTS = 5
DOWN = frozenset({*ENDED, ProcessState.BACKOFF})


class Outcome(StrEnum):
    """How the waiting ended; the value is what the event carries."""

    LANDED = "landed"
    HOPELESS = "hopeless"
    TIMED_OUT = "timed out"


@dataclass
class Watch:
    """What a process did while we waited. ``grace``: seconds that it may be down, until it is supervised."""

    grace: float
    down_since: float | None = None
    pids: set[int] = field(default_factory=set)

    def verdict(self, process: ProcessStatus, now: float) -> str | None:
        """Why waiting on is hopeless, or None. Call it with every look; ``now`` in seconds."""
        if process.pid is not None:
            self.pids.add(process.pid)
        if len(self.pids) > MOST_RESTARTS + 1:
            return f"{process.program} was restarted {len(self.pids) - 1} times while the load waited for it"
        if process.state not in DOWN:
            self.down_since = None
            return None
        self.down_since = now if self.down_since is None else self.down_since
        down = now - self.down_since
        return f"{process.sentence()} for {down:.0f} s" if down >= self.grace else None


def beyond_reach(expected: RangeSet, starts: dict[int, int]) -> RangeSet:
    """What the stream will never publish: offsets before it began, of the partitions that it knows."""
    return expected.intersect(RangeSet.of({partition: [(0, start)] for partition, start in starts.items()}))


class LandedTrigger(StreamTrigger):
    """Fires when ``main`` covers ``expected`` (a RangeSet's JSON), when it never will, or at ``deadline``.

    ``part`` is whose work is waited for: ``consumer``, or ``queries``, which then have counted it all.

    ``deadline`` is a moment (seconds since 1970), so that it goes on in another triggerer where it was.
    ``grace``: for how many seconds the consumer may be down; its supervision starts it again within that.
    PostgreSQL is asked every ``poll_interval`` seconds and S3 only when the table moved. What cannot be
    observed is asked again until the deadline and then named.
    """

    names = ("stream", "role", "expected", "deadline", "poll_interval", "grace", "part")

    def __init__(
        self,
        *,
        stream: str,
        role: str,
        expected: str,
        deadline: float,
        poll_interval: float,
        grace: float,
        part: str = "consumer",
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.part = part
        self.expected = expected
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.grace = grace

    async def run(self) -> AsyncIterator[TriggerEvent]:
        outcome, reason = await self._wait()
        yield TriggerEvent({"outcome": outcome.value, "reason": reason})

    async def _wait(self) -> tuple[Outcome, str]:
        spec = self.spec
        expected = RangeSet.from_json(self.expected)
        part = spec.part(self.part)
        verb = "counted" if part.name == "queries" else "published"
        watch, told, progress = Watch(self.grace), "", "nothing was observed yet"
        while True:
            trouble: list[str] = []
            try:
                state = await self.ask(lambda: self._reached(part.name))
                if state is not None:
                    done = state.ranges.intersect(expected).count
                    progress = f"{done} of {expected.count} records of the load are {verb}"
                    if state.ranges.covers(expected):
                        return Outcome.LANDED, progress
                    lost = beyond_reach(expected, state.starts)
                    if lost:
                        return (
                            Outcome.HOPELESS,
                            f"the stream began behind {lost}, so it will never publish that",
                        )
                else:
                    progress = f"nothing of table {spec.table} is {verb} yet"
            except ClientError as error:
                trouble.append(str(error))
            except ConfigError as error:
                return Outcome.HOPELESS, str(error)
            try:
                process = await self.ask(lambda: self.hook.runtime.status(part.program))
                verdict = watch.verdict(process, self.clock())
                if verdict:
                    return Outcome.HOPELESS, f"{verdict}; {progress}"
            except ClientError as error:
                trouble.append(str(error))
            except ConfigError as error:
                return Outcome.HOPELESS, str(error)
            now_tells = "; ".join([progress, *trouble])
            if now_tells != told:
                self.log.info("%s", now_tells)
                told = now_tells
            if self.clock() >= self.deadline:
                return Outcome.TIMED_OUT, told
            await self.sleep(self.poll_interval)

    def _reached(self, part: str) -> Published | None:
        """What ``part`` has reached of the topic."""
        state = self.hook.lake.published(self.spec.table)
        if part != "queries" or state is None:
            return state
        # Here, where it is used: PyArrow takes a second.
        from sluice.clients import queries

        standing = queries.standing(self.hook.lake.table(self.spec.queries_table), self.spec.queries)
        return None if standing is None else replace(state, ends=standing.ends)
