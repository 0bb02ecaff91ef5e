"""Checkpoints in the bucket, and S3 failing: what Spark does alone, and that Sluice loses nothing by it.

Settled here for the pinned versions: AbortableStreamBasedCheckpointFileManager logs a failed write and goes
on, so that a batch is completed without its plan, or without its state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sluice.config.platform_sections.checkpoints import Checkpoints
from spark_jobs.common.spark.checkpoint import CheckpointCorrupted
from spark_jobs.common.spark.session import checkpoint_options
from tests.support.counting import Counting, exact, published
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.lakehouse import Stream
from tests.support.services import Services

BUCKET, NO_DELETES, TOPIC = "checkpoints", "no-deletes", "settling"
# What a role needs to keep a checkpoint in a bucket, besides listing it, and deleting from it.
MAY = ["s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload"]
# One try, and one more: a fault that S3A would sit out is none.
IMPATIENT = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "1",
    "fs.s3a.retry.interval": "10ms",
    "fs.s3a.retry.throttle.limit": "1",
    "fs.s3a.retry.throttle.interval": "10ms",
}


@pytest.fixture(scope="module")
def proxy(services: Services) -> Iterator[FaultProxy]:
    """Before MinIO. One for all tests: the JVM keeps its file systems as they were first configured."""
    for bucket, actions in ((BUCKET, [*MAY, "s3:DeleteObject"]), (NO_DELETES, MAY)):
        services.minio.create_bucket(Bucket=bucket)
        services.make_s3_user(bucket, bucket, actions)
    with FaultProxy(services.minio_url) as made:
        yield made


@pytest.fixture
def at(
    proxy: FaultProxy, services: Services, configure: Callable[[dict[str, str]], None], tmp_path: Path
) -> Iterator[Callable[[str], str]]:
    """Configures Spark for a bucket, as its user; returns an address in it, of this test alone."""

    def bucket(name: str) -> str:
        address = f"s3a://{name}/{tmp_path.name}"
        consumer = services.stack.platform("consumer")
        s3 = replace(consumer.s3, endpoint=proxy.url, access_key=name, secret_key=services.s3_secret)
        configure(checkpoint_options(replace(consumer, s3=s3, checkpoints=Checkpoints(address))) | IMPATIENT)
        return address

    yield bucket
    proxy.clear()


@pytest.fixture
def root(at: Callable[[str], str]) -> str:
    return at(BUCKET)


def keys(services: Services, tmp_path: Path) -> list[str]:
    """What lies in the bucket for this test."""
    prefix = f"{tmp_path.name}/"
    found = services.minio.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    return [entry["Key"].removeprefix(prefix) for page in found for entry in page.get("Contents", [])]


@pytest.fixture
def alone(spark: SparkSession, services: Services, root: str) -> Callable[[], StreamingQuery]:
    """Starts a query of Spark alone, with the checkpoint ``alone``, from a topic into Spark's own
    exactly-once sink."""
    services.make_topic(TOPIC, 1)

    def start() -> StreamingQuery:
        return (
            spark.readStream.format("kafka")
            .options(**services.spark_kafka(), subscribe=TOPIC, startingOffsets="earliest")
            .load()
            .selectExpr("offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{root}/alone")
            .trigger(processingTime="0 seconds")
            .start(f"{root}/sink")
        )

    return start


def ten_more(services: Services, query: StreamingQuery) -> None:
    services.send(TOPIC, {0: [b"x"] * 10})
    query.processAllAvailable()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [{"status": 503}, {"cut": "request"}], ids=str)
def test_spark_alone_goes_on_without_what_it_could_not_write_and_loses_records(
    fault: dict[str, Any],
    alone: Callable[[], StreamingQuery],
    spark: SparkSession,
    services: Services,
    proxy: FaultProxy,
    root: str,
    tmp_path: Path,
) -> None:
    """Were Spark to notice one day, the protection could go: then this is red."""
    query = alone()
    ten_more(services, query)
    proxy.add(Fault(r"/alone/(offsets|commits)/1$", method="PUT", **fault))
    ten_more(services, query)
    query.stop()
    assert query.exception() is None
    assert proxy.matches() > 0
    assert [key for key in keys(services, tmp_path) if key.endswith("s/1")] == []
    proxy.clear()
    services.send(TOPIC, {0: [b"x"] * 20})
    query = alone()
    query.processAllAvailable()
    query.stop()
    there = {row.offset for row in spark.read.parquet(f"{root}/sink").collect()}
    lost = sorted(set(range(40)) - there)
    print(f"Spark alone, {fault}: of 40 records {len(lost)} are lost: {lost}")
    assert lost == list(range(20, 40))


@pytest.mark.exhaustive
def test_spark_alone_cannot_start_again_where_only_the_plan_was_not_written(
    alone: Callable[[], StreamingQuery], services: Services, proxy: FaultProxy, tmp_path: Path
) -> None:
    query = alone()
    ten_more(services, query)
    proxy.add(Fault(r"/alone/offsets/1$", method="PUT", status=500))
    ten_more(services, query)
    query.stop()
    assert query.exception() is None
    assert "alone/commits/1" in keys(services, tmp_path)
    assert "alone/offsets/1" not in keys(services, tmp_path)
    proxy.clear()
    query = alone()
    with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE"):
        query.processAllAvailable()


@pytest.mark.exhaustive
def test_spark_alone_completes_a_batch_whose_state_was_not_written(
    writers: Callable[..., Counting], services: Services, proxy: FaultProxy, root: str
) -> None:
    """And publishes counts without a checkpoint to go on from."""
    first = writers(root, protected=False)
    first.run(2)
    proxy.add(Fault(r"/w1/state/0/1/3.delta$", method="PUT", status=503))
    first.run(1)
    assert published(services.postgres()) == exact(3)
    first.stop()
    proxy.clear()
    with pytest.raises(LookupError, match="state/0/1: version 3"):
        writers(root)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("fault", "lacking"),
    [
        pytest.param(
            *(Fault(r"/w1/offsets/2$", method="PUT", status=500), "offsets/2"),
            id="the plan",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            Fault(r"/w1/state/0/1/3.delta$", method="PUT", status=503), "state/0/1: version 3", id="the state"
        ),
        pytest.param(
            *(Fault(r"/w1/", method="PUT", cut="request"), "not found|is missing"),
            id="nothing at all",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_batch_that_the_checkpoint_lacks_is_not_published(
    fault: Fault,
    lacking: str,
    writers: Callable[..., Counting],
    services: Services,
    proxy: FaultProxy,
    root: str,
) -> None:
    first = writers(root)
    first.run(1)
    proxy.add(fault)
    with pytest.raises(StreamingQueryException, match=lacking):
        first.run(2)
    assert proxy.matches() > 0
    assert published(services.postgres()) == exact(len(first.ran) - 1)
    proxy.clear()
    second = writers(root)
    second.run(2)
    assert second.ran == [len(first.ran) - 1, len(first.ran)]
    assert published(services.postgres()) == exact(len(first.ran) + 1)


@pytest.mark.exhaustive
def test_a_completion_that_was_not_written_is_made_good(
    writers: Callable[..., Counting], services: Services, proxy: FaultProxy, root: str
) -> None:
    first = writers(root)
    first.run(1)
    proxy.add(Fault(r"/w1/commits/", method="PUT", status=500))
    first.run(2)
    first.stop()
    proxy.clear()
    second = writers(root)
    second.run(2)
    assert (second.ran, published(services.postgres())) == ([2, 3], exact(4))


def test_a_consumer_publishes_no_batch_without_its_plan(
    spark: SparkSession, services: Services, proxy: FaultProxy, root: str
) -> None:
    """What makes Spark alone lose records, in a stream of Sluice's: Kafka, the lake, and its checkpoint
    there."""
    services.minio, services.postgres  # noqa: B018
    stream = Stream(spark, services, "in_the_bucket", root)
    try:
        stream.send(3)
        running = stream.run(stream.writer())
        proxy.add(Fault(r"/w1_\w+/(offsets|commits)/1$", method="PUT", status=503))
        stream.send(2)
        with pytest.raises(CheckpointCorrupted, match="offsets/1"):
            stream.await_end(running)
        stream.assert_exact(3)
        proxy.clear()
        stream.send(2)
        stream.run(stream.writer())
        stream.assert_exact(7)
    finally:
        stream.stop()


@pytest.mark.exhaustive
def test_without_the_right_to_delete_a_query_ends_when_spark_tidies_its_logs_up(
    writers: Callable[..., Counting], services: Services, at: Callable[[str], str]
) -> None:
    """So a consumer with its checkpoint in the bucket needs that right, there."""
    first = writers(at(NO_DELETES))
    with pytest.raises(StreamingQueryException, match=r"delete on .*offsets/\d+.*403"):
        first.run(8)
    assert published(services.postgres()) == exact(len(first.ran)), "and nothing is lost by it"
