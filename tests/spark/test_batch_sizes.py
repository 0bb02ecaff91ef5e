"""A topic in two tables, by a small batch and by many tasks: the same rows, and the same rejected."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct import batch
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.run import decoding, record_type
from spark_jobs.common.kafka.avro import Schemas
from spark_jobs.common.lake import tables
from tests.spark.test_wiki import WHOLE
from tests.support.hostile_records import EVENTS, Headers, body, cases
from tests.support.lakehouse import Stream
from tests.support.services import Services
from tests.support.wiki import events

Record = tuple[bytes | None, bytes | None, Headers]
EACH = 300


def trips(schemas: Schemas) -> list[Record]:
    """Rows of two sources, one of them twice, rows to be withheld, and what others send."""
    plain = [body(schemas.current, VendorID=n % 3, other_columns={"k": str(n)}) for n in range(EACH)]
    headers: Headers = [("avro-schema", schemas.current.fingerprint.encode())]
    own: list[Record] = [
        (f"{source * 16}{mark}{n}:{n}".encode(), value, headers)
        for source, mark in (("a", ":"), ("b", "!"))
        for n, value in enumerate(plain)
    ]
    hostile: list[Record] = [(b"k", value, found) for _, value, found, _ in cases(schemas.current)]
    return [
        *own,
        *own[:20],
        *hostile,
        (None, None, []),
        (b"\xff\x00", plain[0], [("x", None), ("x", b"\xff")]),
    ]


def changes(_: Schemas) -> list[Record]:
    recorded: list[Record] = [(wiki.encode(), value, []) for wiki, value in events(EACH, servers=5, dates=2)]
    now = WHOLE.replace(str(json.loads(WHOLE)["timestamp"]), str(int(time.time())))
    edited: list[Record] = [(None, now.replace(text, other).encode(), []) for _, text, other, _ in EVENTS]
    return [*recorded, *edited, (None, b"{", []), (None, None, []), (None, now.encode() * 2, [])]


def hits(_: Schemas) -> list[Record]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    hit = {"hit_id": "h", "hittime": now, "zipcode": "02139", "isp": "i", "user_id": "u", "bytes": 2**40}
    rows = [json.dumps({**hit, "zipcode": f"{n % 4}2139", "status": n}).encode() for n in range(EACH)]
    wrong: list[dict[str, object]] = [
        {"status": 2**31},
        {"zipcode": "x"},
        {"isp": 1},
        {"hittime": "x"},
        {"hit_id": ""},
        {"url": "\ud800"},
    ]
    bad = [json.dumps({**hit, **edit}).encode() for edit in wrong]
    return [
        *((b"k%d" % n, value, []) for n, value in enumerate(rows)),
        *((b"\xff", value, []) for value in bad),
    ]


class Declared(Stream):
    """A declared stream's columns, decoding and partitions, on a topic and in a table of its own."""

    def __init__(self, spark: SparkSession, services: Services, name: str, root: str, declared: str) -> None:
        self.declared = streams.load(declared)
        super().__init__(spark, services, name, root, tuple(self.declared.partition_by))

    def record(self) -> StructType:
        return record_type(self.spark, self.declared)

    def rows_of(self, decode: Decode | None = None) -> DirectSource:
        return DirectSource(self.spark, self.platform, self.spec, decoding(self.declared))

    def beside(self) -> Declared:
        """Another table of the same topic."""
        other = copy.copy(self)
        name = f"{self.spec.name}_large"
        other.started = []
        other.spec = replace(self.spec, name=name, table=f"raw.{name}")
        tables.ensure(self.spark, other.spec, self.record())
        return other


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "make"),
    [
        pytest.param("nyc_taxi", trips, id="trips"),
        pytest.param("wiki_changes", changes, id="changes", marks=pytest.mark.exhaustive),
        pytest.param("isp_hits", hits, id="hits", marks=pytest.mark.exhaustive),
    ],
)
def test_small_and_large_batches_publish_the_same(
    spark: SparkSession,
    services: Services,
    tmp_path: Path,
    schemas: Schemas,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    make: Callable[[Schemas], list[Record]],
) -> None:
    monkeypatch.setattr(batch, "RECORDS_PER_TASK", 100)
    services.minio, services.postgres  # noqa: B018
    small = Declared(spark, services, f"sizes_{name}", str(tmp_path), name)
    producer = Producer({**services.kafka, "linger.ms": 5, "log_level": 0})
    records = make(schemas)
    random.Random(1).shuffle(records)  # noqa: S311
    for number, (key, value, headers) in enumerate(records):
        producer.produce(small.spec.topic.name, value, key, partition=number % 2, headers=headers)
    assert producer.flush(30) == 0
    large = small.beside()
    for stream, size in ((small, 10_000), (large, 0)):
        monkeypatch.setattr(writer_module, "SMALL_BATCH", size)
        stream.run(stream.writer())
        stream.stop()
    rows, others = (spark.table(f"{CATALOG}.{each.spec.table}") for each in (small, large))
    assert rows.count() >= EACH
    assert differing(rows, others) == []
    quarantines = [
        spark.table(f"{CATALOG}.{each.spec.quarantine_table}").drop("quarantined_at")
        for each in (small, large)
    ]
    assert quarantines[0].count() >= 5
    assert differing(*quarantines) == []


def differing(one: DataFrame, other: DataFrame) -> list[str]:
    """The rows that are not the same in both."""
    left, right = (
        {(row["_kafka_partition"], row["_kafka_offset"]): repr(row) for row in frame.collect()}
        for frame in (one, other)
    )
    places = sorted({*left, *right})
    return [
        f"{left.get(place)} != {right.get(place)}" for place in places if left.get(place) != right.get(place)
    ]
