"""Source objects on a real Kafka and bucket: their producer sends the rows that are not on the topic yet."""

from __future__ import annotations

import gzip
import subprocess
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from local.services import streams as stream_programs
from sluice.airflow import forms
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.s3.objects import Bucket
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import ENTRY_POINT
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sources.csv_object import select_objects
from spark_jobs.common.spark.session import catalog_options
from tests.support.services import Services

TAXI = streams.load("nyc_taxi")
ROWS = 25
BAD = 7


@pytest.mark.exhaustive
def test_rows_that_are_on_the_topic_are_not_sent_again_and_bad_ones_go_to_quarantine(
    spark: SparkSession, services: Services, sample: Path
) -> None:
    services.make_topic(TAXI.topic.name, TAXI.topic.partitions)
    services.postgres()
    platform = services.stack.platform("airflow")
    header, *lines = gzip.decompress(sample.read_bytes()).decode().splitlines()[: ROWS + 1]
    lines[BAD] = lines[BAD].replace("/", ".", 1)
    services.minio.put_object(
        Bucket=platform.source.bucket, Key="objects_load/a.csv", Body="\n".join([header, *lines]).encode()
    )
    ledger = Ledger(services.minio, platform.lake.ledger, "nyc_taxi")
    planner = LoadPlanner(
        ledger,
        KafkaAdmin(platform.kafka),
        TAXI.topic.name,
        forms.defaults(TAXI),
        rules=lambda: SendingRules.of(TAXI, MAX_MESSAGE_BYTES),
    )
    bucket = Bucket(services.minio, platform.source.bucket)
    select = partial(select_objects, ledger, bucket)
    plan = planner.pin("objects", {"source_prefix": "objects_load/"}, select)
    source = plan["sources"][0]["source_id"]
    # As an earlier attempt left it: all three rows of target partition 3, the first of 5, and no other.
    sent = {f"{source}:3:0": 3, f"{source}:13:1": 3, f"{source}:23:2": 3, f"{source}:5:0": 5}
    producer = Producer({**services.kafka, "log_level": 0})
    for key, target_partition in sent.items():
        producer.produce(TAXI.topic.name, b"sent before", key=key, partition=target_partition)
    assert producer.flush(30) == 0

    context = services.stack.context
    stream_programs.prepare(context)
    command = [
        str(Path(context.python).parent / "spark-submit"),
        str(ENTRY_POINT),
        "producer",
        TAXI.name,
        "--plan",
    ]
    done = subprocess.run(
        [*command, ledger.uri(run_key("objects", "plan"))],
        env=context.job_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "no Python worker was started" not in done.stdout
    assert "rows read rows=25 malformed=1" in done.stdout, done.stdout[-3000:]
    frame = spark.read.format("kafka").options(**services.spark_kafka(), subscribe=TAXI.topic.name).load()
    records = frame.orderBy("partition", "offset").collect()
    found = {bytes(r["key"]).decode(): (r["partition"], bytes(r["value"]) == b"sent before") for r in records}
    # In its target partition, a row that is refused has no place.
    expected = {
        f"{source}:{row}:{row // 10 - (row == BAD + 10)}": row % 10 for row in range(ROWS) if row != BAD
    }
    assert len(records) == ROWS - 1
    assert found == {key: (target_partition, key in sent) for key, target_partition in expected.items()}
    for key, value in catalog_options(services.stack.platform("consumer")).items():
        spark.conf.set(key, value)
    quarantined = spark.table(f"{CATALOG}.{TAXI.quarantine_table}").where(f"_source_id = '{source}'")
    (row,) = quarantined.collect()
    assert (row["_source_row"], row["stage"]) == (BAD, "producer")
