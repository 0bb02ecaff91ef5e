"""Samples of a component's process, topic, table and heartbeat, and measures over a series of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sluice.config.sections.supervision import Supervision
from sluice.core.json_record import JsonRecord
from sluice.core.processes.heartbeat import Heartbeat
from sluice.core.processes.status import ProcessStatus
from sluice.core.tables.position import Position

# Clocks of the component, its runtime and the observer may differ by this much.
CLOCK_SLACK_SECONDS = 2.0
# The keys of ``Sample.errors``: the systems that are observed.
PROCESS, KAFKA, LAKE = "process", "kafka", "lake"


@dataclass(frozen=True)
class Sample(JsonRecord):
    """One observation. None: no answer, or no value; the topic's and the table's are of the consumer
    alone."""

    at: float
    """The observer's clock, in seconds since 1970."""
    process: ProcessStatus | None
    """As the runtime says."""
    topic_id: str | None = None
    """Kafka's; another one: the topic was recreated."""
    begins: dict[int, int] | None = None
    """Partition -> the topic's first offset."""
    ends: dict[int, int] | None = None
    """Partition -> the offset behind the topic's last record."""
    expiring: dict[int, int] | None = None
    """Partition -> first offset that retention keeps for the policy's ``retention_margin_seconds``."""
    published: Position | None = None
    """The stream's state on ``main``."""
    errors: dict[str, str] = field(default_factory=dict)
    """System (PROCESS, KAFKA, LAKE) that did not answer -> reason."""
    expires_in: float | None = None
    """Seconds to the deletion of the first unread record, if sooner than that margin."""
    heartbeat: Heartbeat | None = None
    """That of another component, by whichever process."""
    stable: dict[int, int] | None = None
    """Partition -> the first offset of an open transaction, else its end; of a topic of others or of a feed
    with unread records."""
    transactions: dict[int, str] = field(default_factory=dict)
    """Partition whose next record waits for a transaction -> which one, as far as this user may see."""

    def first_unread(self, partition: int) -> int:
        """The next offset to read; of a partition that was never read the topic's first."""
        begin = (self.begins or {}).get(partition, 0)
        return self.published.ends.get(partition, begin) if self.published else begin

    def waits_for_transaction(self, partition: int) -> bool:
        """Whether no unread record may be read before a transaction ends."""
        stable, end = (self.stable or {}).get(partition), (self.ends or {}).get(partition)
        return stable is not None and end is not None and stable <= self.first_unread(partition) < end

    def unread(self) -> dict[int, int]:
        """Partition -> number of unpublished offsets, if there are any."""
        waiting = {
            partition: end - self.first_unread(partition) for partition, end in (self.ends or {}).items()
        }
        return {partition: count for partition, count in waiting.items() if count > 0}


def ordered(samples: Sequence[Sample]) -> list[Sample]:
    """The samples oldest first, without those that are later than the last because a clock was put back."""
    kept = list(samples[-1:])
    for sample in reversed(samples[:-1]):
        if sample.at < kept[-1].at:
            kept.append(sample)
    return kept[::-1]


def observed(series: Sequence[Sample], cap: float) -> float:
    """Observed seconds: of each gap between samples at most ``cap``."""
    return sum(min(after.at - before.at, cap) for before, after in pairwise(series))


def steps(series: Sequence[Sample], cap: float) -> Iterator[tuple[Sample, Sample]]:
    """Neighbours at most ``cap`` seconds apart."""
    return ((before, after) for before, after in pairwise(series) if after.at - before.at <= cap)


def latest(series: Sequence[Sample], seconds: float, cap: float) -> Sequence[Sample]:
    """The shortest tail with ``seconds`` observed, or all."""
    seen = 0.0
    for start in range(len(series) - 1, -1, -1):
        if start < len(series) - 1:
            seen += min(series[start + 1].at - series[start].at, cap)
        if seen >= seconds:
            return series[start:]
    return series


def arrived(before: Sample, after: Sample) -> int:
    """Number of records written to the topic between two samples."""
    begins, ends = after.begins or {}, before.ends or {}
    return sum(
        max(end - ends.get(partition, begins.get(partition, 0)), 0)
        for partition, end in (after.ends or {}).items()
    )


def published(before: Sample, after: Sample) -> int:
    """Number of records published between two samples."""
    if after.published is None:
        return 0
    return max(after.published.records - (before.published.records if before.published else 0), 0)


def rates(series: Sequence[Sample], cap: float) -> tuple[float, float] | None:
    """(arriving, published) records per second; None if no two samples are at most ``cap`` seconds apart."""
    pairs = list(steps(series, cap))
    seconds = sum(after.at - before.at for before, after in pairs)
    if not pairs or seconds <= 0:
        return None
    return sum(arrived(*p) for p in pairs) / seconds, sum(published(*p) for p in pairs) / seconds


def deletion_rate(series: Sequence[Sample], partition: int, min_seconds: float) -> float | None:
    """Offsets per second by which the topic's begin advances.

    Kafka deletes whole segments, so the rate is between two advances at least ``min_seconds`` apart; None if
    there are no two.
    """
    advances = [
        (after.at, (after.begins or {})[partition])
        for before, after in pairwise(series)
        if (after.begins or {}).get(partition, 0) > (before.begins or {}).get(partition, 0)
        and partition in (before.begins or {})
    ]
    if len(advances) < 2 or advances[-1][0] - advances[0][0] < min_seconds:
        return None
    (first, begin), (last, end) = advances[0], advances[-1]
    return (end - begin) / (last - first)


def memory_seconds(policy: Supervision, details: Mapping[str, Any]) -> float:
    """How far back the rules may look at the next sample. ``details``: the newest report's.

    The stall timeout is longer than the policy's for slow batches, and doubles with a restart.
    """
    stall_timeout = float(details.get("stall_timeout_seconds", 0.0))
    longest = max(policy.lag_window_seconds, policy.stall_timeout_seconds, stall_timeout)
    return 2 * longest + policy.interval_seconds


def downsample(samples: Sequence[Sample], seconds: float, most: int) -> list[Sample]:
    """At most ``most`` samples, evenly over the ``seconds`` before the last one, which is kept.

    The next check needs how far back they reach, not how close together they are. From the oldest on: a
    sample once kept stays, however often checks run; from the newest on, each would drop the one before it.
    Samples later than the last one (the clock was set back) are left out.
    """
    apart = seconds / max(most - 2, 1)
    kept: list[Sample] = []
    for sample in samples[:-1]:
        is_recent = 0 <= samples[-1].at - sample.at <= seconds
        if is_recent and (not kept or sample.at - kept[-1].at >= apart):
            kept.append(sample)
    return [*kept, *samples[-1:]]
