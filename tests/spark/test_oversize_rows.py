"""A row whose record the topic does not take is quarantined by the producer; the others are sent."""

from __future__ import annotations

import gzip
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import Row, SparkSession

from local.services import streams as stream_programs
from sluice.airflow import forms
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.s3.objects import Bucket
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import ENTRY_POINT
from sluice.core.json_record import Document
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sources.csv_object import select_objects
from spark_jobs.common.spark.session import catalog_options
from tests.support.services import Services

TAXI = streams.load("nyc_taxi")
ROWS, LARGE = 199, 60


class Loading:
    """Objects of the taxi stream, planned in the ledger and sent by its producer as Airflow starts it."""

    def __init__(self, spark: SparkSession, services: Services, sample: Path) -> None:
        self.spark, self.services = spark, services
        self.platform = services.stack.platform("airflow")
        self.ledger = Ledger(services.minio, self.platform.lake.ledger, TAXI.name)
        self.header, *self.lines = gzip.decompress(sample.read_bytes()).decode().splitlines()[: ROWS + 1]
        services.make_topic(TAXI.topic.name, TAXI.topic.partitions)
        services.postgres()
        for key, value in catalog_options(services.stack.platform("consumer")).items():
            spark.conf.set(key, value)

    def upload(self, name: str, lines: list[str]) -> None:
        body = "\n".join([self.header, *lines]).encode()
        key = f"oversize/{name}.csv"
        self.services.minio.put_object(Bucket=self.platform.source.bucket, Key=key, Body=body)

    def plan(self, name: str, rules: SendingRules | None = None) -> Document:
        bucket = Bucket(self.services.minio, self.platform.source.bucket)
        planner = LoadPlanner(
            self.ledger,
            KafkaAdmin(self.platform.kafka),
            TAXI.topic.name,
            forms.defaults(TAXI),
            rules=lambda: rules or SendingRules.of(TAXI, MAX_MESSAGE_BYTES),
        )
        select = partial(select_objects, self.ledger, bucket)
        return planner.pin(name, {"objects": [f"oversize/{name}.csv"]}, select)

    def send(self, run: str) -> subprocess.CompletedProcess[str]:
        context = self.services.stack.context
        stream_programs.prepare(context)
        command = [str(Path(context.python).parent / "spark-submit"), str(ENTRY_POINT)]
        return subprocess.run(
            [*command, "producer", TAXI.name, "--plan", self.ledger.uri(run_key(run, "plan"))],
            env=context.job_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )

    def keys(self, source: str) -> list[str]:
        """Return the keys of the source's records, sorted."""
        frame = self.spark.read.format("kafka").options(
            **self.services.spark_kafka(), subscribe=TAXI.topic.name
        )
        found = [bytes(row["key"]).decode() for row in frame.load().select("key").collect()]
        return sorted(key for key in found if key.startswith(source))

    def quarantined(self, source: str) -> list[Row]:
        table = self.spark.table(f"{CATALOG}.{TAXI.quarantine_table}")
        return table.where(f"_source_id = '{source}'").orderBy("_source_row").collect()


@pytest.fixture(scope="module")
def loading(spark: SparkSession, services: Services, sample: Path) -> Loading:
    return Loading(spark, services, sample)


def large(line: str, size: int) -> str:
    """The line with so many characters in its one column of text."""
    cells = line.split(",")
    cells[6] = "x" * size
    return ",".join(cells)


def keys_without(source: str, rejected: set[int], rows: int = ROWS) -> list[str]:
    """The keys of all rows but the rejected ones."""
    partitions, sequences = TAXI.topic.partitions, dict.fromkeys(range(TAXI.topic.partitions), 0)
    keys = []
    for row in range(rows):
        if row not in rejected:
            keys.append(f"{source}:{row}:{sequences[row % partitions]}")
            sequences[row % partitions] += 1
    return sorted(keys)


def test_a_row_that_the_topic_does_not_take_is_quarantined_and_named_and_the_others_are_sent(
    loading: Loading,
) -> None:
    lines = list(loading.lines)
    lines[LARGE] = large(lines[LARGE], 1_500_000)
    loading.upload("large", lines)
    source = loading.plan("large")["sources"][0]["source_id"]
    done = loading.send("large")
    assert done.returncode == 0, done.stdout[-3000:]
    assert loading.keys(source) == keys_without(source, {LARGE})
    assert "rows read rows=199 malformed=1" in done.stdout
    (row,) = loading.quarantined(source)
    assert (row["stage"], row["_source_row"], row["line"]) == ("producer", LARGE, LARGE + 2)
    assert row["object"].endswith("/oversize/large.csv")
    assert bytes(row["value"]) == lines[LARGE].encode()
    assert re.search(r"value has 1500\d\d\d bytes.*max\.message\.bytes 1048588", row["reason"])


@pytest.mark.exhaustive
def test_an_attempt_that_was_killed_before_and_behind_such_a_row_is_resumed_with_the_same_keys(
    loading: Loading,
) -> None:
    lines = list(loading.lines)
    for row in (3, LARGE):
        lines[row] = large(lines[row], 1_200_000)
    loading.upload("killed", lines)
    source = loading.plan("killed")["sources"][0]["source_id"]
    expected = keys_without(source, {3, LARGE})
    half = [key for key in expected if int(key.split(":")[1]) < 100]
    producer = Producer({**loading.services.kafka, "log_level": 0})
    for key in half:
        partition = int(key.split(":")[1]) % TAXI.topic.partitions
        producer.produce(TAXI.topic.name, b"sent before", key=key, partition=partition)
    assert producer.flush(30) == 0
    for _ in range(2):
        done = loading.send("killed")
        assert done.returncode == 0, done.stdout[-3000:]
        assert loading.keys(source) == expected
        assert [row["_source_row"] for row in loading.quarantined(source)] == [3, LARGE]


@pytest.mark.exhaustive
def test_what_was_planned_by_other_rules_is_not_sent(loading: Loading) -> None:
    loading.upload("other", loading.lines)
    other = replace(SendingRules.of(TAXI, MAX_MESSAGE_BYTES), declaration="of another schema")
    source = loading.plan("other", other)["sources"][0]["source_id"]
    done = loading.send("other")
    assert done.returncode == 1
    assert "SLU-308 RulesChanged: oversize/other.csv: the schema or [csv]" in done.stdout.splitlines()[-1]
    assert loading.keys(source) == []
