"""Running queries as metrics in Prometheus' text format: what their newest batches say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.model.queries.progress import Progress, QueryHistory

LABELS = ("stream", "query")
# Beside Spark's names of its parts, the duration of the whole batch.
WHOLE = "total"


def exposition(streams: Mapping[str, Iterable[QueryHistory] | None], now: float) -> bytes:
    """The text. ``streams``: a stream -> its queries, or None where they cannot be read; ``now``: seconds
    since 1970. A figure that a query does not have is left out, and no zero."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Queries(streams, now))
    return generate_latest(registry)


class _Queries(Collector):
    def __init__(self, streams: Mapping[str, Iterable[QueryHistory] | None], now: float) -> None:
        self._readable = {stream: found is not None for stream, found in streams.items()}
        self._queries = [(stream, query) for stream, found in streams.items() for query in found or ()]
        self._now = now

    def collect(self) -> Iterator[Metric]:
        readable = GaugeMetricFamily(
            "sluice_progress_readable",
            "1 where the progress of a stream's queries could be read, 0 where its figures are missing here",
            labels=["stream"],
        )
        for stream, is_readable in self._readable.items():
            readable.add_metric([stream], float(is_readable))
        yield readable
        yield from self._signs()
        families = _families()
        for stream, query in self._queries:
            if query.progress is not None:
                _fill(families, [stream, query.query], query.progress)
        yield from families.values()

    def _signs(self) -> Iterator[Metric]:
        running = _gauge("running", "1 while its end was not reported; a killed driver reports none")
        sign = _gauge(
            "sign_age_seconds", "since the newest batch or sign of life: large where the driver died"
        )
        batch = _gauge("progress_age_seconds", "since the newest batch ended: also large where nothing comes")
        for stream, query in self._queries:
            labels = [stream, query.query]
            if query.at is not None:
                running.add_metric(labels, float(not query.is_ended))
                sign.add_metric(labels, max(self._now - query.at, 0.0))
            if query.progress is not None:
                batch.add_metric(labels, max(self._now - query.progress.ended, 0.0))
        yield from (running, sign, batch)


def _families() -> dict[str, Metric]:
    """All of them, for a query's newest batch. Sums are counters since the query's run began."""
    return {
        "batches": _counter("batches", "batches"),
        "input_rows": _counter("input_rows", "rows read"),
        "late_rows": _counter("late_rows_dropped", "rows dropped because the watermark had passed them"),
        "batch_rows": _gauge("batch_input_rows", "rows of the newest batch"),
        "input_rate": _gauge("input_rows_per_second", "rows of the newest batch over the time they came in"),
        "processed_rate": _gauge("processed_rows_per_second", "rows of the newest batch over its duration"),
        "duration": _gauge(
            "batch_duration_seconds", f"of the newest batch: of a part, and of all as part {WHOLE!r}", "part"
        ),
        "state_rows": _gauge("state_rows", "rows kept between batches"),
        "state_updated": _gauge("state_updated_rows", "rows of the state that the newest batch changed"),
        "state_removed": _gauge("state_removed_rows", "rows of the state that the newest batch removed"),
        "state_memory": _gauge("state_memory_bytes", "memory of what is kept between batches"),
        "watermark": _gauge("watermark_timestamp_seconds", "the watermark, in seconds since 1970"),
        "behind": _gauge(
            "offsets_behind_latest",
            "offsets that the newest batch left unread: fewest (min), most (max), mean (avg) of a partition",
            "bound",
        ),
    }


def _fill(families: Mapping[str, Metric], labels: list[str], progress: Progress) -> None:
    def add(family: str, value: float | None, *more: str) -> None:
        found = families[family]
        if value is None:
            return
        if isinstance(found, CounterMetricFamily):
            found.add_metric(labels, value, created=progress.totals.since)
        elif isinstance(found, GaugeMetricFamily):
            found.add_metric([*labels, *more], value)

    add("batches", progress.totals.batches)
    add("input_rows", progress.totals.rows)
    add("late_rows", progress.totals.late)
    add("batch_rows", progress.rows)
    add("input_rate", progress.input_rate)
    add("processed_rate", progress.processed_rate)
    add("duration", progress.seconds, WHOLE)
    for part, seconds in progress.phases.items():
        add("duration", seconds, part)
    add("watermark", progress.watermark)
    if progress.state:
        add("state_rows", progress.state.rows)
        add("state_updated", progress.state.updated)
        add("state_removed", progress.state.removed)
        add("state_memory", progress.state.memory_bytes)
    if progress.behind:
        add("behind", progress.behind.least, "min")
        add("behind", progress.behind.most, "max")
        add("behind", progress.behind.mean, "avg")


def _gauge(name: str, what: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"sluice_query_{name}", what, labels=[*LABELS, *more])


def _counter(name: str, what: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"sluice_query_{name}", f"{what}, since the query's run began", labels=LABELS)
