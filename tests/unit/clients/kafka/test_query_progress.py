"""Batches as Spark says them, as records, as points of a picture, and as metrics. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sluice.clients.kafka.query_progress import (
    ActivityEvent,
    ActivityKind,
    OffsetLag,
    Progress,
    QueryHistory,
    StateMetrics,
    Totals,
    from_json,
    history,
    moment_of,
    parse,
    record_key,
    stream_of,
    to_json,
)
from sluice.core.exposition import exposition
from sluice.queries.timeseries import slots
from sluice.web.metrics.queries import METRICS, QueryMetrics
from tests.support.raising import raising

# As Spark 4.0.2 wrote it of a windowed count over Kafka on RocksDB; custom metrics left out.
SPARK: dict[str, Any] = {
    "id": "6f7c8c37-2b1e-4d4c-8a77-1f0a25c1d0a1",
    "runId": "a1b2c3d4-0000-0000-0000-000000000001",
    "name": "windows",
    "timestamp": "2026-03-01T12:00:00.250Z",
    "batchId": 7,
    "batchDuration": 1500,
    "numInputRows": 430,
    "inputRowsPerSecond": 43.0,
    "processedRowsPerSecond": 286.7,
    "durationMs": {
        "addBatch": 1300,
        "commitOffsets": 30,
        "getBatch": 0,
        "latestOffset": 10,
        "queryPlanning": 60,
        "triggerExecution": 1500,
        "walCommit": 40,
    },
    "eventTime": {"max": "2026-03-01T11:59:58.000Z", "watermark": "2026-03-01T11:49:50.000Z"},
    "stateOperators": [
        {
            "operatorName": "stateStoreSave",
            "numRowsTotal": 900,
            "numRowsUpdated": 90,
            "numRowsRemoved": 3,
            "numRowsDroppedByWatermark": 5,
            "memoryUsedBytes": 1_000_000,
        },
        {
            "operatorName": "dedupe",
            "numRowsTotal": 100,
            "numRowsUpdated": 10,
            "numRowsRemoved": 0,
            "numRowsDroppedByWatermark": 2,
            "memoryUsedBytes": 500_000,
        },
    ],
    "sources": [
        {
            "description": "KafkaV2[Subscribe[isp-hits]]",
            "startOffset": {"isp-hits": {"0": 1}},
            "metrics": {
                "avgOffsetsBehindLatest": "12.5",
                "maxOffsetsBehindLatest": "20",
                "minOffsetsBehindLatest": "5",
            },
        }
    ],
    "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    "observedMetrics": {"left_out": {"early_rows": 3}},
}
BEGAN = Totals(1_772_366_000.0, 7, 1000, 4, 6)
AT = 1_772_366_400.25


def made(number: int = 0, at: float = AT, seconds: float = 1.0, **of: Any) -> Progress:
    return replace(Progress("q", "r", number, at, seconds, 10, Totals(0.0, 1, 10, 0)), **of)


# Out of Spark's JSON.


def test_a_batch_with_everything() -> None:
    assert parse(SPARK, "windows", BEGAN) == Progress(
        query="windows",
        run="a1b2c3d4-0000-0000-0000-000000000001",
        batch=7,
        at=AT,
        seconds=1.5,
        rows=430,
        totals=Totals(BEGAN.since, 8, 1430, 11, 9),
        late=7,
        early=3,
        input_rate=43.0,
        processed_rate=286.7,
        phases={
            "addBatch": 1.3,
            "commitOffsets": 0.03,
            "getBatch": 0.0,
            "latestOffset": 0.01,
            "queryPlanning": 0.06,
            "walCommit": 0.04,
        },
        state=StateMetrics(1000, 100, 3, 1_500_000),
        watermark=1_772_365_790.0,
        behind=OffsetLag(5.0, 20.0, 12.5),
    )
    assert parse(SPARK, "windows", BEGAN).watermark_lag == pytest.approx(610.25)
    assert parse(SPARK, "windows", BEGAN).ended == AT + 1.5


def test_a_batch_with_nothing_that_may_be_missing() -> None:
    """A first batch over an Iceberg table: no rate, no state, no watermark, no offsets to be behind."""
    keys = ("runId", "timestamp", "batchId", "batchDuration", "numInputRows")
    bare = {key: SPARK[key] for key in keys} | {"name": None}
    for more in (
        {},
        {"eventTime": {}, "stateOperators": [], "sources": [{"description": "iceberg"}]},
        {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "sources": [{"metrics": None}]},
        {"sources": [{"metrics": {}}, {"metrics": {"other": "1"}}]},
    ):
        found = parse({**bare, **more}, "q", Totals(0.0))
        assert (found.seconds, found.phases) == (1.5, {})
        assert (found.input_rate, found.processed_rate, found.state) == (None, None, None)
        assert (found.watermark, found.watermark_lag, found.behind) == (None, None, None)


def test_two_kafka_sources() -> None:
    other = {"metrics": dict.fromkeys(("minOffsetsBehindLatest", "maxOffsetsBehindLatest"), "2")}
    other["metrics"]["avgOffsetsBehindLatest"] = "2.5"
    found = parse({**SPARK, "sources": [*SPARK["sources"], other]}, "q", BEGAN)
    assert found.behind == OffsetLag(2.0, 20.0, 7.5)


@pytest.mark.parametrize("key", ["runId", "timestamp", "batchId", "numInputRows"])
def test_what_is_no_progress(key: str) -> None:
    with raising(KeyError, key):
        parse({name: value for name, value in SPARK.items() if name != key}, "q", BEGAN)


# Which is the newest.


def test_the_newest_of_each_kind() -> None:
    old, new = made(1, 100.0), made(2, 200.0, 5.0)
    idle, ended = (
        ActivityEvent("q", "r", 203.0, ActivityKind.IDLE),
        ActivityEvent("q", "r", 205.0, ActivityKind.ENDED, "reason"),
    )
    empty = history("q", [], 0.0)
    assert empty == QueryHistory("q", None, None)
    assert (empty.at, empty.newest, empty.is_ended) == (None, None, False)
    # In any order, and each batch once.
    assert history("q", [new, old, idle, new], 0.0) == QueryHistory("q", new, idle, (old, new))
    # A batch is known when it has ended.
    assert history("q", [old, new, idle], 0.0).newest is new
    assert history("q", [old, new, idle], 0.0).at == moment_of(new) == 205.0
    # The newest batch is known however old it is; the others are needed for the pictures only.
    assert history("q", [old, new], 205.0).batches == (new,)
    assert history("q", [old, new], 300.0) == QueryHistory("q", new, None)
    # If both are of one moment, the activity is newer: a query ends after its batch.
    assert history("q", [new, ended], 0.0).is_ended
    assert not history("q", [ended, made(3, 300.0)], 0.0).is_ended
    again = ActivityEvent("q", "r2", 205.0, ActivityKind.STARTED)
    assert history("q", [ended, again], 0.0).activity is again


# As records.


@pytest.mark.parametrize(
    "entry",
    [
        parse(SPARK, "windows", BEGAN),
        made(),
        ActivityEvent('a "name"\n ü', "r", 1.5, ActivityKind.ENDED, "line"),
        ActivityEvent("q", "r", 1.5, ActivityKind.IDLE),
    ],
)
def test_a_record_and_back(entry: Progress | ActivityEvent) -> None:
    line = to_json(entry)
    assert "\n" not in line
    assert "null" not in line
    assert from_json(line) == entry
    assert len(line) < 700


def test_an_older_reader_leaves_out_what_it_does_not_know() -> None:
    assert from_json(json.dumps({**json.loads(to_json(made())), "new": 1})) == made()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Invalid JSON"),
        ("[]", "object"),
        ('{"kind": "idle", "query": "q", "run": "r"}', "required"),
        ('{"query": "q"}', "required"),
        (to_json(made()).replace('"rows":10,', '"rows":"many",', 1), "integer"),
        (to_json(made()).replace('"seconds":1.0', '"seconds":"<b>"'), "number"),
    ],
)
def test_a_malformed_record(line: str, reason: str) -> None:
    with raising(ValueError, reason):
        from_json(line)


def test_a_key_names_its_stream_whatever_the_query_is_called() -> None:
    assert stream_of(record_key("isp_hits", "a/b ü")) == "isp_hits"


# As points of a picture.


def test_a_slot_for_each_minute_in_which_a_batch_ended() -> None:
    first = made(
        1, 60.0, 1.0, rows=10, late=1, early=4, input_rate=1.0, processed_rate=10.0, behind=OffsetLag(0, 5, 2)
    )
    longest = made(
        2, 70.0, 9.0, rows=90, late=2, early=5, input_rate=45.0, processed_rate=10.0, phases={"addBatch": 8.0}
    )
    last = made(
        3, 118.0, 1.0, rows=0, state=StateMetrics(7, 1, 0, 100), watermark=100.0, behind=OffsetLag(0, 3, 3)
    )
    over = made(4, 119.5, 1.0)
    one, two = slots([over, last, first, longest])
    assert (one.at, two.at) == (60.0, 120.0)
    assert (one.batches, one.rows, one.late, one.early) == (3, 100, 3, 9)
    assert (one.seconds, one.phases) == (9.0, {"addBatch": 8.0})
    assert (one.state, one.watermark_lag) == (StateMetrics(7, 1, 0, 100), 18.0)
    assert one.behind == OffsetLag(0, 5, 2)
    # All rows over all the time: the mean of the rates would be 23.
    assert one.input_rate == pytest.approx(100 / (10 / 1 + 90 / 45))
    assert one.processed_rate == pytest.approx(10.0)
    assert (two.input_rate, two.processed_rate, two.state, two.behind) == (None, None, None, None)
    assert slots([]) == []
    assert [slot.at for slot in slots([first, over], 3600.0)] == [0.0]


def test_empty_batches_have_a_rate_of_nothing() -> None:
    (slot,) = slots([made(rows=0, input_rate=0.0, processed_rate=0.0)])
    assert (slot.input_rate, slot.processed_rate) == (0.0, 0.0)


# As metrics.


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """(name, stream, query, another label's value) -> value; well-formed for Prometheus' own parser."""
    order = ("stream", "query", "phase", "stat")
    return {
        (sample.name, *(sample.labels[label] for label in order if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_the_metrics_of_a_query() -> None:
    query = history("windows", [parse(SPARK, "windows", BEGAN)], 0.0)
    text = exposition(QueryMetrics({"isp_hits": [query]}))
    found = samples(text)
    of = ("isp_hits", "windows")
    assert found["sluice_query_progress_scrape_success", "isp_hits"] == 1
    expected = {
        "up": 1,
        "last_activity_timestamp_seconds": AT + 1.5,
        "last_batch_timestamp_seconds": AT + 1.5,
        "batches_total": 8,
        "input_rows_total": 1430,
        "late_rows_dropped_total": 11,
        "early_rows_total": 9,
        "batches_created": BEGAN.since,
        "batch_input_rows": 430,
        "input_rows_per_second": 43,
        "processed_rows_per_second": 286.7,
        "state_rows": 1000,
        "state_updated_rows": 100,
        "state_removed_rows": 3,
        "state_memory_bytes": 1_500_000,
        "watermark_timestamp_seconds": 1_772_365_790,
    }
    for name, value in expected.items():
        assert found[f"sluice_query_{name}", *of] == value, name
    duration = "sluice_query_batch_duration_seconds"
    phases = {key[3]: value for key, value in found.items() if key[0] == duration}
    assert phases == {"total": 1.5, **parse(SPARK, "windows", BEGAN).phases}
    behind = {key[3]: value for key, value in found.items() if key[0] == "sluice_query_offset_lag"}
    assert behind == {"min": 5, "max": 20, "avg": 12.5}
    types = {family.name: family.type for family in text_string_to_metric_families(text.decode())}
    assert types["sluice_query_input_rows"] == "counter"
    assert types[duration] == "gauge"


def test_what_a_query_does_not_have_is_left_out() -> None:
    found = samples(exposition(QueryMetrics({"s": [history("q", [made()], 0.0)]})))
    assert not [key for key in found if "state" in key[0] or "watermark" in key[0] or "offset_lag" in key[0]]
    assert found["sluice_query_last_activity_timestamp_seconds", "s", "q"] == made().ended


def test_a_dead_an_ended_and_an_idle_query_and_a_stream_that_cannot_be_read() -> None:
    dead = history("down", [made(), ActivityEvent("down", "r", AT - 5, ActivityKind.STARTED)], 0.0)
    ended = history("ended", [made(), ActivityEvent("ended", "r", AT + 2, ActivityKind.ENDED)], 0.0)
    idle = history("idle", [made(), ActivityEvent("idle", "r", AT + 90, ActivityKind.IDLE)], 0.0)
    new = history("new", [ActivityEvent("new", "r", AT + 90, ActivityKind.STARTED)], 0.0)
    found = samples(exposition(QueryMetrics({"s": [dead, ended, idle, new], "hidden": None})))
    running = {key[2]: value for key, value in found.items() if key[0] == "sluice_query_up"}
    assert running == {"down": 1, "ended": 0, "idle": 1, "new": 1}
    signs = {k[2]: v for k, v in found.items() if k[0] == "sluice_query_last_activity_timestamp_seconds"}
    assert signs == {"down": AT + 1, "ended": AT + 2, "idle": AT + 90, "new": AT + 90}
    ends = {k[2]: v for k, v in found.items() if k[0] == "sluice_query_last_batch_timestamp_seconds"}
    assert ends == {"down": AT + 1, "ended": AT + 1, "idle": AT + 1}
    assert found["sluice_query_progress_scrape_success", "hidden"] == 0


def test_a_hostile_name_is_one_label() -> None:
    name = 'a"} 1\nsluice_query_up{stream="x\\'
    found = samples(exposition(QueryMetrics({"s": [history(name, [replace(made(), query=name)], 0.0)]})))
    assert found["sluice_query_up", "s", name] == 1
    assert ("sluice_query_up", "x") not in found


def test_every_declared_metric_is_exposed() -> None:
    found = samples(exposition(QueryMetrics({"s": [history("q", [parse(SPARK, "q", BEGAN)], 0.0)]})))
    given = {
        key[0] for key in found if key[0].startswith("sluice_query_") and not key[0].endswith("_created")
    }
    assert {spec.exposed_name for spec in METRICS} == given
