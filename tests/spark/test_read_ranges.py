"""Any ranges of a topic as one frame: these records, each once, or an error that names what is not there."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode, code_of
from sluice.core.offsets.topic_ranges import TopicRanges
from spark_jobs.common.kafka.read_ranges import Times, ranges_of, read_ranges, split_deleted
from spark_jobs.common.spark import session
from tests.support.raising import raising
from tests.support.services import Services
from tests.unit.docs.test_docs import fenced

PAGE = Path(__file__).parents[2] / "docs" / "reading-ranges.md"
A, B, MIXED = "ranges-a", "ranges-b", "ranges-mixed"
RECORDS = {0: 400, 1: 60, 2: 0}


@pytest.fixture(scope="module")
def kafka(services: Services) -> Kafka:
    for topic in (A, B):
        services.make_topic(topic, len(RECORDS))
        services.send(
            topic, {p: [f"{topic} {p} {n}".encode() for n in range(count)] for p, count in RECORDS.items()}
        )
    return services.stack.platform("consumer").kafka


@pytest.fixture
def shortened(services: Services, kafka: Kafka) -> int:
    """Retention has deleted the records of B's partition 0 below this one."""
    admin, first = AdminClient({**services.kafka, "log_level": 0}), 7
    (future,) = admin.delete_records([TopicPartition(B, 0, first)]).values()
    future.result(20)
    assert topic_offsets(kafka, B)[0] == (first, RECORDS[0])
    return first


def expected(ranges: TopicRanges) -> Counter[bytes]:
    return Counter(
        f"{topic} {partition} {offset}".encode()
        for topic in ranges
        for partition, offsets in ranges[topic].partitions.items()
        for start, until in offsets
        for offset in range(start, until)
    )


@pytest.mark.parametrize(
    "text",
    [
        f"{A}: 0=[110,220) 1=[10,31)",
        f"{A}: 0=[0,1),[399,400) 1=[0,60)",
        f"{A}: 1=[3,9); {B}: 0=[50,60),[70,80) 1=[59,60)",
        # What is between near ones is read and left out.
        f"{A}: 0=" + ",".join(f"[{n * n},{n * n + 1})" for n in range(2, 20)),
        "",
    ],
)
def test_these_records_and_no_other(spark: SparkSession, kafka: Kafka, text: str) -> None:
    ranges = TopicRanges.parse(text)
    rows = read_ranges(spark, kafka, ranges).collect()
    assert Counter(bytes(row.value) for row in rows) == expected(ranges)


def test_they_are_as_sparks_own_source_reads_them(
    spark: SparkSession, services: Services, kafka: Kafka
) -> None:
    services.make_topic(MIXED, 1)
    settings: dict[str, Any] = {**services.kafka, "compression.type": "zstd", "log_level": 0}
    producer = Producer(settings | {"transactional.id": MIXED})
    producer.init_transactions()
    for is_kept in (True, False, True):
        producer.begin_transaction()
        for n in range(40):
            headers: Any = [("h", b"x" * n), ("\u00e9", None), ("h", b"")][: n % 4]
            key, value = b"k%d" % n if n % 3 else None, b"v%d" % n if n % 5 else None
            producer.produce(MIXED, value, key, headers=headers, timestamp=1_500_000_000_000 + n)
        producer.flush(30)
        (producer.commit_transaction if is_kept else producer.abort_transaction)()
    (end,) = (after for _, after in topic_offsets(kafka, MIXED).values())
    options = session.kafka_source_options(kafka)
    theirs = spark.read.format("kafka").options(**options, subscribe=MIXED).load()
    ours = read_ranges(spark, kafka, TopicRanges.parse(f"{MIXED}: 0=[0,{end})"))
    # What Spark calls them, and of which types.
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in theirs.schema]
    rows = [frame.orderBy("offset").collect() for frame in (ours, theirs)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 80
    # By time: records of every transaction have these times; that aborted ones do, changes no offset.
    times = [datetime.fromtimestamp(1_500_000_000 + ms / 1000, UTC) for ms in (10, 20)]
    chosen = ranges_of(kafka, Times(MIXED, *times))
    assert str(chosen) == f"{MIXED}: 0=[10,20)"
    assert read_ranges(spark, kafka, Times(MIXED, *times)).count() == 10
    with pytest.raises(ValueError, match="a later end"):
        ranges_of(kafka, Times(MIXED, times[1], times[0]))


def test_a_partition_with_many_records_is_read_by_several_tasks(spark: SparkSession, kafka: Kafka) -> None:
    frame = read_ranges(spark, kafka, TopicRanges.parse(f"{A}: 0=[0,400) 1=[0,60)"), records_per_task=100)
    sizes = sorted(frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect())
    assert sizes == [60, 100, 100, 100, 100]


def test_what_retention_deleted_is_named_and_may_be_left_out(
    spark: SparkSession, kafka: Kafka, shortened: int
) -> None:
    ranges = TopicRanges.parse(f"{A}: 1=[0,5); {B}: 0=[3,20)")
    with raising(LookupError, f"retention has deleted {B}: 0=[3,{shortened})") as caught:
        read_ranges(spark, kafka, ranges)
    assert code_of(caught.value) is ErrorCode.OFFSETS_NOT_THERE
    kept, deleted = split_deleted(kafka, ranges)
    assert (str(kept), str(deleted)) == (f"{A}: 1=[0,5); {B}: 0=[7,20)", f"{B}: 0=[3,7)")
    rows = read_ranges(spark, kafka, kept).collect()
    assert Counter(bytes(row.value) for row in rows) == expected(kept)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{A}: 0=[0,401)", f"{A}: 0=[400,401) is not written yet: partition 0 ends at 400"),
        (f"{A}: 2=[0,1)", f"{A}: 2=[0,1) is not written yet: partition 2 ends at 0"),
        (f"{A}: 0=[0,1) 3=[0,1)", f"topic '{A}' has no partition 3, its partitions are 0 to 2"),
        ("ranges-none: 0=[0,1)", "topic 'ranges-none'"),
    ],
)
def test_what_is_not_on_the_topic_is_named(spark: SparkSession, kafka: Kafka, text: str, reason: str) -> None:
    with raising(LookupError, reason):
        read_ranges(spark, kafka, TopicRanges.parse(text))


def test_the_example_of_the_docs(
    spark: SparkSession,
    services: Services,
    kafka: Kafka,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    services.make_topic("rides", 2)
    services.send("rides", {0: [b"a"] * 220, 1: [b"b"] * 410})
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(services.stack.home.platform))
    (example,) = fenced(PAGE.read_text())
    names: dict[str, Any] = {"spark": spark}
    exec(compile(example, "docs/reading-ranges.md", "exec"), names)  # noqa: S102
    shown = capsys.readouterr().out
    assert "|        0|  110|" in shown
    assert "|        1|  223|" in shown
    assert names["records"].count() == 0, "none was sent at that hour"
