"""The odd names that a declaration may have, in a real table that is created, extended, written, compacted,
changed and read; and the names that Iceberg keeps for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from sluice.clients.lake.catalog import Lake
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.reading import names
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import tables
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.compact import compact
from tests.support.lakehouse import Stream
from tests.support.services import Services

# Words of SQL, names of columns that jobs and libraries use beside a table's, and ends of partition fields.
ODD = [
    *("select", "Order", "FROM", "null", "not", "interval", "timestamp", "table"),
    *("key", "value", "headers", "topic", "partition", "offset", "record", "reason", "text"),
    *("before", "after", "changed", "row", "file_path", "pos", "sequence", "duplicate", "island", "newest"),
    *("at_partition", "at_block", "at_mask", "values_hash", "start", "until", "window", "window_start"),
    *("_c0", "_corrupt_record", "_metadata", "_window", "_id", "X_bucket", "x_bucket_10", "A", "x" * 128),
]
NESTED = StructType([StructField(name, StringType()) for name in ODD])
RECORD = StructType(
    [
        *(StructField(name, StringType()) for name in ODD),
        StructField("Inner", NESTED),
        StructField("list", ArrayType(NESTED)),
        StructField("map", MapType(StringType(), NESTED)),
        StructField("number", LongType()),
    ]
)
# A word of SQL, and a name of Iceberg's own tables of a table.
TABLE = "select.files"


class OddStream(Stream):
    """Each record has its text in every column."""

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        writer = super().writer(kind)
        writer.rows_of = self.rows_of(self.decode)
        return writer

    @staticmethod
    def decode(rows: DataFrame) -> DataFrame:
        text = F.col("value").cast("string")
        nested = F.struct(*(text.alias(name) for name in ODD))
        record = F.struct(
            *(text.alias(name) for name in ODD),
            nested.alias("Inner"),
            F.array(nested).alias("list"),
            F.create_map(text, nested).alias("map"),
            F.lit(7).cast("long").alias("number"),
        )
        return rows.select("*", record.alias("record"), F.lit(None).cast("string").alias("reason"))


@pytest.fixture(
    params=[
        pytest.param((), id="plain"),
        pytest.param(("number", "truncate(1, text)"), id="partitioned", marks=pytest.mark.exhaustive),
    ]
)
def stream(
    spark: SparkSession, services: Services, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[OddStream]:
    services.minio, services.postgres  # noqa: B018
    made = OddStream(spark, services, f"names_{len(request.param)}", str(tmp_path / "checkpoints"))
    table = f"{TABLE}{len(request.param)}" if request.param else TABLE
    made.spec = replace(made.spec, table=table, partition_by=list(request.param))
    yield made
    made.stop()


@pytest.mark.exhaustive
def test_odd_names_are_carried_by_every_step(stream: OddStream) -> None:
    spark, spec = stream.spark, stream.spec
    names.check_columns(RECORD.fieldNames(), "test")
    # Created with some, and the others added, as when a schema has grown.
    tables.ensure(spark, spec, StructType([RECORD[name] for name in ("A", "Inner", "text", "number")]))
    tables.ensure(spark, spec, RECORD)
    tables.ensure(spark, spec, RECORD)
    for batch in range(6):
        stream.services.send(spec.topic.name, {0: [f"b{batch}".encode()], 1: [f"c{batch}".encode()]})
        stream.run(stream.writer()).stop()
    before = rows(stream)
    assert len(before) == 12
    assert before[0]["Inner"]["Order"] == before[0]["list"][0]["select"] == before[0]["x" * 128]
    assert compact(spark, spec.table, date(2026, 1, 1))
    assert rows(stream) == before
    exchanged = OffsetRanges.of({0: [(1, 3)], 1: [(0, 1)]})
    plan = ChangePlan("r1", Action.REPLAY, spec.topic.name, rows_out=exchanged, rows_in=exchanged, changes=0)
    Change(spark, stream.platform, spec, lambda _: stream.decode, plan).run()
    assert rows(stream) == before
    with closing(Lake.open(stream.platform)) as lake:
        read = lake.table(spec.table).scan().to_arrow()
    assert read.num_rows == 12
    assert {field.name for field in read.schema} >= set(RECORD.fieldNames())
    with duckdb.connect() as connection:
        connection.register("rides", read)
        chosen = connection.execute('select "Order", "Inner"."FROM", "select" from rides order by "Order"')
        assert chosen.fetchone() == ("b0", "b0", "b0")


def rows(stream: OddStream) -> list[dict[str, Any]]:
    table = stream.spark.table(f"{CATALOG}.{stream.spec.table}")
    found = table.orderBy("_kafka_partition", "_kafka_offset").collect()
    return [row.asDict(recursive=True) for row in found]


def test_the_names_that_iceberg_keeps_for_itself_are_those_that_are_refused(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    columns = jvm.org.apache.iceberg.MetadataColumns
    own = {columns.PARTITION_COLUMN_NAME}
    for field in jvm.java.lang.Class.forName("org.apache.iceberg.MetadataColumns").getFields():
        value = field.get(None)
        if field.getType().getSimpleName() == "NestedField" and value.name().startswith("_"):
            own.add(value.name())
    assert own == names.ICEBERG
