"""The comparison's own arithmetic: ratios in turn, headlines, its table, CPU seconds between samples."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from bench.compare.chart import write_chart
from bench.compare.contenders import connect, growth
from bench.compare.contenders.jobs import Event, events
from bench.compare.contenders.watch import Contender, Watch, is_beyond, latencies
from bench.compare.figures import (
    CONNECT,
    GOALS,
    HEADLINES,
    PLAIN,
    SHARES,
    SLUICE,
    TUNED,
    Ratio,
    headlines,
    is_reached,
    medians,
    number,
    percentile,
    ratios,
    report,
    rows,
    spread,
)
from bench.compare.meter import at, parse_traffic
from bench.compare.records import (
    PARTITIONS,
    Declared,
    csv_columns,
    json_columns,
    missing_columns,
    schema_text,
)
from bench.compare.stack import idle
from bench.compare.workloads import FEW, OBJECTS, WORKLOADS, Size, declared
from sluice.config import stream_columns, streams
from sluice.config.folders import VARIABLE


def test_a_ratio_is_taken_turn_by_turn_so_a_slow_moment_of_the_machine_is_in_both() -> None:
    assert Ratio.of_turns([1.0, 20.0, 3.0], [2.0, 40.0, 4.0]) == Ratio(0.5, 0.5, 0.75)
    assert Ratio.of_turns([1.0, 4.0], [0.0, 2.0]) == Ratio(2.0, 2.0, 2.0)
    assert Ratio.of_turns([1.0], [0.0]) is None
    with pytest.raises(ValueError, match="shorter"):
        Ratio.of_turns([1.0, 2.0], [1.0])


def test_medians_are_of_the_turns_that_have_the_figure() -> None:
    assert medians([{"a": 1.0}, {"a": 3.0, "b": 5.0}, {"a": 2.0}]) == {"a": 2.0, "b": 5.0}
    assert medians([]) == {}


def test_ratios_are_of_figures_that_both_have_in_every_turn() -> None:
    turns = {
        SLUICE: [{"a": 1.0, "b": 1.0, "own": 1.0}, {"a": 3.0, "own": 1.0}],
        PLAIN: [{"a": 2.0, "b": 1.0}, {"a": 2.0, "b": 1.0}],
    }
    assert ratios(turns) == {PLAIN: {"a": {"median": 1.0, "least": 0.5, "most": 1.5}}}
    assert ratios({PLAIN: turns[PLAIN]}) == {}


def workload(other: str, figure: str, ours: float, theirs: float) -> dict[str, Any]:
    return report({SLUICE: [{figure: ours}], other: [{figure: theirs}]}, {})


def test_headlines_are_sluice_by_the_named_contender_of_the_measured_workloads() -> None:
    found = {
        "small_batches": workload(PLAIN, "s3_calls", 10.0, 100.0),
        "json": workload(CONNECT, "rows_per_second", 300.0, 100.0),
        # Another contender's is none of the headlines.
        "one_batch": workload(TUNED, "consume.seconds", 1.0, 2.0),
    }
    assert headlines(found) == {"small_batches_calls": 0.1, "connect_rows": 3.0}
    verified = report({SLUICE: [{"validate.cpu_share": 0.04}]}, {})
    assert headlines({"one_batch": verified}) == {"validate_cpu_share": 0.04}


def test_every_headline_has_a_goal() -> None:
    assert {*HEADLINES, *SHARES} == set(GOALS)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("produce_wall", 0.8, True),
        ("produce_wall", 0.81, False),
        ("connect_rows", 2.5, True),
        ("connect_rows", 2.4, False),
    ],
)
def test_a_goal_is_a_maximum_and_of_rows_a_minimum(key: str, value: float, expected: bool) -> None:
    assert is_reached(key, value) is expected


def test_the_table_has_a_line_per_figure_and_a_column_per_contender_and_ratio() -> None:
    turns = {SLUICE: [{"a": 1.0}, {"a": 3.0}], PLAIN: [{"a": 2.0, "b": 1234.5}, {"a": 2.0, "b": 1234.5}]}
    assert rows(report(turns, {})) == [
        ["figure", SLUICE, PLAIN, "sluice / plain"],
        ["a", "2", "2", "1.00 (0.50 to 1.50)"],
        ["b", "", "1,234", ""],
    ]


def test_numbers_have_as_many_decimals_as_say_something() -> None:
    assert [number(n) for n in (None, 0.0, 12345.6, 99.87, 0.012345)] == ["", "0", "12,346", "99.9", "0.0123"]
    assert spread(None) == ""


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 21)]
    assert [percentile(values, p) for p in (50, 95, 100)] == [10.0, 19.0, 20.0]
    assert percentile([7.0], 50) == 7.0


def test_cpu_seconds_at_a_moment_are_on_the_line_between_two_samples() -> None:
    samples = [(10.0, 1.0), (12.0, 5.0), (13.0, 5.0)]
    assert [at(samples, t) for t in (9.0, 10.0, 11.0, 12.0, 12.5, 99.0)] == [1.0, 1.0, 3.0, 5.0, 5.0, 5.0]


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.03, 0.0001])
def test_a_workload_of_any_scale_fills_its_objects_and_its_partitions_evenly(scale: float) -> None:
    size = Size(scale, 1)
    assert size.rows % OBJECTS == 0
    assert size.batch_rows % PARTITIONS == 0
    assert size.rows > 0 < size.batch_rows


def test_scale_1_is_what_the_issue_names() -> None:
    assert (Size(1.0, 1).rows, Size(1.0, 1).batch_rows) == (3_000_000, 20_000)
    assert [Size(scale, 1).batches for scale in (1.0, 0.1, 0.02)] == [150, 150, 30]
    assert Size(1.0, 1).history == 5_000


def test_a_long_history_is_longer_than_what_is_measured_of_the_new_stream() -> None:
    # A failover publishes one batch, a load at least one.
    assert Size(0.0001, 1).history > FEW + growth.WARM_UP + growth.MEASURED + 2


def test_a_record_is_queryable_with_the_first_publication_behind_its_offset() -> None:
    published = [(10.0, {0: 1}), (12.0, {0: 2, 1: 5}), (13.0, {0: 2, 1: 6})]
    sent = {(0, 0): 9.0, (0, 1): 9.5, (1, 5): 12.5}
    assert sorted(latencies(sent, published)) == [0.5, 1.0, 2.5]
    # Not yet, and of a partition that nothing was published of.
    assert latencies({(0, 2): 9.0, (2, 0): 9.0}, published) == []
    assert latencies({(0, 0): 9.0}, []) == []


def test_a_consumer_has_recovered_when_a_record_after_the_kill_is_queryable() -> None:
    at_kill = {0: 5, 1: 7}
    # The killed consumer's last batch, seen late, ends there at most.
    assert not is_beyond(at_kill, {0: 5, 1: 7})
    assert not is_beyond(at_kill, {0: 4})
    assert is_beyond(at_kill, {0: 4, 1: 8})
    assert is_beyond(at_kill, {2: 1})


def test_the_first_publication_that_is_enough_counts() -> None:
    watch = Watch(cast(Contender, None))
    watch.published += [(10.0, {0: 1}), (12.0, {0: 2}), (13.0, {0: 3})]
    assert watch.wait(partial(is_beyond, {0: 1})) == 12.0
    # What the observing thread failed with is raised at once, not after the time limit.
    watch.failure = ConnectionError("refused")
    with pytest.raises(ConnectionError, match="refused"):
        watch.wait(partial(is_beyond, {0: 1}))


@pytest.mark.parametrize("is_json", [False, True])
def test_the_streams_of_a_comparison_are_valid_and_share_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_json: bool
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for name in ("one", "two"):
        Declared(name, "shared", 1, 20_000, is_json=is_json).write(tmp_path)
    found = [streams.load(name) for name in ("one", "two")]
    assert {spec.topic.name for spec in found} == {"shared"}
    assert len({spec.table for spec in found}) == 2
    assert all(spec.is_avro is not is_json for spec in found)
    assert found[0].consumer.max_offsets_per_trigger == 20_000
    columns = stream_columns.declared_types(found[0])
    assert columns["tpep_pickup_datetime"] == "timestamp"
    assert columns["fare_amount"] == "double"


def test_the_workloads_of_one_run_have_streams_of_their_own_and_one_per_turn() -> None:
    streams = {name: declared(name, Size(1.0, 3)) for name in WORKLOADS}
    names = [one.name for each in streams.values() for one in each]
    assert len(names) == len(set(names))
    assert {name: len(each) for name, each in streams.items()} == {
        "one_batch": 3,
        "one_object": 3,
        "changes": 3,
        "small_batches": 3,
        # At both triggers; the Avro stream that the JSON is made of.
        "latency": 6,
        "json": 4,
        "others_avro": 3,
        "others_json": 3,
        "growth": 3,
        # Those of a stack, whatever the turns.
        "supervision": 20,
    }
    # A batch of one turn: all rows of its own topic. Small ones: all turns read one topic.
    assert len({one.topic for one in streams["one_batch"]}) == 3
    assert {one.topic for one in streams["small_batches"]} == {"bench-small"}
    assert {one.topic for one in streams["others_json"]} == {"shop.others_json_0"}


def test_the_plain_way_makes_the_records_of_the_same_schema() -> None:
    fields = [field["name"] for field in json.loads(schema_text())["fields"]]
    assert [*csv_columns(), *missing_columns()] == fields
    assert list(missing_columns()) == ["congestion_surcharge", "airport_fee", "other_columns"]


def test_connect_writes_the_columns_of_sluice_s_json_table() -> None:
    assert [field.name for field in connect.schema().fields] == list(json_columns())


def test_the_chart_names_every_ratio_and_loads_nothing_from_the_web(tmp_path: Path) -> None:
    ratio = {"consume_wall": 0.7, "connect_rows": 2.0}
    write_chart({"scale": 0.1, "ratio": ratio}, tmp_path / "bench.svg")
    text = (tmp_path / "bench.svg").read_text()
    assert text.lstrip().startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert all(name in text for name in ratio)
    assert "url(http" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["bench.svg"]


def test_a_consumer_s_log_tells_its_starts_and_its_batches() -> None:
    text = """\
