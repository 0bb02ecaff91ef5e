"""What the looks at a stream show together at the last of them: the facts that verdicts rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from sluice.model.health import retention
from sluice.model.health.sample import (
    Position,
    ProcessStatus,
    Sample,
    latest,
    observed,
    published,
    rates,
    steps,
)
from sluice.model.spec.stream import Supervision

# A gap of more than this many intervals was not watched.
GAP_INTERVALS = 1.5
# Two looks say the same for certain when they are this far apart.
CONFIRM_SECONDS = 4.0
# The observer's, the runtime's and the driver's clock may differ by as much.
CLOCK_SLACK_SECONDS = 2.0
# A look takes a while, so the table may be newer than its moment.
CHECK_SECONDS = 30.0
# How often patience doubles at most.
MAX_DOUBLINGS = 3


class Timeline:
    """``series``: ordered samples, of which the last is complete; ``restarts``: those that count."""

    def __init__(self, series: Sequence[Sample], policy: Supervision, restarts: Sequence[float]) -> None:
        self.all = series
        self.policy = policy
        self.now = series[-1]
        self.cap = policy.interval_seconds * GAP_INTERVALS
        # Looks at another topic of this name, and looks that saw too little, show nothing of this one's pace.
        self.series = [s for s in series if is_complete(s) and s.topic_id == self.now.topic_id]
        self.restarts = restarts

    @property
    def process(self) -> ProcessStatus:
        return process_of(self.now)

    @property
    def epoch(self) -> int | None:
        return self.now.published.epoch if self.now.published else None

    @cached_property
    def unread(self) -> dict[int, int]:
        return self.now.unread()

    @property
    def lag(self) -> int:
        return sum(self.unread.values())

    @cached_property
    def rates(self) -> tuple[float, float] | None:
        """(arriving, published) records per second of the last ``lag_window_seconds``, None where unknown."""
        return rates(latest(self.series, self.policy.lag_window_seconds, self.cap), self.cap)

    # What the topic loses.

    @cached_property
    def other_id(self) -> str | None:
        """That the topic has another id than the one that was read."""
        return retention.other_id(self.all)

    @cached_property
    def recreation(self) -> str | None:
        """Why the topic is not the one that was read; None where it is."""
        return self.other_id or retention.shrunk(self.now)

    @cached_property
    def loss(self) -> str | None:
        """Which offsets were deleted before they were read."""
        return retention.deleted(self.now)

    @cached_property
    def risk(self) -> str | None:
        """Which unread records are deleted soon."""
        within = self.policy.retention_margin_seconds
        return retention.expiring(self.now, within) or retention.overtaken(
            self.series, within, self.policy.stall_timeout_seconds
        )

    # Does it move?

    @cached_property
    def patience(self) -> float:
        """Seconds without progress after which it stands still.

        A restart that brought no batch, though records waited all the time since, doubles it: a batch that
        takes longer than any before must not be killed again and again.
        """
        known = self.now.published
        longest = (known.longest_batch or 0.0) if known else 0.0
        batch_at = known.batch_at if known else None
        done = [sample.at for sample in self.series if not sample.unread()]
        since = max([at for at in (batch_at, *done) if at is not None], default=None)
        fruitless = sum(since is None or restart > since for restart in self.restarts)
        return max(self.policy.stall_timeout_seconds, 3 * longest) * 2 ** min(fruitless, MAX_DOUBLINGS)

    @cached_property
    def stuck(self) -> dict[int, float]:
        """Partition with unread records -> for how many observed seconds nothing of it was published."""
        return {p: self._tail_seconds(partial(self._is_stuck, p)) for p in self.unread}

    @cached_property
    def still(self) -> float:
        """For how many observed seconds records waited and nothing was published."""
        return self._tail_seconds(self._is_still)

    @cached_property
    def has_known_start(self) -> bool:
        """Whether the looks show when it came to stand as it stands now: it moved, or had nothing to do."""
        tail = self._tail(self._is_still)
        before = self.series[-len(tail) - 1 : -len(tail)]
        return bool(before) and tail[0].at - before[0].at <= self.cap

    def is_recent(self, seconds: float) -> bool:
        """Whether something was published (or the stream taken over) within so many seconds."""
        known = self.now.published
        if known is None:
            return False
        age = self.now.at - known.at
        if age >= -CHECK_SECONDS:
            return age <= seconds
        # A clock was put back: only the looks can tell.
        return any(
            published(before, after) and self.now.at - before.at <= seconds
            for before, after in steps(self.series, self.cap)
        )

    @property
    def is_far_behind(self) -> bool:
        """Whether more waits than what arrives within the patience; False where that is unknown."""
        return self.rates is not None and self.lag > self.rates[0] * self.patience

    @cached_property
    def growth(self) -> tuple[float, int] | None:
        """How long ago it was, and by how many records less, where it grew for ``lag_window_seconds`` and in
        both halves of them; else None."""
        tail = latest(self.series, self.policy.lag_window_seconds, self.cap)
        if len(tail) < 3 or observed(tail, self.cap) < self.policy.lag_window_seconds:
            return None
        half = (tail[0].at + tail[-1].at) / 2
        middle = min(tail[1:-1], key=lambda sample: abs(sample.at - half))
        first, between, last = (sum(s.unread().values()) for s in (tail[0], middle, tail[-1]))
        return (tail[-1].at - tail[0].at, last - first) if first < between < last else None

    # Who owns it?

    @property
    def is_owned(self) -> bool:
        return not self.was_unowned(self.now)

    def was_unowned(self, sample: Sample) -> bool:
        """Whether nobody had taken over since this start of the process."""
        if sample.process is None or sample.process.identity != self.process.identity:
            return False
        since, known = sample.process.since, sample.published
        if known is None or since is None:
            return known is None
        if known.acquired_at is None:
            # No take-over is kept: right for a process that has been there for long.
            return sample.at - since < self.policy.startup_timeout_seconds
        return known.acquired_at < since - CLOCK_SLACK_SECONDS

    @cached_property
    def age(self) -> float:
        """Seconds since the process started, as its clock says or as the looks do, whichever is more."""
        seen = self._tail_seconds(lambda s: True)
        return max(self.now.at - self.process.since, seen) if self.process.since else seen

    # How often, how long.

    def confirmed(self, shows: Callable[[Sample], bool]) -> bool:
        """Whether an earlier look, far enough from the last, showed it too."""
        return any(self.now.at - s.at >= CONFIRM_SECONDS and shows(s) for s in self.all[:-1])

    def _tail(self, holds: Callable[[Sample], bool]) -> Sequence[Sample]:
        """The looks up to the last at this start of the process and this owner, while it ``holds``."""
        start = len(self.series) - 1
        while start > 0 and self._is_same(self.series[start - 1]) and holds(self.series[start - 1]):
            start -= 1
        return self.series[start:]

    def _tail_seconds(self, holds: Callable[[Sample], bool]) -> float:
        return observed(self._tail(holds), self.cap)

    def _is_same(self, sample: Sample) -> bool:
        epoch = sample.published.epoch if sample.published else None
        return epoch == self.epoch and process_of(sample).identity == self.process.identity

    def _is_still(self, sample: Sample) -> bool:
        return bool(sample.unread()) and _ends(sample.published) == _ends(self.now.published)

    def _is_stuck(self, partition: int, sample: Sample) -> bool:
        return partition in sample.unread() and sample.first_unread(partition) == self.now.first_unread(
            partition
        )

    def details(self) -> dict[str, Any]:
        """What the verdict rests on, in JSON's types."""
        now, known = self.now, self.now.published
        return {
            "at": now.at,
            "samples": len(self.series),
            "observed_seconds": round(observed(self.series, self.cap), 1),
            "still_seconds": round(max(self.stuck.values(), default=0.0), 1),
            "patience_seconds": round(self.patience, 1),
            "process": self.process.to_json(),
            "topic_id": now.topic_id,
            "published_at": known.at if known else None,
            "acquired_at": known.acquired_at if known else None,
            "longest_batch_seconds": known.longest_batch if known else None,
            "published_records": known.records if known else 0,
            "unread": {str(partition): count for partition, count in self.unread.items()},
            "published_to": {str(p): now.first_unread(p) for p in self.unread},
            "risk": self.risk,
            "restarts": sorted(self.restarts),
            "errors": dict(now.errors),
        }


def process_of(sample: Sample) -> ProcessStatus:
    """The process of a complete sample."""
    if sample.process is None:
        raise ValueError(f"the look at {sample.at} shows no process; ask is_complete first")
    return sample.process


def is_complete(sample: Sample) -> bool:
    """Whether every system answered."""
    return not (sample.errors or sample.process is None or sample.begins is None or sample.ends is None)


def offsets(positions: Mapping[int, int]) -> str:
    """``partition 3: 500, partition 4: 12``; of many the first three."""
    named = [f"partition {partition}: {offset}" for partition, offset in sorted(positions.items())]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")


def _ends(position: Position | None) -> dict[int, int]:
    return position.ends if position else {}
