"""Metrics of streams and their components for Prometheus; those of queries are in queries/prometheus.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.config.stream import CONSUMER
from sluice.core.batches import Batch
from sluice.core.json_record import Document
from sluice.supervision.observer.live import Live, LoadResult, seconds_behind
from sluice.supervision.rules.status import Health


@dataclass(frozen=True)
class Gauge:
    """``of``: its value, None if there is none now."""

    name: str
    help: str
    of: Callable[[Live], float | None]
    is_counter: bool = False


def _newest_batch(of: Callable[[Batch], float | None]) -> Callable[[Live], float | None]:
    return lambda live: of(live.batches[0]) if live.batches else None


def _newest_load(of: Callable[[LoadResult], float | None]) -> Callable[[Live], float | None]:
    return lambda live: of(live.loads[0]) if live.loads else None


def _item(document: Document | None, name: str) -> float | None:
    return document[name] if document else None


def _behind(live: Live) -> float | None:
    found = seconds_behind(live.points) if live.lag is not None else None
    return found[0] if found else None


def _to_loss(live: Live) -> float | None:
    return live.sample.expires_in if live.sample and live.lag else None


def _report(of: str) -> Callable[[Live], float | None]:
    return lambda live: getattr(live.report, of) if live.report else None


def _position(of: str) -> Callable[[Live], float | None]:
    return lambda live: (
        float(getattr(live.sample.published, of)) if live.sample and live.sample.published else None
    )


# An observation that is older tells nothing of now.
STALE_SECONDS = 60.0
# Of every component, after ``sluice_component_``.
COMPONENT = (
    Gauge(
        "last_observed_timestamp_seconds",
        "when it was observed last; old if the watch hangs",
        lambda live: live.at,
    ),
    Gauge("health_since_timestamp_seconds", "since when it has its health", lambda live: live.since),
    Gauge("suspended", "1 while a user keeps it stopped", lambda live: float(live.suspended is not None)),
    Gauge(
        "restarts_last_day",
        "restarts of the last 24 hours, requested ones included",
        lambda live: float(len(live.restarts)),
    ),
)
# Of a stream's consumer, after ``sluice_stream_``.
STREAM = (
    Gauge("lag_records", "records of the topic that are not published", lambda live: live.lag),
    Gauge("lag_seconds", "how long the oldest of them waits, at most; of older ones than 3 h: 3 h", _behind),
    Gauge(
        "seconds_to_loss", "until retention deletes the first of them, if that is within the margin", _to_loss
    ),
    Gauge("arrivals_per_second", "records that arrive", _report("arrivals")),
    Gauge("published_per_second", "records that are published", _report("rate")),
    Gauge("writer_epoch", "of the active writer", _position("epoch")),
    Gauge("published_records", "offsets that are published", _position("records"), is_counter=True),
    Gauge("quarantined_records", "of these, records in quarantine", _position("rejected"), is_counter=True),
    Gauge(
        "malformed_records",
        "records that were rejected, and not on purpose",
        _position("malformed"),
        is_counter=True,
    ),
    Gauge(
        "batches",
        "batches published since the API server's start",
        lambda live: float(live.counts.batches),
        is_counter=True,
    ),
    Gauge("batch_rows", "their rows", lambda live: float(live.counts.rows), is_counter=True),
    Gauge(
        "batch_seconds",
        "their seconds, from start to publication",
        lambda live: live.counts.seconds,
        is_counter=True,
    ),
    Gauge(
        "loads_verified",
        "loads verified since then",
        lambda live: float(live.counts.verified),
        is_counter=True,
    ),
    Gauge(
        "loads_not_verified",
        "loads not verified since then",
        lambda live: float(live.counts.not_verified),
        is_counter=True,
    ),
    Gauge(
        "last_load_verified",
        "1 if the newest verification of a load passed",
        _newest_load(lambda load: float(load.is_verified)),
    ),
    Gauge("last_load_timestamp_seconds", "when that ended", _newest_load(lambda load: load.at)),
    Gauge("last_load_verification_seconds", "how long it took", _newest_load(lambda load: load.seconds)),
    Gauge(
        "last_load_records",
        "records that it verified",
        _newest_load(lambda load: load.records),
    ),
    Gauge(
        "last_load_objects",
        "objects in the bucket that the load made",
        _newest_load(lambda load: _item(load.audit, "objects")),
    ),
    Gauge(
        "last_load_versions_per_batch",
        "versions of its costliest batch",
        _newest_load(lambda load: _item(load.audit, "versions_per_batch")),
    ),
    Gauge("last_batch_rows", "rows of the newest batch", _newest_batch(lambda batch: float(batch.rows))),
    Gauge("last_batch_seconds", "its seconds", _newest_batch(lambda batch: batch.seconds)),
    Gauge(
        "last_batch_timestamp_seconds",
        "when it was published",
        _newest_batch(lambda batch: batch.published_at / 1000),
    ),
)

Lives = Mapping[tuple[str, str], Live]


class StreamMetrics(Collector):
    """``lives``: (stream, component) -> what is known at ``now``; values that are not known are left out, not
    zero. ``invalid``: streams whose declaration is refused; ``problems``: number of those of no stream."""

    def __init__(self, lives: Lives, now: float, invalid: Sequence[str] = (), problems: int = 0) -> None:
        self._lives, self._now, self._invalid, self._problems = lives, now, invalid, problems

    def collect(self) -> Iterator[Metric]:
        invalid = GaugeMetricFamily(
            "sluice_stream_invalid", "1 of a stream whose declaration is refused", labels=["stream"]
        )
        for stream in self._invalid:
            invalid.add_metric([stream], 1.0)
        yield invalid
        yield GaugeMetricFamily(
            "sluice_configuration_problems",
            "what is wrong with folders of streams, the overrides, or between streams",
            value=self._problems,
        )
        yield self._health()
        for gauge in COMPONENT:
            yield self._family(
                gauge, "component", {(s, c): live for (s, c), live in self._lives.items() if live.at}
            )
        consumers: dict[tuple[str, ...], Live] = {
            (s,): live for (s, c), live in self._lives.items() if c == CONSUMER and live.at
        }
        for gauge in STREAM:
            yield self._family(gauge, "stream", consumers)

    def _health(self) -> Metric:
        family = GaugeMetricFamily(
            "sluice_component_health",
            "1 for the health that the component has, 0 for the others",
            labels=["stream", "component", "health"],
        )
        for (stream, component), live in self._lives.items():
            if live.report is not None and live.at is not None:
                is_stale = self._now - live.at > STALE_SECONDS
                now = Health.UNKNOWN if is_stale else live.report.health
                for health in Health:
                    value = float(health is now)
                    family.add_metric([stream, component, health.value], value)
        return family

    @staticmethod
    def _family(gauge: Gauge, kind: str, lives: Mapping[tuple[str, ...], Live]) -> Metric:
        labels = ["stream", "component"] if kind == "component" else ["stream"]
        make = CounterMetricFamily if gauge.is_counter else GaugeMetricFamily
        family = make(f"sluice_{kind}_{gauge.name}", gauge.help, labels=labels)
        for names, live in lives.items():
            value = gauge.of(live)
            if value is not None:
                family.add_metric(list(names), value)
        return family
