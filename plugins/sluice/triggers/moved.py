"""Waiting until a stream that was started anew goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum

from airflow.triggers.base import TriggerEvent

from sluice.model.config import ConfigError
from sluice.model.process import ENDED
from sluice.model.samples import Sample
from sluice.triggers.base import StreamTrigger

POLL_SECONDS = 2.0


class Outcome(StrEnum):
    """How the waiting ended; the value is what the event carries."""

    MOVED = "moved"
    DIED = "died"
    TIMED_OUT = "timed out"


def progress(sample: Sample, token: int, published: dict[int, int]) -> tuple[bool, str]:
    """Whether the stream goes on after owner ``token`` that had ``published`` (ends), and how it stands.

    It does once another owner has taken over and published something, or has nothing left to publish.
    """
    if sample.trouble:
        return False, "; ".join(f"{system}: {reason}" for system, reason in sorted(sample.trouble.items()))
    position = sample.published
    if position is None or position.token <= token:
        return False, f"nobody has taken over since owner {token}"
    lag = sum(sample.unread().values())
    ahead = sum(max(end - published.get(p, 0), 0) for p, end in position.ends.items())
    return bool(ahead) or not lag, f"owner {position.token} has published {ahead} records, {lag} wait"


class MovedTrigger(StreamTrigger):
    """Fires when the stream goes on, when its process has ended, or at ``deadline``.

    ``token`` and ``published`` (partition, as text, -> end) are what was judged, ``deadline`` is a moment
    (seconds since 1970); all of it serialised, so that it goes on in another triggerer. The event also says
    at which moment that was.
    """

    names = ("stream", "role", "token", "published", "deadline", "poll_interval")

    def __init__(
        self,
        *,
        stream: str,
        role: str,
        token: int,
        published: dict[str, int],
        deadline: float,
        poll_interval: float = POLL_SECONDS,
    ) -> None:
        super().__init__(stream=stream, role=role)
        self.token = token
        self.published = published
        self.deadline = deadline
        self.poll_interval = poll_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        outcome, reason = await self._wait()
        yield TriggerEvent({"outcome": outcome.value, "reason": reason, "at": self.clock()})

    async def _wait(self) -> tuple[Outcome, str]:
        published, told = {int(p): end for p, end in self.published.items()}, ""
        while True:
            try:
                sample = await self.look()
            except ConfigError as error:
                return Outcome.TIMED_OUT, str(error)
            moved, now_tells = progress(sample, self.token, published)
            if moved:
                return Outcome.MOVED, now_tells
            if sample.process is not None and sample.process.state in ENDED:
                return Outcome.DIED, f"{sample.process.sentence()}; {now_tells}"
            if now_tells != told:
                self.log.info("%s", now_tells)
                told = now_tells
            if self.clock() >= self.deadline:
                return Outcome.TIMED_OUT, told
            await self.sleep(self.poll_interval)
