"""Rows as plain files in folders, in a MinIO of its own: each once, however often it is written."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import count
from typing import Any

import pytest
from pyarrow import dataset, fs, parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.files import FilesSink
from spark_jobs.common.sinks.parquet_folders import MarkerStore
from spark_jobs.common.spark.failures import Fenced
from tests.support.raising import raising
from tests.support.services import Services

COLUMNS = "hit_id string, hittime timestamp, day date, zipcode string, bytes bigint"
DAY = date(2026, 1, 31)
_numbers = count()


class ObservedComponent(MarkerStore):
    """Calls ``before`` with the kind of each object that is about to be made."""

    def __init__(self, client: Any, bucket: str, prefix: str, before: Callable[[str], None]) -> None:
        super().__init__(client, bucket, prefix)
        self._before = before

    def put(self, kind: str, number: int, document: Mapping[str, Any]) -> bool:
        self._before(kind)
        return super().put(kind, number, document)


class Interrupted(FilesSink):
    """A sink that is interrupted before it makes an object of a kind, or writes its ``files``: what is in
    ``then`` for that is done once. Its tasks write to ``tasks_s3`` where that is given."""

    def __init__(self, *given: Any, tasks_s3: S3 | None = None) -> None:
        super().__init__(*given)
        self.then: dict[str, Callable[[], object]] = {}
        client = connect(self._s3)
        self._markers = ObservedComponent(client, self._bucket, f"{self._prefix}_sluice/", self._interrupt)
        self._s3 = tasks_s3 or self._s3

    def _interrupt(self, kind: str) -> None:
        self.then.pop(kind, lambda: None)()

    def _write_files(self, batch: int, rows: DataFrame) -> dict[str, int]:
        self._interrupt("files")
        return super()._write_files(batch, rows)


class Death(Exception):
    """The sink's process dies."""


class StreamPosition:
    """A prefix of a test's own, written as the consumer and read as a reader."""

    def __init__(self, spark: SparkSession, services: Services) -> None:
        self.spark, self.client = spark, services.minio
        self.writes = services.stack.platform("consumer").s3
        self._reads = services.stack.platform("reader").s3
        self.prefix = f"files/hits_{next(_numbers)}/"
        self.query = Query(
            sinks=[Sink("files", prefix=self.prefix)], group_by=["zipcode", "day"], mode="append"
        )

    def sink(self, epoch: int | None = None, tasks_s3: S3 | None = None) -> Interrupted:
        declared = self.query.sinks[0]
        target = Target("isp", "hits", self.query, declared, threading.Event())
        made = Interrupted(target, self.writes, "s3://warehouse/lake", tasks_s3=tasks_s3)
        if epoch:
            made.open(epoch)
        return made

    def hits(self, *zipcodes: str | None, batch: int = 0, days: int = 1) -> DataFrame:
        """Three hits of each zipcode on each day."""
        at = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
        rows = [
            (f"{batch}-{zipcode}-{number}-{day}", at, DAY + timedelta(day), zipcode, number)
            for number in range(3)
            for day in range(days)
            for zipcode in zipcodes
        ]
        return self.spark.createDataFrame(rows, COLUMNS)

    def objects(self) -> dict[str, str]:
        """Key below the prefix -> version; only the files that readers see."""
        found = self.client.list_object_versions(Bucket="warehouse", Prefix=self.prefix)["Versions"]
        keys = [(entry["Key"].removeprefix(self.prefix), entry["VersionId"]) for entry in found]
        assert len({key for key, _ in keys}) == len(keys), "nothing was written twice"
        return {key: version for key, version in keys if not key.startswith("_")}

    def read(self) -> list[dict[str, Any]]:
        """What a reader finds who knows no more than the layout."""
        endpoint = self._reads.endpoint.removeprefix("http://")
        s3 = fs.S3FileSystem(
            access_key=self._reads.access_key,
            secret_key=self._reads.secret_key,
            endpoint_override=endpoint,
            scheme="http",
        )
        found = dataset.dataset(
            f"warehouse/{self.prefix}".rstrip("/"), filesystem=s3, format="parquet", partitioning=_hive()
        )
        rows: list[dict[str, Any]] = found.to_table().to_pylist()
        return rows

    def ids(self) -> Counter[str]:
        return Counter(row["hit_id"] for row in self.read())


def _hive() -> Any:
    import pyarrow

    schema = pyarrow.schema([("zipcode", pyarrow.string()), ("day", pyarrow.date32())])
    return dataset.partitioning(schema, flavor="hive")


