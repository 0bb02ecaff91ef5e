"""Generated hits on real services: sent once by a producer that resumes, and taken into the lake."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from local.services import streams as stream_programs
from sluice.airflow import forms
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import generator
from sluice.config.sections.generator import Generated, sequences
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import ENTRY_POINT
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sources.generator import GeneratorSource
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.tables import IncompatibleSchema
from spark_jobs.common.producer.generated import send_generated
from spark_jobs.common.producer.run import Plan, produce
from spark_jobs.isp_hits.generator import hits
from tests.support.hits import DECLARED, Hits
from tests.support.raising import raising
from tests.support.services import Services

assert DECLARED.generator is not None
GENERATOR = DECLARED.generator
RATE, ROWS = 2_000, 8_000
MOMENT = datetime.now(UTC) - timedelta(hours=30)
PARAMS = {"rows": ROWS, "seed": 7, "duration_hours": 24, "rows_per_second": RATE, "malformed_percent": 1}


@pytest.fixture(scope="module")
def stream(
    spark: SparkSession, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hits]:
    services.minio, services.postgres  # noqa: B018
    made = Hits(spark, services, "isp_hits_load", str(tmp_path_factory.mktemp("checkpoints")))
    yield made
    made.stop()


@dataclass(frozen=True)
class Sent:
    """A plan's rows on the topic: its parameters, how many rows were there before its producer was started,
    and what that said."""

    parameters: Generated
    prefix: int
    said: str


@pytest.fixture(scope="module")
def sent(stream: Hits, services: Services) -> Sent:
    """As after an attempt that was killed on its way: whole slices, a part of one, and some of the last."""
    context, platform = services.stack.context, services.stack.platform("airflow")
    ledger = Ledger(services.minio, platform.lake.ledger, "isp_hits")
    planner = LoadPlanner(
        ledger,
        KafkaAdmin(platform.kafka),
        DECLARED.topic.name,
        forms.defaults(DECLARED),
        rules=lambda: SendingRules.of(DECLARED, MAX_MESSAGE_BYTES),
    )
    plan = planner.pin(
        "r1",
        PARAMS,
        lambda params: [GeneratorSource.from_params(GENERATOR, "r1", params, MOMENT).document],
    )
    parameters = generator.parse(GENERATOR, plan["sources"][0]["parameters"], "x")
    put(stream, parameters, range(2 * RATE + 700))
    put(stream, parameters, range(ROWS - 100, ROWS, 3))
    prefix = stream.records()
    stream_programs.prepare(context)
    # As Airflow starts it.
    command = [str(Path(context.python).parent / "spark-submit"), str(ENTRY_POINT)]
    done = subprocess.run(
        [*command, "producer", DECLARED.name, "--plan", ledger.uri(run_key("r1", "plan"))],
        env=context.job_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return Sent(parameters, prefix, done.stdout)


@pytest.fixture(scope="module")
def published(sent: Sent, stream: Hits) -> StreamWriter:
    """Publish all that was sent; return its writer."""
    began = time.monotonic()
    writer = stream.writer()
    stream.run(writer)
    print(f"{ROWS} hits published in {time.monotonic() - began:.1f} s")
    return writer


def put(stream: Hits, parameters: Generated, rows: range) -> None:
    """Rows of the source, as its producer sends them."""
    producer = Producer({**stream.services.kafka, "log_level": 0})
    partition_count = DECLARED.topic.partitions
    frame = hits(stream.spark.range(rows.start, rows.stop, rows.step).toDF("row"), parameters)
    for row, value in frame.orderBy("row").collect():
        key = f"{parameters.source_id}:{row}:{row // partition_count}"
        producer.produce(
            DECLARED.topic.name, value and bytes(value), key=key, partition=row % partition_count
        )
    assert producer.flush(30) == 0


@pytest.mark.exhaustive
def test_an_attempt_that_ended_on_its_way_is_resumed_and_every_row_is_sent_once_as_it_is(
    sent: Sent, stream: Hits, services: Services
) -> None:
    parameters = sent.parameters
    assert f"source={parameters.source_id} rows={sent.prefix} " in sent.said
    records = (
        stream.spark.read.format("kafka")
        .options(**services.spark_kafka(), subscribe=DECLARED.topic.name)
        .load()
    )
    found = {bytes(r["key"]).decode(): (r["partition"], r["value"]) for r in records.collect()}
    assert stream.records() == ROWS
    expected = hits(stream.spark.range(ROWS).toDF("row"), parameters).collect()
    partition_count = DECLARED.topic.partitions
    assert found == {
        f"{parameters.source_id}:{row}:{row // partition_count}": (row % partition_count, value)
        for row, value in expected
    }


def test_it_keeps_its_rate_over_what_is_left(sent: Sent) -> None:
    found = re.search(r"rows sent .* rows=(\d+) seconds=([0-9.]+)", sent.said)
    assert found is not None
    done, seconds = int(found[1]), float(found[2])
    # Whole slices that were there take no time; the last slice is not waited for.
    assert ROWS - sent.prefix <= done < ROWS
    assert seconds >= (done - RATE) / RATE


def test_batches_make_a_file_per_day_and_first_digit_and_are_readable_at_once(
    sent: Sent, published: StreamWriter, stream: Hits
) -> None:
    table = stream.spark.table(f"{CATALOG}.{stream.spec.table}")
    quarantined = stream.spark.table(f"{CATALOG}.{stream.spec.quarantine_table}")
    rows = Counter(
        [row[0] for frame in (table, quarantined) for row in frame.select("_source_row").collect()]
    )
    assert rows == Counter(range(ROWS))
    assert 0.005 < quarantined.count() / ROWS < 0.015
    assert not [
        column for column in table.columns if column.startswith("_kafka_t") and column != "_kafka_timestamp"
    ]
    days = table.select("day").distinct().count()
    assert days >= 2
    assert table.select("zipcode").distinct().count() > 1_200
    lake = IcebergTable(stream.spark, stream.spec.table)
    for snapshot in lake.snapshots(MAIN):
        assert len(lake.added_files(snapshot.id)) <= 10 * days
    # One run per target partition, though malformed rows lie between the good ones.
    assert published.state.unrecorded_rows(sent.parameters.source_id) == sequences(
        0, ROWS, DECLARED.topic.partitions
    )


def test_files_are_sorted_so_that_a_zipcode_is_found_without_reading_them(
    published: StreamWriter, stream: Hits
) -> None:
    paths = stream.spark.sql(f"SELECT file_path FROM {CATALOG}.{stream.spec.table}.files").collect()
    assert paths
    frame = stream.spark.table(f"{CATALOG}.{stream.spec.table}").select(
        F.input_file_name().alias("file"), F.monotonically_increasing_id().alias("at"), "zipcode"
    )
    seen: dict[str, list[str]] = {}
    for row in frame.orderBy("file", "at").collect():
        seen.setdefault(row["file"], []).append(row["zipcode"])
    assert len(seen) == len(paths)
    assert all(found == sorted(found) and found[0][0] == found[-1][0] for found in seen.values())
    bounds = stream.spark.sql(
        f"SELECT readable_metrics.zipcode.lower_bound, readable_metrics.zipcode.upper_bound "
        f"FROM {CATALOG}.{stream.spec.table}.files"
    ).collect()
    assert sorted(map(tuple, bounds)) == sorted((found[0], found[-1]) for found in seen.values())


def test_other_partitions_than_the_tables_are_refused(stream: Hits) -> None:
    table = IcebergTable(stream.spark, stream.spec.table)
    assert table.partitions() == DECLARED.partition_by
    tables.ensure(stream.spark, stream.spec, stream.struct)
    for other in (["day", "truncate(2, zipcode)"], ["day", "zipcode"], ["truncate(1, zipcode)", "day"]):
        with pytest.raises(IncompatibleSchema, match=r"day, truncate\(1, zipcode\)"):
            tables.ensure(stream.spark, replace(stream.spec, partition_by=other), stream.struct)
    for wrong, words in (
        ("truncate(1, nowhere)", "truncate(1, nowhere)"),
        ("truncate(1, hittime)", "hittime is a timestamp"),
    ):
        with raising(ConfigError, words):
            tables.ensure(stream.spark, replace(stream.spec, partition_by=[wrong]), stream.struct)


@pytest.mark.exhaustive
def test_a_hit_that_the_topic_does_not_take_is_quarantined_and_leaves_the_others_their_numbers(
    stream: Hits, services: Services
) -> None:
    """Once, also if it is generated again."""
    rows, partition_count = 100, DECLARED.topic.partitions
    found = {"rows": rows, "seed": 8, "start_time": "2026-01-01T00:00:00Z", "duration_hours": 1}
    parameters = generator.parse(GENERATOR, found, "x")
    generated = hits(stream.spark.range(rows).toDF("row"), parameters).collect()
    values: dict[int, bytearray | None] = {row["row"]: row["value"] for row in generated}
    longest = sorted(len(value or b"") for value in values.values())[-6]
    # That alone, of which the limits of topics are far.
    rules = SendingRules.of(DECLARED, longest + 1024 + (longest + 1024) // 255)
    assert longest <= rules.max_value_bytes < longest + 10
    large = {row for row, value in values.items() if len(value or b"") > rules.max_value_bytes}
    assert large
    document = {
        "source_id": parameters.source_id,
        "parameters": dict(parameters.values),
        "partition_count": partition_count,
        "start_offsets": dict.fromkeys(map(str, range(partition_count)), 0),
        "produced": False,
        "rules": rules.to_document(),
    }
    for _ in range(2):
        plan = Plan.from_document({"sources": [document]})
        spec = replace(DECLARED, table=stream.spec.table)
        produce(stream.spark, spec, services.stack.platform("producer"), plan, send_generated)
        records = stream.spark.read.format("kafka").options(
            **services.spark_kafka(), subscribe=stream.spec.topic.name
        )
        keys = [bytes(row["key"]).decode() for row in records.load().select("key").collect()]
        assert sorted(key for key in keys if key.startswith(parameters.source_id)) == sorted(
            f"{parameters.source_id}:{row}:{row // partition_count}"
            for row in range(rows)
            if row not in large
        )
        quarantined = stream.spark.table(f"{CATALOG}.{stream.spec.quarantine_table}").where(
            "stage = 'producer'"
        )
        rejected = {row["_source_row"]: (row["value"], row["reason"]) for row in quarantined.collect()}
        assert {row: value for row, (value, _) in rejected.items()} == {row: values[row] for row in large}
        assert quarantined.count() == len(large)
        assert all(reason.startswith("too large: ") for _, reason in rejected.values())
