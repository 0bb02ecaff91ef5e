"""Tables that exist when a process starts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from sluice.config.platform_sections.lake import BUCKET_LISTS, DOCUMENTS
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.expected_refs import PREFIX
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


def test_a_new_table_has_its_documents_where_they_are_declared_and_an_older_one_in_its_folder(
    stream: Stream,
) -> None:
    """In a bucket that is not listed: nothing is looked for there before the table is made."""
    declared = {f"{PREFIX}{DOCUMENTS}": "s3://other/documents", f"{PREFIX}{BUCKET_LISTS}": "false"}
    for key, value in declared.items():
        stream.spark.conf.set(key, value)
    try:
        new = f"{stream.spec.table}_new"
        for table in (new, stream.spec.table):
            tables.create(stream.spark, table, ["text STRING"])
    finally:
        for key in declared:
            stream.spark.conf.unset(key)
    made = IcebergTable(stream.spark, new)
    assert made.documents().startswith(f"s3://other/documents/{new}-")
    older = IcebergTable(stream.spark, stream.spec.table)
    assert older.documents() == older.location()


def test_a_text_column_can_be_added_to_a_partitioned_table(stream: Stream) -> None:
    """Iceberg refuses a property of a column before the table has it."""
    spec = replace(stream.spec, table=f"{stream.spec.table}_parted", partition_by=["text"])
    text, added = StructField("text", StringType()), StructField("added", StringType())
    tables.ensure(stream.spark, spec, StructType([text]))
    tables.ensure(stream.spark, spec, StructType([text, added]))
    properties = IcebergTable(stream.spark, spec.table)._table.properties()
    assert properties.get(f"{tables.METRICS}added") == "counts"
    assert properties.get(f"{tables.METRICS}text") is None