def ids(*frames: DataFrame) -> Counter[str]:
    return Counter(row["hit_id"] for rows in frames for row in rows.collect())


@pytest.fixture
def place(spark: SparkSession, services: Services) -> StreamPosition:
    return StreamPosition(spark, services)


def test_a_reader_of_folders_finds_exactly_the_rows(place: StreamPosition) -> None:
    odd = ["10115", "a b", "a/b=c%", "żółć", "50%:50"]
    rows = place.hits(*odd, None, days=2)
    assert place.sink(1).write(0, rows)
    expected = [row.asDict() | {"hittime": row["hittime"].replace(tzinfo=UTC)} for row in rows.collect()]
    by_id = {row["hit_id"]: row for row in place.read()}
    assert len(place.read()) == len(expected)
    assert by_id == {row["hit_id"]: row for row in expected}
    keys = place.objects()
    assert len(keys) == 12, "one file a folder"
    assert "zipcode=10115/day=2026-01-31/b000000000000.parquet" in keys
    assert "zipcode=__HIVE_DEFAULT_PARTITION__/day=2026-02-01/b000000000000.parquet" in keys
    assert "zipcode=a%2Fb%3Dc%25/day=2026-01-31/b000000000000.parquet" in keys


def test_a_batch_that_is_there_is_not_written_again(place: StreamPosition) -> None:
    first = place.sink()
    assert first.open(1) is None
    # Over the number of digits, so that they are not listed as texts are.
    batches = {number: place.hits("10115", "20095", batch=number) for number in (9, 10, 11)}
    assert [first.write(number, rows) for number, rows in batches.items()] == [True] * 3
    before = place.objects()
    assert not first.write(11, batches[11])
    second = place.sink()
    assert (second.open(2), second.open(3)) == (11, 11)
    assert not second.write(11, batches[11])
    assert second.write(12, place.hits(batch=12)), "a batch without rows is a batch"
    assert place.objects() == before
    assert place.ids() == ids(*batches.values())
    said = place.client.get_object(
        Bucket="warehouse", Key=f"{place.prefix}_sluice/committed/{10**15 - 1 - 11:015d}.json"
    )["Body"].read()
    assert b'"batch": 11, "epoch": 1, "files": 2, "rows": 6' in said


def half(sink: Interrupted, number: int, rows: DataFrame) -> None:
    """The writer dies when it has begun a batch and written some of its folders."""

    def die() -> None:
        raise Death

    sink.then["committed"] = die
    with pytest.raises(Death):
        sink.write(number, rows)


def test_a_batch_that_was_begun_is_told_and_completed(place: StreamPosition) -> None:
    rows = place.hits("10115", "20095", "50667")
    dead = place.sink(1)
    # Only some of its rows: those whose tasks were done.
    half(dead, 0, rows.where("zipcode < '3'"))
    before = place.objects()
    successor = place.sink()
    assert successor.open(2) == 0, "begun, though not whole"
    assert successor.write(0, rows.orderBy(F.desc("hit_id")))
    assert place.ids() == ids(rows)
    assert before.items() < place.objects().items()


def widened(rows: DataFrame) -> DataFrame:
    """As a query reads them that began when the stream's table had followed a further schema."""
    return rows.withColumns(
        {
            "bytes": F.col("bytes").cast("bigint"),
            "client": F.struct(F.col("client")["name"].alias("name"), F.lit("v2").alias("version")),
            "channel": F.lit("web"),
        }
    ).select("channel", *rows.columns)


@pytest.mark.exhaustive
def test_a_batch_that_was_begun_before_columns_came_or_became_wider_is_completed_as_it_was_begun(
    place: StreamPosition,
) -> None:
    rows = place.hits("10115", "20095", "50667")
    rows = rows.withColumn("bytes", F.col("bytes").cast("int"))
    rows = rows.withColumn("client", F.struct(F.lit("app").alias("name")))
    half(place.sink(1), 0, rows.where("zipcode < '3'"))
    successor = place.sink()
    assert successor.open(2) == 0
    assert successor.write(0, widened(rows))
    assert place.ids() == ids(rows)
    assert all(row["client"] == {"name": "app"} and "channel" not in row for row in place.read())
    later = place.hits("10115", batch=1).withColumn("client", F.struct(F.lit("app").alias("name")))
    assert successor.write(1, widened(later))
    (wide,) = [key for key in place.objects() if key.endswith("b000000000001.parquet")]
    file = place.client.get_object(Bucket="warehouse", Key=f"{place.prefix}{wide}")["Body"].read()
    assert {"channel": "web", "client": {"name": "app", "version": "v2"}}.items() <= (
        parquet.read_table(BytesIO(file)).to_pylist()[0].items()
    )


