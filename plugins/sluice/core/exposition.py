"""Metrics as they are declared, Prometheus' text format, and the token of a scrape."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class MetricSpec:
    """A metric. ``name``: without the ``_total`` that the format adds to a counter. ``help``: one line, for
    Prometheus and for docs/reference.md."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False

    @property
    def exposed_name(self) -> str:
        return f"{self.name}_total" if self.is_counter else self.name

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        """Without samples."""
        return (
            self.counter() if self.is_counter else GaugeMetricFamily(self.name, self.help, labels=self.labels)
        )

    def counter(self) -> CounterMetricFamily:
        return CounterMetricFamily(self.name, self.help, labels=self.labels)


def is_token(given: str, token: str) -> bool:
    """Whether a scrape has the token. In bytes: compare_digest refuses texts that are not ASCII."""
    return hmac.compare_digest(given.strip().encode(), token.encode())


def exposition(*collectors: Collector) -> bytes:
    """The text of all of them."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return generate_latest(registry)
