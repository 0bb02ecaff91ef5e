"""Progress of a running query: records of topic ``sluice-progress`` with the key ``<stream>/<query>``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from sluice.core.json_record import parse_json

# Seconds between reports of a running query, however long its batches or pauses are.
ACTIVITY_SECONDS = 120.0
# A query without a report for this long is down or stuck, or cannot write to the topic.
SILENT_SECONDS = ACTIVITY_SECONDS + 60.0
# Spark's name of the whole batch, among its phases.
_WHOLE = "triggerExecution"
# Name of the rows that a query observes because Spark does not count them, and of their number.
LEFT_OUT, EARLY_ROWS = "left_out", "early_rows"


class ActivityKind(StrEnum):
    STARTED = "started"
    # Nothing new in its source.
    IDLE = "idle"
    # Its process lives, and a batch has not ended yet.
    WORKING = "working"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StateMetrics:
    """State of all operators of a query; ``updated`` and ``removed``: rows, by the batch."""

    rows: int
    updated: int
    removed: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class OffsetLag:
    """Unread offsets of a Kafka source when the batch was planned, over its partitions."""

    least: float
    most: float
    mean: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums since the start of the query's run, ``since`` (seconds since 1970): number of ``batches``;
    ``rows``, ``late`` and ``early`` ones as of Progress."""

    since: float
    batches: int = 0
    rows: int = 0
    late: int = 0
    early: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch of a query. None: Spark gives none, as for a first batch, or a source without offsets."""

    query: str
    """Its name in the declaration."""
    run: str
    """Spark's id of the query's run, another one after each start."""
    batch: int
    """Spark's number of the batch."""
    at: float
    """Start, in seconds since 1970."""
    seconds: float
    """Duration."""
    rows: int
    """Number of rows that were read, early ones too."""
    totals: Totals
    """Sums of the run, this batch included."""
    late: int = 0
    """Number of rows that were dropped."""
    early: int = 0
    """Number of rows that were left out."""
    input_rate: float | None = None
    """Rows per second since the start of the previous batch."""
    processed_rate: float | None = None
    """Rows per second over this batch's duration."""
    phases: dict[str, float] = field(default_factory=dict)
    """Spark's name of a step -> seconds, which need not add up."""
    state: StateMetrics | None = None
    """After the batch; None for a query without state."""
    watermark: float | None = None
    """Seconds since 1970; None until the first event has come."""
    behind: OffsetLag | None = None
    """When the batch was planned."""

    @property
    def ended(self) -> float:
        return self.at + self.seconds

    @property
    def watermark_lag(self) -> float | None:
        """Seconds from the watermark to the start of the batch."""
        return None if self.watermark is None else self.at - self.watermark


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """A change in a ``query``'s ``run`` other than a batch, ``at`` seconds since 1970. ``kind``: an
    ActivityKind. ``detail``: reason of a failed end, else empty."""

    query: str
    run: str
    at: float
    kind: str
    detail: str = ""


Entry = Progress | ActivityEvent


def moment_of(entry: Entry) -> float:
    """Seconds since 1970; of a batch its end."""
    return entry.ended if isinstance(entry, Progress) else entry.at


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """A query's newest batch and activity event, and its recent ``batches``, earliest first."""

    query: str
    progress: Progress | None
    activity: ActivityEvent | None
    batches: tuple[Progress, ...] = ()

    @property
    def newest(self) -> Entry | None:
        both = [entry for entry in (self.activity, self.progress) if entry is not None]
        return max(both, key=moment_of, default=None)

    @property
    def at(self) -> float | None:
        return moment_of(self.newest) if self.newest else None

    @property
    def is_ended(self) -> bool:
        return isinstance(self.newest, ActivityEvent) and self.newest.kind == ActivityKind.ENDED


def history(query: str, entries: Iterable[Entry], since: float) -> QueryHistory:
    """Return what ``entries`` (in any order) say; ``batches`` ended from ``since`` on, each once."""
    batches: dict[tuple[str, int], Progress] = {}
    activity: ActivityEvent | None = None
    for entry in entries:
        if isinstance(entry, Progress):
            batches[entry.run, entry.batch] = entry
        elif activity is None or entry.at >= activity.at:
            activity = entry
    ordered = sorted(batches.values(), key=moment_of)
    recent = tuple(batch for batch in ordered if batch.ended >= since)
    return QueryHistory(query, ordered[-1] if ordered else None, activity, recent)


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """Stream -> queries. If not ``complete``, queries without recent activity come with the next reads.
    ``malformed``: a message on skipped records, or empty."""

    queries: Mapping[str, tuple[QueryHistory, ...]]
    complete: bool = True
    malformed: str = ""


def record_key(stream: str, query: str) -> str:
    return f"{stream}/{query}"


def stream_of(key: str) -> str:
    """The stream out of a record's key; a stream's name has no slash."""
    return key.partition("/")[0]


def to_json(entry: Entry) -> str:
    """A record's value; fields without a value are left out."""
    present = {name: value for name, value in asdict(entry).items() if value not in (None, "", {})}
    return json.dumps(present, separators=(",", ":"), allow_nan=False)


def from_json(value: str | bytes) -> Entry:
    """Parse a record's value. Raises ValueError naming the key."""
    entry: Entry = parse_json(cast("Any", Entry), value)
    return entry


def parse(data: Mapping[str, Any], query: str, before: Totals) -> Progress:
    """Parse Spark's StreamingQueryProgress; ``before``: the run's sums until then. Raises KeyError or
    ValueError for other JSON."""
    durations = {name: milliseconds / 1000 for name, milliseconds in data.get("durationMs", {}).items()}
    whole = durations.pop(_WHOLE, None)
    operators = data.get("stateOperators", [])
    rows = int(data["numInputRows"])
    late = sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in operators)
    early = int(data.get("observedMetrics", {}).get(LEFT_OUT, {}).get(EARLY_ROWS, 0))
    return Progress(
        query=query,
        run=str(data["runId"]),
        batch=int(data["batchId"]),
        at=_seconds(data["timestamp"]),
        seconds=data["batchDuration"] / 1000 if whole is None else whole,
        rows=rows,
        totals=Totals(
            before.since, before.batches + 1, before.rows + rows, before.late + late, before.early + early
        ),
        late=late,
        early=early,
        input_rate=data.get("inputRowsPerSecond"),
        processed_rate=data.get("processedRowsPerSecond"),
        phases=durations,
        state=_state(operators),
        watermark=_watermark(data.get("eventTime", {})),
        behind=_behind(data.get("sources", [])),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _state(operators: list[dict[str, Any]]) -> StateMetrics | None:
    if not operators:
        return None

    def total(key: str) -> int:
        return sum(int(operator.get(key, 0)) for operator in operators)

    return StateMetrics(
        total("numRowsTotal"), total("numRowsUpdated"), total("numRowsRemoved"), total("memoryUsedBytes")
    )


def _watermark(event_time: Mapping[str, str]) -> float | None:
    """Spark says 1970 until the first event has come."""
    text = event_time.get("watermark")
    return (_seconds(text) if text else 0.0) or None


def _behind(sources: list[dict[str, Any]]) -> OffsetLag | None:
    metrics = [
        source["metrics"] for source in sources if "maxOffsetsBehindLatest" in (source.get("metrics") or {})
    ]
    if not metrics:
        return None
    return OffsetLag(
        least=min(float(found["minOffsetsBehindLatest"]) for found in metrics),
        most=max(float(found["maxOffsetsBehindLatest"]) for found in metrics),
        mean=sum(float(found["avgOffsetsBehindLatest"]) for found in metrics) / len(metrics),
    )
