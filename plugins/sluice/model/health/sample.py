"""One observation: process, topic, table, heartbeat; several in order.

What a runtime shows of one program: plain values, so that pure functions can judge them.

One observation of a component: what its process, Kafka and the lake showed at one moment.

Looks at a stream over time: what they show together. Values in, values out.

A gap in which nobody looked is no evidence, so between two looks at most ``cap`` seconds count as observed,
and what happened in a longer gap counts for no rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from sluice.model import exits
from sluice.model.health.heartbeat import Heartbeat
from sluice.model.health.json_record import JsonRecord


class ProcessState(StrEnum):
    """supervisord's states, which other runtimes map theirs to."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    EXITED = "exited"
    FATAL = "fatal"
    UNKNOWN = "unknown"


EXIT_FENCED = exits.FENCED
ALIVE = frozenset({ProcessState.STARTING, ProcessState.RUNNING})
# The runtime does not restart it: it was stopped, or ended with one of ``exits.FINAL``. In BACKOFF it does.
ENDED = frozenset({ProcessState.STOPPED, ProcessState.EXITED, ProcessState.FATAL})


@dataclass(frozen=True)
class ProcessExit:
    """How an instance of a process ended. ``at``: seconds since 1970; ``code``: negative for a signal, as in
    ``subprocess``; ``seconds``: for how long it had run."""

    at: float
    code: int
    seconds: float

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"{how} after {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProcessStatus(JsonRecord):
    """One observation of a component's process.

    ``pid`` and ``since`` (start time, seconds since 1970; None before the first) are those of the component
    itself, not of the parent process that restarts it. ``restarts``: start times of the instances that the
    runtime itself started after one had ended, oldest first, since the last start on request (by Airflow or a
    person), the newest 20. ``last_exit``: of the newest instance that ended since then. In BACKOFF
    ``restart_at`` is the time of the next restart.
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

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    def restarts_since(self, at: float) -> list[float]:
        """The runtime's own restarts from ``at`` (seconds since 1970) on."""
        return [restart for restart in self.restarts if restart >= at]

    @property
    def identity(self) -> str:
        """Which start of the program this is: the second in which it started, ``"0"`` if it never did.

        No pid: a runtime remembers when the last instance started, but not its pid, so an instance keeps its
        identity when it ends.
        """
        return str(int(self.since or 0))

    def message(self) -> str:
        """One line for a log or an error."""
        detail = f" ({self.description})" if self.description else ""
        return f"{self.program} is {self.state.value.upper()}{detail}"


# The keys of ``Sample.trouble``: the systems that a look asks.
PROCESS, KAFKA, LAKE = "process", "kafka", "lake"


@dataclass(frozen=True)
class Position(JsonRecord):
    """What ``main`` says of the stream; times in seconds since 1970, offsets per partition.

    ``[starts, ends)`` is published. ``at``: when the newest snapshot of the stream was made, ``batch_at`` the
    newest batch's; ``acquired_at``: when it last changed hands; both None where no such snapshot is kept.
    ``topic_id`` is None where the snapshot does not carry it; ``longest_batch`` (seconds, of the last 20
    batches) where none says when it began.
    """

    epoch: int
    at: float
    acquired_at: float | None
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = None
    longest_batch: float | None = None
    batch_at: float | None = None

    @property
    def records(self) -> int:
        """How many offsets are published."""
        return sum(end - self.starts.get(partition, 0) for partition, end in self.ends.items())


@dataclass(frozen=True)
class Sample(JsonRecord):
    """One look, at ``at`` (the observer's clock, seconds since 1970). What did not answer is None.

    ``errors`` says why, system (PROCESS, KAFKA, LAKE) -> reason. ``published`` is also None, without trouble,
    before the stream's first snapshot, and ``topic_id`` where the broker knows no ids. ``expiring``:
    partition -> the first offset that retention leaves alone for the policy's ``retention_margin_seconds``,
    None where it was not asked or nothing is ever deleted; ``expires_in``: seconds within which the first
    unread record is deleted, where that is sooner. Of the consumer; of another component there are the
    process and ``heartbeat``: the newest of its group, whoever gave it, None before the first.
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
        """The offset with which the stream goes on; where it never read the partition, the topic's first."""
        begin = (self.begins or {}).get(partition, 0)
        return self.published.ends.get(partition, begin) if self.published else begin

    def unread(self) -> dict[int, int]:
        """Partition -> how many offsets of the topic are not published; only those where there are any."""
        waiting = {
            partition: end - self.first_unread(partition) for partition, end in (self.ends or {}).items()
        }
        return {partition: count for partition, count in waiting.items() if count > 0}


def ordered(samples: Sequence[Sample]) -> list[Sample]:
    """The samples whose clock agrees with the last one's, oldest first.

    Where a clock was put back, those before it say later moments than those behind it: they are dropped.
    """
    kept = list(samples[-1:])
    for sample in reversed(samples[:-1]):
        if sample.at < kept[-1].at:
            kept.append(sample)
    return kept[::-1]


def observed(series: Sequence[Sample], cap: float) -> float:
    """For how many seconds the stream was watched, from the first sample to the last."""
    return sum(min(after.at - before.at, cap) for before, after in pairwise(series))


def steps(series: Sequence[Sample], cap: float) -> Iterator[tuple[Sample, Sample]]:
    """Neighbours without a gap between them."""
    return ((before, after) for before, after in pairwise(series) if after.at - before.at <= cap)


def latest(series: Sequence[Sample], seconds: float, cap: float) -> Sequence[Sample]:
    """The shortest tail that was watched for ``seconds``; all where that is not enough."""
    for start in range(len(series) - 1, -1, -1):
        if observed(series[start:], cap) >= seconds:
            return series[start:]
    return series


def arrived(before: Sample, after: Sample) -> int:
    """Records that came onto the topic between two samples; a new partition counts from its begin."""
    begins, ends = after.begins or {}, before.ends or {}
    return sum(
        max(end - ends.get(partition, begins.get(partition, 0)), 0)
        for partition, end in (after.ends or {}).items()
    )


def published(before: Sample, after: Sample) -> int:
    """Records that were published between two samples; none where the table is another one."""
    if after.published is None:
        return 0
    return max(after.published.records - (before.published.records if before.published else 0), 0)


def rates(series: Sequence[Sample], cap: float) -> tuple[float, float] | None:
    """(arriving, published) records per second; None where no two samples are close enough."""
    pairs = list(steps(series, cap))
    seconds = sum(after.at - before.at for before, after in pairs)
    if not pairs or seconds <= 0:
        return None
    came = sum(arrived(*pair) for pair in pairs)
    went = sum(published(*pair) for pair in pairs)
    return came / seconds, went / seconds


def deletion_rate(series: Sequence[Sample], partition: int, least: float) -> float | None:
    """At how many offsets per second the topic's begin advances.

    It advances by whole segments, so it is measured from just behind one advance to just behind another, at
    least ``least`` seconds later; None where there were no two.
    """
    advances = [
        (after.at, (after.begins or {})[partition])
        for before, after in pairwise(series)
        if (after.begins or {}).get(partition, 0) > (before.begins or {}).get(partition, 0)
        and partition in (before.begins or {})
    ]
    if len(advances) < 2 or advances[-1][0] - advances[0][0] < least:
        return None
    (first, begin), (last, end) = advances[0], advances[-1]
    return (end - begin) / (last - first)
