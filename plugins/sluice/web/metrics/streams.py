"""Metrics of streams and their components for Prometheus; ``queries`` has those of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.config.stream import CONSUMER
from sluice.core.exposition import MetricSpec
from sluice.core.json_record import Document
from sluice.core.tables.batches import Batch
from sluice.supervision.observer.live import Live, LoadResult
from sluice.supervision.rules.status import Health

Value = Callable[[Live], float | None]


@dataclass(frozen=True)
class LiveMetric:
    """``of``: its value, None if there is none now."""

    spec: MetricSpec
    of: Value


def _component(name: str, text: str, of: Value) -> LiveMetric:
    return LiveMetric(MetricSpec(f"sluice_component_{name}", text, ("stream", "component")), of)


def _stream(name: str, text: str, of: Value) -> LiveMetric:
    return LiveMetric(MetricSpec(f"sluice_stream_{name}", text, ("stream",)), of)


def _counter(name: str, text: str, of: Value) -> LiveMetric:
    return LiveMetric(MetricSpec(f"sluice_stream_{name}", text, ("stream",), is_counter=True), of)


def _newest_batch(of: Callable[[Batch], float | None]) -> Value:
    return lambda live: of(live.batches[0]) if live.batches else None


def _newest_load(of: Callable[[LoadResult], float | None]) -> Value:
    return lambda live: of(live.loads[0]) if live.loads else None


def _item(document: Document | None, name: str) -> float | None:
    return document[name] if document else None


def _behind(live: Live) -> float | None:
    return live.behind[0] if live.behind else None


def _to_loss(live: Live) -> float | None:
    return live.sample.expires_in if live.sample and live.lag else None


def _report(of: str) -> Value:
    return lambda live: getattr(live.report, of) if live.report else None


def _position(of: str) -> Value:
    return lambda live: (
        float(getattr(live.sample.published, of)) if live.sample and live.sample.published else None
    )


# An observation that is older tells nothing of now.
STALE_SECONDS = 60.0
INVALID = MetricSpec(
    "sluice_stream_invalid", "1 of a stream whose `stream.toml` is refused; else missing", ("stream",)
)
PROBLEMS = MetricSpec(
    "sluice_configuration_problems",
    "number of things wrong with folders of streams, the overrides, or between streams; the DAG "
    "`sluice_configuration` names them",
)
HEALTH = MetricSpec(
    "sluice_component_health",
    "1 for the health that the component has, 0 for the others",
    ("stream", "component", "health"),
)
# Metrics of every component.
COMPONENT = (
    _component(
        "last_observed_timestamp_seconds",
        "its newest observation. `time() - …` above 60: the observer hangs or is gone; alert",
        lambda live: live.at,
    ),
    _component("health_since_timestamp_seconds", "since when it has its health", lambda live: live.since),
    _component("suspended", "1 while a user suspends it", lambda live: float(live.suspended is not None)),
    _component(
        "restarts_last_day",
        "restarts of the last 24 hours, requested ones included",
        lambda live: float(len(live.restarts)),
    ),
)
# Metrics of a stream's consumer.
STREAM = (
    _stream("lag_records", "records of the topic that are not published", lambda live: live.lag),
    _stream(
        "lag_seconds",
        "how long the oldest unpublished record waits at most; 3 hours if longer than the observer remembers",
        _behind,
    ),
    _stream(
        "seconds_to_loss",
        "until retention deletes an unread record; only within `retention_margin_seconds`",
        _to_loss,
    ),
    _stream("arrivals_per_second", "records that arrive, over `lag_window_seconds`", _report("arrivals")),
    _stream("published_per_second", "records published, over `lag_window_seconds`", _report("rate")),
    _stream("writer_epoch", "epoch of the active writer", _position("epoch")),
    _counter("published_records", "published offsets", _position("records")),
    _counter("quarantined_records", "published offsets that are in quarantine", _position("rejected")),
    _counter(
        "malformed_records",
        "records that batches rejected, without duplicates and withheld ones; only grows",
        _position("malformed"),
    ),
    _counter(
        "batches",
        "batches published since the observer's start: use `rate()`",
        lambda live: float(live.counts.batches),
    ),
    _counter("batch_rows", "rows of these batches", lambda live: float(live.counts.rows)),
    _counter(
        "batch_seconds",
        "seconds of these batches, from start to publication",
        lambda live: live.counts.seconds,
    ),
    _counter(
        "loads_verified",
        "loads verified since the observer's start",
        lambda live: float(live.counts.verified),
    ),
    _counter(
        "loads_not_verified",
        "loads whose verification failed since the observer's start",
        lambda live: float(live.counts.not_verified),
    ),
    _stream(
        "last_load_verified",
        "1 if the newest verification of a load passed",
        _newest_load(lambda load: float(load.is_verified)),
    ),
    _stream(
        "last_load_timestamp_seconds",
        "end of the newest verification of a load",
        _newest_load(lambda load: load.at),
    ),
    _stream(
        "last_load_verification_seconds",
        "how long the newest verification of a load took",
        _newest_load(lambda load: load.seconds),
    ),
    _stream(
        "last_load_records",
        "records of the newest verification of a load",
        _newest_load(lambda load: load.records),
    ),
    _stream(
        "last_load_objects",
        "objects in the bucket that the newest load made, once its audit passed",
        _newest_load(lambda load: _item(load.audit, "objects")),
    ),
    _stream(
        "last_load_versions_per_batch",
        "versions of the newest load's costliest batch, once its audit passed",
        _newest_load(lambda load: _item(load.audit, "versions_per_batch")),
    ),
    _stream("last_batch_rows", "rows of the newest batch", _newest_batch(lambda batch: float(batch.rows))),
    _stream("last_batch_seconds", "duration of the newest batch", _newest_batch(lambda batch: batch.seconds)),
    _stream(
        "last_batch_timestamp_seconds",
        "when the newest batch was published",
        _newest_batch(lambda batch: batch.published_at / 1000),
    ),
)
METRICS = (HEALTH, *(metric.spec for metric in (*COMPONENT, *STREAM)), INVALID, PROBLEMS)

Lives = Mapping[tuple[str, str], Live]


class StreamMetrics(Collector):
    """``lives``: (stream, component) -> what is known at ``now``; values that are not known are left out, not
    zero. ``invalid``: streams whose declaration is refused; ``problems``: number of those of no stream."""

    def __init__(self, lives: Lives, now: float, invalid: Sequence[str] = (), problems: int = 0) -> None:
        self._lives, self._now, self._invalid, self._problems = lives, now, invalid, problems

    def collect(self) -> Iterator[Metric]:
        invalid = INVALID.family()
        for stream in self._invalid:
            invalid.add_metric([stream], 1.0)
        yield invalid
        problems = PROBLEMS.family()
        problems.add_metric([], self._problems)
        yield problems
        yield self._health()
        for metric in COMPONENT:
            yield _family(metric, {(s, c): live for (s, c), live in self._lives.items() if live.at})
        consumers: dict[tuple[str, ...], Live] = {
            (s,): live for (s, c), live in self._lives.items() if c == CONSUMER and live.at
        }
        for metric in STREAM:
            yield _family(metric, consumers)

    def _health(self) -> Metric:
        family = HEALTH.family()
        for (stream, component), live in self._lives.items():
            if live.report is not None and live.at is not None:
                is_stale = self._now - live.at > STALE_SECONDS
                now = Health.UNKNOWN if is_stale else live.report.health
                for health in Health:
                    value = float(health is now)
                    family.add_metric([stream, component, health.value], value)
        return family


def _family(metric: LiveMetric, lives: Mapping[tuple[str, ...], Live]) -> Metric:
    family = metric.spec.family()
    for names, live in lives.items():
        value = metric.of(live)
        if value is not None:
            family.add_metric(list(names), value)
    return family
