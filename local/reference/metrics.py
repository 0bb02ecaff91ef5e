"""docs/reference.md: the metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from local.reference.blocks import table
from sluice.core.exposition import MetricSpec
from sluice.supervision.checks import check
from sluice.web.metrics import queries, streams

HEAD = ("metric", "type", "labels", "meaning")


def blocks() -> Mapping[str, str]:
    return {
        "metrics of streams": _table(streams.METRICS),
        "metrics of queries": _table(queries.METRICS),
        "metrics of checks": _table(check.METRICS),
    }


def _table(metrics: Iterable[MetricSpec]) -> str:
    rows = [
        [
            f"`{spec.exposed_name}`",
            "counter" if spec.is_counter else "gauge",
            ", ".join(f"`{label}`" for label in spec.labels) or "–",
            spec.help,
        ]
        for spec in metrics
    ]
    return table(HEAD, rows)