def test_a_batch_that_was_begun_before_its_columns_were_kept_is_completed_with_those_that_there_are(
    place: StreamPosition,
) -> None:
    rows = place.hits("10115")
    key = f"{place.prefix}_sluice/started/{10**15 - 1:015d}.json"
    place.client.put_object(Bucket="warehouse", Key=key, Body=b'{"batch": 0, "epoch": 1}')
    sink = place.sink()
    assert sink.open(2) == 0
    assert sink.write(0, rows)
    assert place.ids() == ids(rows)


def test_other_rows_under_the_same_number_are_noticed(place: StreamPosition) -> None:
    dead = place.sink(1)
    half(dead, 0, place.hits("10115"))
    successor = place.sink(2)
    with raising(SinkWriteFailed, "10115/day=2026-01-31/b000000000000.parquet"):
        successor.write(0, place.hits("10115", batch=7))
    assert place.ids() == ids(place.hits("10115"))


@pytest.mark.exhaustive
def test_a_batch_that_another_writer_completed_with_fewer_folders_is_noticed(place: StreamPosition) -> None:
    one, other = place.sink(1), place.sink()
    # After the first one's last look at the epochs.
    one.then["committed"] = lambda: other.open(2)
    assert one.write(0, place.hits("10115"))
    with raising(SinkWriteFailed, "writer 1", "batch 0", "'files': 1, 'rows': 3", "'files': 2, 'rows': 6"):
        other.write(0, place.hits("10115", "20095"))


def test_an_earlier_writer_begins_no_batch_and_does_not_come_back(place: StreamPosition) -> None:
    zombie = place.sink(1)
    place.sink(2)
    with raising(Fenced, "isp hits", place.prefix, "writer epoch 1, newer epoch 2"):
        zombie.write(0, place.hits("10115"))
    with pytest.raises(Fenced):
        zombie.open(1)
    assert place.objects() == {}
    assert place.sink().open(3) is None, "nor did it say that it would"


def test_who_saw_no_later_writer_and_entered_behind_one_gives_up(place: StreamPosition) -> None:
    zombie = place.sink()
    zombie.then["writers"] = lambda: place.sink(2)
    with raising(Fenced, "writer epoch 1, newer epoch 2"):
        zombie.open(1)


def test_a_zombie_that_sleeps_before_it_says_that_it_begins_writes_no_file(place: StreamPosition) -> None:
    zombie = place.sink(1)
    zombie.then["started"] = lambda: place.sink(2)
    with pytest.raises(Fenced):
        zombie.write(0, place.hits("10115"))
    assert place.objects() == {}


def test_a_zombie_that_sleeps_in_its_batch_writes_what_its_successor_writes(place: StreamPosition) -> None:
    rows = place.hits("10115", "20095")
    zombie = place.sink(1)
    entered = list[int | None]()

    def acquire() -> None:
        successor = place.sink()
        entered.append(successor.open(2))
        assert successor.write(0, rows)

    zombie.then["files"] = acquire
    with pytest.raises(Fenced):
        zombie.write(0, rows)
    assert entered == [0]
    assert place.ids() == ids(rows)


def test_s3_that_refuses_or_is_away_is_said_with_the_fix_and_no_secret(
    place: StreamPosition, services: Services
) -> None:
    good = place.writes
    place.writes = services.stack.platform("reader").s3
    with raising(SinkWriteFailed, "isp hits", "AccessDenied", "'warehouse'"):
        place.sink(1)
    place.writes = replace(good, endpoint="http://127.0.0.1:1")
    with raising(SinkWriteFailed, "isp hits", "127.0.0.1:1") as away:
        place.sink(1)
    assert good.secret_key not in str(away.value)
    place.writes = good
    # The tasks' own connections.
    sink = place.sink(1, tasks_s3=replace(good, endpoint="http://127.0.0.1:1"))
    with pytest.raises(SinkWriteFailed) as away:
        sink.write(0, place.hits("10115"))
    assert "127.0.0.1:1" in str(away.value).splitlines()[0]
    assert good.secret_key not in str(away.value)
    assert place.sink(2).write(0, place.hits("10115"))