2026-11-23 06:24:05,123 INFO spark_jobs.common.spark.session: Spark started seconds=9.1
2026-11-23 06:24:07,000 INFO spark_jobs.common.lake.writer_lease: lease acquired writer=x epoch=2 branch=w2_a
2026-11-23T06:24:08.000Z WARN Something: of the JVM
2026-11-23 06:24:09,500 INFO spark_jobs.common.consumer.writer: batch published batch=0 records=100 files=2 \
verification='100 of 100 offsets' seconds=1.4
"""
    start, lease, batch = events(text)
    assert [start.what, lease.what, batch.what] == ["Spark started", "lease acquired", "batch published"]
    assert batch == Event(start.at + 4.377, "batch published", 100, 1.4)


def test_only_a_consumer_is_replaced_by_an_idle_one() -> None:
    parent = ["python", "-S", "-m", "sluice.clients.processes.parent", "python", "-m", "spark_jobs"]
    assert idle([*parent, "consumer", "trips"]) == [
        *parent[:5],
        "-m",
        "bench.compare.contenders.idle_consumer",
        "trips",
    ]
    for other in ([*parent, "queries", "trips"], ["postgres"]):
        assert idle(other) == other


def test_the_idle_consumers_are_those_of_the_streams_of_a_stack() -> None:
    spec = streams.load("nyc_taxi")
    command = ["python", *spec.components["consumer"].arguments]
    assert idle(command) == ["python", "-m", "bench.compare.contenders.idle_consumer", "nyc_taxi"]


def test_the_traffic_of_s3_is_summed_over_servers() -> None:
    traffic = (
        'minio_api_requests_traffic_received_bytes{server="a",type="s3"} 2.5e+03\n'
        'minio_api_requests_traffic_received_bytes{server="b",type="s3"} 1\n'
        'minio_api_requests_traffic_received_bytes{server="a",type="internode"} 7\n'
        'minio_api_requests_traffic_sent_bytes{server="a",type="s3"} 30\n'
    )
    assert parse_traffic(traffic) == {"received": 2501, "sent": 30}
