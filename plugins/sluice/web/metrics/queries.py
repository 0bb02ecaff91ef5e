"""Metrics of running queries in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.clients.kafka.query_progress import QueryHistory
from sluice.core.exposition import MetricSpec

Streams = Mapping[str, Iterable[QueryHistory] | None]

# The phase that is the whole batch, beside Spark's names.
WHOLE = "total"


def _counter(name: str, text: str) -> MetricSpec:
    return MetricSpec(f"sluice_query_{name}", text, ("stream", "query"), is_counter=True)


def _gauge(name: str, text: str, *labels: str) -> MetricSpec:
    return MetricSpec(f"sluice_query_{name}", text, ("stream", "query", *labels))


SUCCESS = MetricSpec(
    "sluice_query_progress_scrape_success",
    "1 if the progress of the stream's queries could be read, 0 if their metrics are missing",
    ("stream",),
)
# Name of a value, without a label -> its metric.
COUNTERS = {
    "batches": _counter("batches", "batches since the query's run began: use `rate()`"),
    "input_rows": _counter("input_rows", "rows read since the query's run began"),
    "late_rows_dropped": _counter(
        "late_rows_dropped", "rows dropped as later than the watermark since the query's run began"
    ),
    "early_rows": _counter(
        "early_rows", "rows left out, dated ahead by more than the watermark, since the query's run began"
    ),
}
GAUGES = {
    "up": _gauge(
        "up",
        "0 when its end was reported, which a killed driver does not do: see `last_activity_…` too",
    ),
    "last_activity_timestamp_seconds": _gauge(
        "last_activity_timestamp_seconds", "time of the newest batch or report. `time() - …` above 180: alert"
    ),
    "last_batch_timestamp_seconds": _gauge(
        "last_batch_timestamp_seconds", "end of the newest batch; also old while nothing arrives"
    ),
    "batch_input_rows": _gauge(
        "batch_input_rows", "rows of the newest batch alone: batches between two scrapes are not seen"
    ),
    "input_rows_per_second": _gauge(
        "input_rows_per_second", "rows of the newest batch over the time in which they arrived"
    ),
    "processed_rows_per_second": _gauge(
        "processed_rows_per_second", "rows of the newest batch over its duration"
    ),
    "batch_duration_seconds": _gauge(
        "batch_duration_seconds",
        f"of a phase of the newest batch; phase `{WHOLE}` is the whole, so do not add them up",
        "phase",
    ),
    "state_rows": _gauge("state_rows", "rows of the state, if the query keeps one"),
    "state_updated_rows": _gauge("state_updated_rows", "rows of the state that the newest batch updated"),
    "state_removed_rows": _gauge("state_removed_rows", "rows of the state that the newest batch removed"),
    "state_memory_bytes": _gauge("state_memory_bytes", "memory of the state"),
    "watermark_timestamp_seconds": _gauge("watermark_timestamp_seconds", "its watermark, if it has one"),
    "offset_lag": _gauge(
        "offset_lag",
        "unread offsets when the newest batch was planned: min, max and avg over the partitions of Kafka",
        "stat",
    ),
}
METRICS = (SUCCESS, *COUNTERS.values(), *GAUGES.values())


class QueryMetrics(Collector):
    """``streams``: stream -> its queries, None if they cannot be read. Missing values are left out, not
    zero."""

    def __init__(self, streams: Streams) -> None:
        self._success = {stream: queries is not None for stream, queries in streams.items()}
        self._queries = [(stream, query) for stream, queries in streams.items() for query in queries or ()]

    def collect(self) -> Iterator[Metric]:
        success = SUCCESS.family()
        for stream, is_success in self._success.items():
            success.add_metric([stream], float(is_success))
        yield success
        values = [(stream, query, _values(query)) for stream, query in self._queries]
        for name, spec in COUNTERS.items():
            counter = spec.counter()
            for stream, query, found in values:
                if query.progress is not None:
                    since = query.progress.totals.since
                    counter.add_metric([stream, query.query], found[name] or 0, created=since)
            yield counter
        for name, spec in GAUGES.items():
            gauge = spec.family()
            for stream, query, found in values:
                for key, value in found.items():
                    family, _, label = key.partition(" ")
                    if family == name and value is not None:
                        gauge.add_metric([stream, query.query, *([label] if label else [])], value)
            yield gauge


def _values(query: QueryHistory) -> dict[str, float | None]:
    batch = query.progress
    values: dict[str, float | None] = {
        "up": None if query.at is None else float(not query.is_ended),
        "last_activity_timestamp_seconds": query.at,
    }
    if batch is None:
        return values
    values |= {
        "last_batch_timestamp_seconds": batch.ended,
        "batches": batch.totals.batches,
        "input_rows": batch.totals.rows,
        "late_rows_dropped": batch.totals.late,
        "early_rows": batch.totals.early,
        "batch_input_rows": batch.rows,
        "input_rows_per_second": batch.input_rate,
        "processed_rows_per_second": batch.processed_rate,
        "watermark_timestamp_seconds": batch.watermark,
        f"batch_duration_seconds {WHOLE}": batch.seconds,
    }
    values |= {f"batch_duration_seconds {phase}": seconds for phase, seconds in batch.phases.items()}
    if (state := batch.state) is not None:
        values |= {"state_rows": state.rows, "state_updated_rows": state.updated}
        values |= {"state_removed_rows": state.removed, "state_memory_bytes": state.memory_bytes}
    if (lag := batch.behind) is not None:
        values |= {"offset_lag min": lag.least, "offset_lag max": lag.most, "offset_lag avg": lag.mean}
    return values
