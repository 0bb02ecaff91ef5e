"""Samples of a component's process, topic, table and heartbeat, and measures over a series of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from sluice.model import exits
from sluice.model.health.heartbeat import Heartbeat
from sluice.model.json_record import JsonRecord
from sluice.model.verification.rejection import Counters


class ProcessState(StrEnum):
    """supervisord's states; other runtimes map theirs to these."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    EXITED = "exited"
    FATAL = "fatal"
    UNKNOWN = "unknown"


class Problem(StrEnum):
    """What keeps a process from running, or from its executors, outside of the process; of a cluster's
    runtime. Each is a Health of the same value."""

    # Its node does not answer.
    NODE_LOST = "node lost"
    # The kernel killed it at its memory limit.
    OUT_OF_MEMORY = "out of memory"
    # Its image cannot be pulled.
    IMAGE_MISSING = "image missing"
    # The namespace's quota has no room for it.
    QUOTA_EXCEEDED = "quota exceeded"
    # No node has room for it.
    UNSCHEDULABLE = "unschedulable"
    # Its runtime does not start it, for another reason.
    NOT_STARTED = "not started"
    # It runs, and another pod of a higher priority took an executor's place.
    EXECUTOR_PREEMPTED = "executor preempted"


# Clocks of the component, its runtime and the observer may differ by this much.
CLOCK_SLACK_SECONDS = 2.0
ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING})
# The runtime does not restart it: it was stopped, or ended with one of ``exits.FINAL``. In BACKOFF it does.
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL})


@dataclass(frozen=True)
class ProcessExit:
    """End of an instance. ``at``: seconds since 1970; ``code``: negative for a signal; ``seconds``: run."""

    at: float
    code: int
    seconds: float

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how} after {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProcessStatus(JsonRecord):
    """A component's process; times in seconds since 1970.

    ``pid`` and ``since`` (its start): of the component, not of the parent process that restarts it.
    ``restarts``: starts by the runtime itself since the last start on request, oldest first, the newest 20;
    ``last_exit``: since then, too. ``restart_at``: of the next restart, in BACKOFF. ``problem``: None if
    nothing outside of the process is wrong; ``description`` then says more of it. ``created``: when a runtime
    made what it has not started yet.
    """

    program: str
    state: ProcessState
    pid: int | None = None
    since: float | None = None
    exit_status: int | None = None
    description: str = ""
    restarts: tuple[float, ...] = ()
    last_exit: ProcessExit | None = None
    restart_at: float | None = None
    problem: Problem | None = None
    created: float | None = None

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_misconfigured(self) -> bool:
        """It ended over its configuration, so a restart finds the same; ``description`` says over which."""
        return self.state in ENDED and self.exit_status == exits.CONFIGURATION

    def restarts_since(self, at: float) -> list[float]:
        return [restart for restart in self.restarts if restart >= at]

    @property
    def identity(self) -> str:
        """Instance id: the second of its start, or of its creation before it starts; "0" before the first. No
        pid: a runtime forgets it when the instance ends."""
        return str(int(self.since or self.created or 0))

    def message(self) -> str:
        detail = f" ({self.description})" if self.description else ""
        return f"{self.program} is {self.state.value.upper()}{detail}"


# The keys of ``Sample.errors``: the systems that are observed.
PROCESS, KAFKA, LAKE = "process", "kafka", "lake"


@dataclass(frozen=True)
class Position(JsonRecord):
    """The stream's state on ``main``: offsets ``[starts, ends)`` are published; times in seconds since 1970.

    ``at``: of the newest snapshot; ``batch_at``: of the newest batch; ``acquired_at``: of the newest epoch.
    ``longest_batch``: seconds, of the last 20 batches. None: no kept snapshot has it. ``rejected``: number of
    the published offsets whose records belong into the quarantine; ``malformed``: number of records that
    batches rejected, and not on purpose. ``changes``: number of published changes. ``counters``: before and
    after each of the last 20 batches, oldest first; ``newest_malformed``: place and reason of the newest
    malformed record, if one of these batches rejected any.
    """

    epoch: int
    at: float
    acquired_at: float | None
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = None
    longest_batch: float | None = None
    batch_at: float | None = None
    rejected: int = 0
    malformed: int = 0
    changes: int = 0
    counters: tuple[Counters, ...] = ()
    newest_malformed: str = ""

    @property
    def records(self) -> int:
        """Number of published offsets."""
        return sum(end - self.starts.get(partition, 0) for partition, end in self.ends.items())


@dataclass(frozen=True)
class Sample(JsonRecord):
    """One observation, at ``at`` (the observer's clock, seconds since 1970). None: no answer, or no value.

    ``errors``: system (PROCESS, KAFKA, LAKE) that did not answer -> reason. ``begins``, ``ends``: the topic's
    offsets. ``expiring``: partition -> first offset that retention keeps for the policy's
    ``retention_margin_seconds``; ``expires_in``: seconds to the deletion of the first unread record, if
    sooner. All of these are of the consumer. ``heartbeat``: of another component, by whichever process.
    """

    at: float
    process: ProcessStatus | None
    topic_id: str | None = None
    begins: dict[int, int] | None = None
    ends: dict[int, int] | None = None
    expiring: dict[int, int] | None = None
    published: Position | None = None
    errors: dict[str, str] = field(default_factory=dict)
    expires_in: float | None = None
    heartbeat: Heartbeat | None = None

    def first_unread(self, partition: int) -> int:
        """The next offset to read; of a partition that was never read the topic's first."""
        begin = (self.begins or {}).get(partition, 0)
        return self.published.ends.get(partition, begin) if self.published else begin

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
