"""The metrics of streams and components: names, values, and what is left out because it is unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.core.exposition import exposition
from sluice.supervision.checks import check
from sluice.supervision.checks.check import CheckMetrics
from sluice.supervision.observer.live import Counts, Live
from sluice.supervision.rules.status import Health
from sluice.web.metrics import queries
from sluice.web.metrics import streams as metrics
from sluice.web.metrics.queries import QueryMetrics
from sluice.web.metrics.streams import StreamMetrics
from tests.support import observed
from tests.support.pages import spec

LABELS = ("stream", "component", "health")
NOW = 1_767_268_800.0
SPEC = spec()
DASHBOARD = Path(__file__).resolve().parents[4] / "docs" / "grafana.json"


def values(lives: dict[tuple[str, str], Live], *invalid: str) -> dict[tuple[str, ...], float]:
    text = exposition(StreamMetrics(lives, NOW, invalid)).decode()
    return {
        (sample.name.removeprefix("sluice_"), *(sample.labels[k] for k in LABELS if k in sample.labels)): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_of_a_stream_that_works() -> None:
    counts = Counts(7, 700, 14.0, 2, 1)
    found = values({("s", "consumer"): observed.consumer(SPEC, NOW, counts=counts, restarts=[NOW - 5])})
    expected = {
        "stream_lag_records": 120,
        "stream_lag_seconds": 30,
        "stream_arrivals_per_second": 10,
        "stream_published_per_second": 10,
        "stream_writer_epoch": 3,
        "stream_published_records_total": 11_880,
        "stream_quarantined_records_total": 0,
        "stream_malformed_records_total": 0,
        "stream_batches_total": 7,
        "stream_batch_rows_total": 700,
        "stream_batch_seconds_total": 14,
        "stream_loads_verified_total": 2,
        "stream_loads_not_verified_total": 1,
        "stream_last_load_verified": 1,
        "stream_last_load_timestamp_seconds": NOW - 3600,
        "stream_last_load_verification_seconds": 4.2,
        "stream_last_load_records": 29_999,
        "stream_last_load_objects": 9,
        "stream_last_load_versions_per_batch": 7,
        "stream_last_batch_rows": 100,
        "stream_last_batch_seconds": 2,
        "stream_last_batch_timestamp_seconds": NOW - 4,
    }
    assert {name: found[name, "s"] for name in expected} == expected
    expected = {
        "component_last_observed_timestamp_seconds": NOW,
        "component_health_since_timestamp_seconds": NOW - 4000,
        "component_suspended": 0,
        "component_restarts_last_day": 1,
    }
    assert {name: found[name, "s", "consumer"] for name in expected} == expected
    # Nothing is lost within the margin.
    assert ("stream_seconds_to_loss", "s") not in found


def test_of_its_health_one_is_1() -> None:
    lives = {("s", "queries"): observed.component(SPEC, "queries", NOW, Health.STALLED)}
    found = values(lives)
    health = {key[3]: value for key, value in found.items() if key[0] == "component_health"}
    assert {word for word, value in health.items() if value == 1} == {"stalled"}
    assert set(health) == set(Health)
    assert not [key for key in found if key[0].startswith("stream_")], "no topic is a component's"


def test_a_health_of_long_ago_is_none_of_now() -> None:
    lives = {("s", "queries"): observed.component(SPEC, "queries", NOW - 61, Health.IDLE)}
    found = values(lives)
    health = {key[3]: value for key, value in found.items() if key[0] == "component_health"}
    assert {word for word, value in health.items() if value == 1} == {"unknown"}


def test_what_is_not_known_is_left_out() -> None:
    known = observed.consumer(SPEC, NOW, batches=[], points=[])
    found = values({("s", "consumer"): known, ("t", "consumer"): Live()}, "broken")
    assert ("stream_lag_records", "s") not in found
    assert ("stream_last_batch_rows", "s") not in found
    assert not [key for key in found if "t" in key[1:]]
    assert found["stream_invalid", "broken"] == 1


def test_what_is_wrong_with_no_stream_is_no_stream() -> None:
    text = exposition(StreamMetrics({}, NOW, ["broken"], 2)).decode()
    assert "sluice_configuration_problems 2.0" in text
    assert text.count("sluice_stream_invalid{") == 1


def test_batches_are_counted_once() -> None:
    first, second = [observed.batch(1, NOW)], [observed.batch(2, NOW + 5), observed.batch(1, NOW)]
    counts = Counts().with_batches([], first)
    assert counts == Counts(), "those before the observer began are not counted"
    counts = counts.with_batches(first, second).with_batches(second, second)
    assert counts == Counts(1, 100, 2.0)


# The dashboard.


DECLARED = (*metrics.METRICS, *queries.METRICS, *check.METRICS)


def names() -> set[str]:
    """Every name that a scrape may have."""
    return {spec.exposed_name for spec in DECLARED}


def test_every_metric_is_declared_once() -> None:
    collected = (StreamMetrics({}, NOW), QueryMetrics({}), CheckMetrics([]))
    families = [family for collector in collected for family in collector.collect()]
    assert sorted(family.name for family in families) == sorted(spec.name for spec in DECLARED)
    assert len(names()) == len(DECLARED)


def panels() -> list[dict[str, Any]]:
    found = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def test_the_dashboard_names_metrics_that_there_are() -> None:
    used = {
        name
        for panel in panels()
        for target in panel["targets"]
        for name in re.findall(r"\b(?:sluice|minio)_[a-z_0-9]+", target["expr"])
    }
    # MinIO's own, of the calls to the bucket.
    assert {name for name in used if name.startswith("sluice_")} <= names()
    assert {name for name in used if name.startswith("minio_")} == {"minio_s3_requests_total"}
    health = "health", "lag_records", "lag_seconds", "seconds_to_loss", "batch_seconds", "restarts"
    for wanted in (*health, "quarantined", "malformed", "last_check"):
        assert [name for name in used if wanted in name], wanted


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: str(panel["title"]))
def test_a_panel_can_be_imported(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    assert {"h", "w", "x", "y"} == set(panel["gridPos"])
    assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for target in panel["targets"]:
        assert target["expr"].count("(") == target["expr"].count(")")
        assert 'stream=~"$stream"' in target["expr"] or "minio_" in target["expr"]
