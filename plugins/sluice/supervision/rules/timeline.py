"""Progress of a consumer over a series of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from sluice.config.sections.supervision import Supervision
from sluice.core.offsets.rejection import Counters, Share
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.supervision.rules import retention
from sluice.supervision.rules.lease import has_acquired
from sluice.supervision.rules.sample import Sample, latest, observed, published, rates, steps

# A gap of more than this many intervals was not observed.
GAP_INTERVALS = 1.5
# Two samples at least this many seconds apart confirm each other.
CONFIRM_SECONDS = 4.0
# The lake is read up to this long after a sample's time, so the table may be newer.
CHECK_SECONDS = 30.0
# The stall timeout doubles at most this often.
MAX_DOUBLINGS = 3


class Timeline:
    """``series``: ordered samples, the last complete; ``restarts``: those that count.

    Samples of another topic of this name and incomplete samples show nothing of the pace: they are only in
    ``all``.
    """

    def __init__(self, series: Sequence[Sample], policy: Supervision, restarts: Sequence[float]) -> None:
        self.all = series
        self.policy = policy
        self.now = series[-1]
        self.cap = policy.interval_seconds * GAP_INTERVALS
        self.series = [s for s in series if is_complete(s) and s.topic_id == self.now.topic_id]
        self.restarts = restarts
        self.process = process_of(self.now)
        self.epoch = self.now.published.epoch if self.now.published else None
        self.unread = self.now.unread()
        self.lag = sum(self.unread.values())

    @cached_property
    def rates(self) -> tuple[float, float] | None:
        """(arriving, published) records per second of the last ``lag_window_seconds``; None if unknown."""
        return rates(latest(self.series, self.policy.lag_window_seconds, self.cap), self.cap)

    @cached_property
    def recreation(self) -> str | None:
        return retention.topic_id_changed(self.all) or retention.topic_truncated(self.now)

    @cached_property
    def risk(self) -> str | None:
        """Unread records that are deleted soon."""
        margin = self.policy.retention_margin_seconds
        return retention.expiring(self.now, margin) or retention.trimmed_by_size(
            self.series, margin, self.policy.stall_timeout_seconds
        )

    @cached_property
    def stall_timeout(self) -> float:
        """Seconds without progress after which it is stalled.

        Each restart without a batch since, though records were unread all the time, doubles it: a batch that
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
        """Partition with unread records -> observed seconds without a published record of it."""
        return {p: self._tail_seconds(partial(self._is_stuck, p)) for p in self.unread}

    @cached_property
    def still(self) -> float:
        """Observed seconds with unread records and nothing published."""
        return self._tail_seconds(self._is_still)

    @cached_property
    def has_known_start(self) -> bool:
        """Whether the samples show since when nothing is published."""
        tail = self._tail(self._is_still)
        before = self.series[-len(tail) - 1 : -len(tail)]
        return bool(before) and tail[0].at - before[0].at <= self.cap

    def rejection(self, requested_at: float) -> Share | None:
        """The share of malformed records, if it exceeds the policy's limit: of the last batches, or of what
        was published since the check before. What came before ``requested_at`` does not count."""
        now = self.now.published
        if now is None or not now.counters:
            return None
        base = next((c for c in now.counters if c.at >= requested_at), None)
        bases = [base, self._counted_before(requested_at)]
        # A change may have taken some out of the quarantine since the check before.
        shares = [now.counters[-1].since(base).capped(now.rejected) for base in bases if base is not None]
        return next((one for one in shares if one.exceeds(self.policy.max_rejected_percent)), None)

    def _counted_before(self, requested_at: float) -> Counters | None:
        """What the check before had found: of a fast stream more than the last batches came since."""
        comparable = [
            s for s in self.series[:-1] if s.published and s.published.counters and s.at >= requested_at
        ]
        apart = self.policy.interval_seconds / 2
        earlier = [s for s in comparable if self.now.at - s.at >= apart][-1:] or comparable
        return earlier[0].published.counters[-1] if earlier and earlier[0].published else None

    def is_recent(self, seconds: float) -> bool:
        """Whether a batch was published, or the lease acquired, within ``seconds``."""
        known = self.now.published
        if known is None:
            return False
        age = self.now.at - known.at
        if age >= -CHECK_SECONDS:
            return age <= seconds
        # A clock was put back: only the samples can tell.
        return any(
            published(before, after) and self.now.at - before.at <= seconds
            for before, after in steps(self.series, self.cap)
        )

    @property
    def is_far_behind(self) -> bool:
        """Whether the lag is more than what arrives within the stall timeout; False if that is unknown."""
        return self.rates is not None and self.lag > self.rates[0] * self.stall_timeout

    @cached_property
    def growth(self) -> tuple[float, int] | None:
        """(seconds, records) of growth, if the lag grew for ``lag_window_seconds`` and in both halves."""
        tail = latest(self.series, self.policy.lag_window_seconds, self.cap)
        if len(tail) < 3 or observed(tail, self.cap) < self.policy.lag_window_seconds:
            return None
        half = (tail[0].at + tail[-1].at) / 2
        middle = min(tail[1:-1], key=lambda sample: abs(sample.at - half))
        first, between, last = (sum(s.unread().values()) for s in (tail[0], middle, tail[-1]))
        return (tail[-1].at - tail[0].at, last - first) if first < between < last else None

    def has_active_writer(self, sample: Sample) -> bool:
        """Whether a writer acquired the lease since this start of the process."""
        if sample.process is None or sample.process.identity != self.process.identity:
            return True
        since, known = sample.process.since, sample.published
        if known is None or since is None:
            # A process without a start time may run; one that is STARTING has not started yet.
            return known is not None and sample.process.state is not ProcessState.STARTING
        return has_acquired(known, since, sample.at, self.policy.startup_timeout_seconds)

    @cached_property
    def age(self) -> float:
        """Seconds since the process started, by its clock or as observed, whichever is more."""
        seen = self._tail_seconds(lambda s: True)
        return max(self.now.at - self.process.since, seen) if self.process.since else seen

    def confirmed(self, shows: Callable[[Sample], bool]) -> bool:
        """Whether an earlier sample, CONFIRM_SECONDS or more before the last, shows it too."""
        return any(self.now.at - s.at >= CONFIRM_SECONDS and shows(s) for s in self.all[:-1])

    def _tail(self, holds: Callable[[Sample], bool]) -> Sequence[Sample]:
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
        ends, now = (s.published.ends if s.published else {} for s in (sample, self.now))
        return bool(sample.unread()) and ends == now

    def _is_stuck(self, partition: int, sample: Sample) -> bool:
        first = sample.first_unread(partition)
        # Not unread(): that counts all partitions, for each of them and each sample.
        is_unread = (sample.ends or {}).get(partition, first) > first
        return is_unread and first == self.now.first_unread(partition)

    def details(self) -> dict[str, Any]:
        """The details of a health report, in JSON's types."""
        now, known = self.now, self.now.published
        return {
            "at": now.at,
            "samples": len(self.series),
            "observed_seconds": round(observed(self.series, self.cap), 1),
            "still_seconds": round(max(self.stuck.values(), default=0.0), 1),
            "stall_timeout_seconds": round(self.stall_timeout, 1),
            "process": self.process.to_json(),
            "topic_id": now.topic_id,
            "published_at": known.at if known else None,
            "acquired_at": known.acquired_at if known else None,
            "longest_batch_seconds": known.longest_batch if known else None,
            "published_records": known.records if known else 0,
            "malformed": known.malformed if known else 0,
            "newest_malformed": (known.newest_malformed or None) if known else None,
            "unread": {str(partition): count for partition, count in self.unread.items()},
            "published_to": {str(p): now.first_unread(p) for p in self.unread},
            "risk": self.risk,
            "restarts": sorted(self.restarts),
            "errors": dict(now.errors),
        }


def process_of(sample: Sample) -> ProcessStatus:
    if sample.process is None:
        raise ValueError(f"the sample of {sample.at} has no process; check is_complete() first")
    return sample.process


def is_complete(sample: Sample) -> bool:
    """Whether every system answered."""
    return not (sample.errors or sample.process is None or sample.begins is None or sample.ends is None)


def offsets(positions: Mapping[int, int]) -> str:
    """``partition 3: 500, partition 4: 12``; of many the first three."""
    named = [f"partition {partition}: {offset}" for partition, offset in sorted(positions.items())]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
