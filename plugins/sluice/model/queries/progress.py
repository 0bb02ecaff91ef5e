"""Progress of a running query: batches as Spark's listener reports them, and activity events in between.

Each is a record of topic ``sluice-progress``: JSON, with the key ``<stream>/<query>``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

from sluice.model.json_record import parse_json

# A running query reports activity at this interval, in seconds, however long its batches or pauses are.
ACTIVITY_SECONDS = 120.0
# A query without activity for this long, in seconds, is down or stuck, or cannot write to the topic.
SILENT_SECONDS = ACTIVITY_SECONDS + 60.0
# What Spark calls the whole of a batch, among the parts of it.
_WHOLE = "triggerExecution"


class ActivityKind(StrEnum):
    """Kinds of activity events."""

    STARTED = "started"
    # Nothing new in its source.
    IDLE = "idle"
    # Its process lives, and a batch has not ended yet.
    WORKING = "working"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class StateMetrics:
    """What a query keeps between batches, over all its operators: rows in all, those that the batch updated
    and removed, and bytes of memory."""

    rows: int
    updated: int
    removed: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class OffsetLag:
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

    It began ``at`` and took ``seconds``; ``phases``: Spark's name of a step -> its seconds (they need not add
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
    phases: dict[str, float] = field(default_factory=dict)
    state: StateMetrics | None = None
    watermark: float | None = None
    behind: OffsetLag | None = None

    @property
    def ended(self) -> float:
        return self.at + self.seconds

    @property
    def watermark_lag(self) -> float | None:
        """Seconds from the watermark to the moment when the batch began."""
        return None if self.watermark is None else self.at - self.watermark


@dataclass(frozen=True, slots=True)
class ActivityEvent:
    """A change in a query's ``run`` other than a batch. ``detail``: reason of a failed end, else empty."""

    query: str
    run: str
    at: float
    kind: str
    detail: str = ""


Entry = Progress | ActivityEvent


def moment_of(entry: Entry) -> float:
    """When it was known, in seconds since 1970: the end of a batch."""
    return entry.ended if isinstance(entry, Progress) else entry.at


@dataclass(frozen=True, slots=True)
class QueryHistory:
    """A query's newest batch and activity event, None if there is none, and its recent ``batches``, the
    earliest first."""

    query: str
    progress: Progress | None
    activity: ActivityEvent | None
    batches: tuple[Progress, ...] = ()

    @property
    def newest(self) -> Entry | None:
        """The newer of both; of one moment, the activity event."""
        both = [entry for entry in (self.activity, self.progress) if entry is not None]
        return max(both, key=moment_of, default=None)

    @property
    def at(self) -> float | None:
        return moment_of(self.newest) if self.newest else None

    @property
    def is_ended(self) -> bool:
        """Whether its newest entry is its end."""
        return isinstance(self.newest, ActivityEvent) and self.newest.kind == ActivityKind.ENDED


def history(query: str, entries: Iterable[Entry], since: float) -> QueryHistory:
    """A query's ``entries``, in any order, with the batches that ended from ``since`` on; a batch that the
    topic holds twice counts once."""
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
    """Every stream's queries, by name.

    Not ``complete``: queries without recent activity may be missing, they come with the next reads.
    ``malformed``: a message on records that were skipped, empty if there are none.
    """

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
