"""Tables that exist when a process starts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import IcebergTable
from tests.support.lakehouse import Stream


def test_a_table_that_exists_is_asked_nothing_and_gets_the_properties_that_it_lacks(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each statement would read its metadata again, at every failover."""
    asked: list[str] = []
    sql = SparkSession.sql

    def asking(session: SparkSession, statement: str) -> DataFrame:
        asked.append(statement)
        return sql(session, statement)

    monkeypatch.setattr(SparkSession, "sql", asking)
    columns = ["text STRING"]
    tables.create(stream.spark, stream.spec.table, columns, tables.LOADED_ROWS)
    assert asked == []
    tables.create(stream.spark, stream.spec.table, columns, {"write.target-file-size-bytes": "1048576"})
    assert len(asked) == 1
    properties = IcebergTable(stream.spark, stream.spec.table)._table.properties()
    assert properties.get("write.target-file-size-bytes") == "1048576"


def test_a_text_column_can_be_added_to_a_partitioned_table(stream: Stream) -> None:
    """Iceberg refuses a property of a column before the table has it."""
    spec = replace(stream.spec, table=f"{stream.spec.table}_parted", partition_by=["text"])
    text, added = StructField("text", StringType()), StructField("added", StringType())
    tables.ensure(stream.spark, spec, StructType([text]))
    tables.ensure(stream.spark, spec, StructType([text, added]))
    properties = IcebergTable(stream.spark, spec.table)._table.properties()
    assert properties.get(f"{tables.METRICS}added") == "counts"
    assert properties.get(f"{tables.METRICS}text") is None
