"""Tables whose columns are followed: the ids in files, and the schemas that metadata keeps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.followed.documents import SCHEMA
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, WriterLease
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.common.maintenance.staged_change import StagedChange
from spark_jobs.common.maintenance.staged_files import CommitConflict
from spark_jobs.common.spark.session import catalog_options
from tests.support.lakehouse import commit, restore_catalog
from tests.support.raising import raising
from tests.support.services import Services

OWN = "_kafka_partition INT, _kafka_offset BIGINT, _source_id STRING, _source_base_offset BIGINT"
TEXT = pa.string()
ONE = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", TEXT)]))])
TWO = pa.schema([*ONE, ("b", TEXT)])
THREE = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", TEXT), ("y", TEXT)])), ("b", TEXT)])


@pytest.fixture(autouse=True)
def lake(spark: SparkSession, services: Services, configure: Callable[[dict[str, str]], None]) -> None:
    services.minio, services.postgres  # noqa: B018 - started
    configure(catalog_options(services.stack.platform("consumer")))


def made(spark: SparkSession, name: str, *columns: str) -> IcebergTable:
    tables.create(spark, name, ["id BIGINT", *columns])
    table = IcebergTable(spark, name)
    commit(table, {"sluice.kind": "epoch-start"})
    return table


def follow(table: IcebergTable, before: str, columns: pa.Schema, digest: str) -> None:
    table.refresh()
    table.change_schema({MAIN: table.head(MAIN)}, before, columns, {SCHEMA: digest})
    table.refresh()


def metadata(table: IcebergTable) -> Any:
    return table._table.operations().refresh()


def test_what_was_written_before_a_catalog_was_restored_is_not_read_into_other_columns(
    spark: SparkSession, services: Services
) -> None:
    """The stream follows the same versions again in one batch, which gives columns other ids: the schema that
    the table follows is the same."""
    platform, gone = services.stack.platform("consumer"), OffsetRanges.of({0: [(0, 1)]})
    spark.sql(f"DROP TABLE IF EXISTS {CATALOG}.raw.ids")
    table = made(spark, "raw.ids", OWN)
    spark.sql(f"INSERT INTO {CATALOG}.raw.ids VALUES (1, 0, 0, NULL, NULL)")
    table.refresh()
    before = str(metadata(table).metadataFileLocation())
    for earlier, columns, digest in (("", ONE, "1"), ("1", TWO, "2"), ("2", THREE, "3")):
        follow(table, earlier, columns, digest)
    lease = WriterLease(spark, "raw.ids", "the stream")
    lease.written_schema()
    lease._check_schema()
    with StagedChange(spark, "raw.ids", OffsetReader(connect(platform.s3))) as staged:
        touched = staged.touched(gone)
        added = staged.written(
            spark.sql(
                "SELECT 1L id, 0 _kafka_partition, 0L _kafka_offset, CAST(NULL AS STRING) _source_id, "
                "CAST(NULL AS BIGINT) _source_base_offset, named_struct('x', 'X', 'y', 'Y') s, 'B' b"
            )
        )
        with closing(Lake.open(platform)) as opened:
            restore_catalog(opened, {"raw.ids": before})
        follow(table, "", THREE, "3")
        with raising(CommitConflict, "raw.ids", "s.y string with id", "nothing was published", "Fix: "):
            staged.publish(touched.files, added, "c1", lambda _: {"sluice.kind": "change"})
    lease.table.refresh()
    with raising(ConcurrentCommit, "raw.ids", "s.y string with id", "restored"):
        lease._check_schema()
    # Written for the table as it is.
    lease.written_schema()
    lease._check_schema()


def test_schemas_of_no_snapshot_leave_the_metadata_with_the_snapshots(spark: SparkSession) -> None:
    spark.sql(f"DROP TABLE IF EXISTS {CATALOG}.raw.grown")
    table, columns, before = made(spark, "raw.grown"), [pa.field("id", pa.int64())], ""
    for number in range(8):
        columns.append(pa.field(f"c{number}", TEXT))
        follow(table, before, pa.schema(columns), before := str(number))
        if number % 2:
            commit(table, {"sluice.kind": "batch"})
            table.refresh()
    first, *_, current = sorted(int(one.schemaId()) for one in metadata(table).schemas())
    assert current >= 8
    staged = table.stage({"sluice.kind": "batch"})
    table.change_refs({MAIN: table.head(MAIN)}, {MAIN: staged}, table.expirable(2, 2**62))
    found = metadata(table)
    used = {int(one.schemaId()) for one in found.snapshots()}
    assert {int(one.schemaId()) for one in found.schemas()} == {first, *used, current}
    assert current in used
    assert len(used) == 2
    # And the table goes on.
    follow(table, before, pa.schema([*columns, ("more", TEXT)]), "more")
    spark.sql(f"REFRESH TABLE {CATALOG}.raw.grown")
    assert spark.table(f"{CATALOG}.raw.grown").columns == ["id", *(f"c{n}" for n in range(8)), "more"]
