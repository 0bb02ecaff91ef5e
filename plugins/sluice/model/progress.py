"""What a running query says of itself: a batch as Spark's listener reports it, and signs of life between.

Both are kept as lines (:mod:`sluice.model.progress_lines`), so that they outlive the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

# A running query gives a sign so often, in seconds, however long its batches take or its topic rests.
SIGN_SECONDS = 120.0
# So often its lines are written, in seconds: a driver that dies takes those since then along.
WRITE_SECONDS = 30.0
# After so many seconds without a sign nothing can be said for it: it is dead, hangs, or cannot write.
SILENT_SECONDS = SIGN_SECONDS + 2 * WRITE_SECONDS
# What Spark calls the whole of a batch, among the parts of it.
_WHOLE = "triggerExecution"


class Kind(StrEnum):
    """What a sign says."""

    STARTED = "started"
    # Nothing new in its source.
    IDLE = "idle"
    # Its process lives, and a batch has not ended yet.
    WORKING = "working"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class State:
    """What a query keeps between batches, over all its operators: rows in all, those that the batch updated
    and removed, and bytes of memory."""

    rows: int
    updated: int
    removed: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Behind:
    """Offsets of a Kafka source that were there and not read when the batch was planned: in the partition
    with the fewest, in the one with the most, and on average over the partitions."""

    least: float
    most: float
    mean: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums since this run of the query began, at ``since`` (seconds since 1970): they only grow, and begin
    anew with the next run."""

    since: float
    batches: int = 0
    rows: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch of a query's ``run``. Moments in seconds since 1970, durations in seconds.

    It began ``at`` and took ``seconds``; ``parts``: Spark's name of a step -> its seconds (they need not add
    up to the whole). Rates are rows per second: ``input_rate`` since the batch before began,
    ``processed_rate`` over this one's duration; None where Spark gives none, as for a first or empty batch.
    ``late`` rows were dropped because the watermark had passed them. ``state`` is None for a query that keeps
    none, ``watermark`` before there is one, ``behind`` for a source that has no offsets to be behind.
    """

    query: str
    run: str
    batch: int
    at: float
    seconds: float
    rows: int
    totals: Totals
    late: int = 0
    input_rate: float | None = None
    processed_rate: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    state: State | None = None
    watermark: float | None = None
    behind: Behind | None = None

    @property
    def ended(self) -> float:
        return self.at + self.seconds

    @property
    def watermark_lag(self) -> float | None:
        """Seconds from the watermark to the moment when the batch began."""
        return None if self.watermark is None else self.at - self.watermark


@dataclass(frozen=True, slots=True)
class Sign:
    """What is known of a query's ``run`` besides its batches. ``detail``: of an end, why; else empty."""

    query: str
    run: str
    at: float
    kind: str
    detail: str = ""


Entry = Progress | Sign


def moment_of(entry: Entry) -> float:
    """When it was known, in seconds since 1970: a batch, when it ended."""
    return entry.ended if isinstance(entry, Progress) else entry.at


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest batch of a query, None before the first, and its newest sign, None where there is none."""

    query: str
    progress: Progress | None
    sign: Sign | None

    @property
    def newest(self) -> Entry | None:
        """The newer of both; of one moment, the sign."""
        both = [entry for entry in (self.sign, self.progress) if entry is not None]
        return max(both, key=moment_of, default=None)

    @property
    def at(self) -> float | None:
        return moment_of(self.newest) if self.newest else None

    @property
    def is_ended(self) -> bool:
        """Whether the last that is known of it is its end."""
        return isinstance(self.newest, Sign) and self.newest.kind == Kind.ENDED


def latest(query: str, entries: Iterable[Entry]) -> Latest:
    """The newest of each; of one moment, what was written later."""
    progress: Progress | None = None
    sign: Sign | None = None
    for entry in entries:
        if isinstance(entry, Progress):
            if progress is None or entry.ended >= progress.ended:
                progress = entry
        elif sign is None or entry.at >= sign.at:
            sign = entry
    return Latest(query, progress, sign)


def parse(data: Mapping[str, Any], query: str, before: Totals) -> Progress:
    """A batch out of Spark's StreamingQueryProgress as JSON; ``before``: the run's sums until then.

    Raises KeyError or ValueError for what is no such JSON.
    """
    durations = {name: milliseconds / 1000 for name, milliseconds in data.get("durationMs", {}).items()}
    whole = durations.pop(_WHOLE, None)
    operators = data.get("stateOperators", [])
    rows = int(data["numInputRows"])
    late = sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators)
    return Progress(
        query=query,
        run=str(data["runId"]),
        batch=int(data["batchId"]),
        at=_seconds(data["timestamp"]),
        seconds=data["batchDuration"] / 1000 if whole is None else whole,
        rows=rows,
        totals=Totals(before.since, before.batches + 1, before.rows + rows, before.late + late),
        late=late,
        input_rate=data.get("inputRowsPerSecond"),
        processed_rate=data.get("processedRowsPerSecond"),
        parts=durations,
        state=_state(operators),
        watermark=_watermark(data.get("eventTime", {})),
        behind=_behind(data.get("sources", [])),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _state(operators: list[dict[str, Any]]) -> State | None:
    if not operators:
        return None

    def total(key: str) -> int:
        return sum(int(operator.get(key, 0)) for operator in operators)

    return State(
        total("numRowsTotal"), total("numRowsUpdated"), total("numRowsRemoved"), total("memoryUsedBytes")
    )


def _watermark(event_time: Mapping[str, str]) -> float | None:
    """Spark says 1970 until the first event has come."""
    text = event_time.get("watermark")
    return (_seconds(text) if text else 0.0) or None


def _behind(sources: list[dict[str, Any]]) -> Behind | None:
    metrics = [
        source["metrics"] for source in sources if "maxOffsetsBehindLatest" in (source.get("metrics") or {})
    ]
    if not metrics:
        return None
    return Behind(
        least=min(float(found["minOffsetsBehindLatest"]) for found in metrics),
        most=max(float(found["maxOffsetsBehindLatest"]) for found in metrics),
        mean=sum(float(found["avgOffsetsBehindLatest"]) for found in metrics) / len(metrics),
    )
