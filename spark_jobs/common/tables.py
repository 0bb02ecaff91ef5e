"""The tables of a stream: made when they are missing, widened when the schema grew, never narrowed."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from sluice.model.platform import CATALOG
from sluice.model.stream import StreamSpec

COORDINATES = (
    "_kafka_partition INT NOT NULL",
    "_kafka_offset BIGINT NOT NULL",
    "_kafka_timestamp TIMESTAMP",
    "_source_id STRING",
    "_source_row BIGINT",
    "_source_base BIGINT",
)
QUARANTINE = (
    "stage STRING NOT NULL COMMENT 'source: refused by the producer; topic: refused by the consumer'",
    "reason STRING NOT NULL",
    "_kafka_partition INT",
    "_kafka_offset BIGINT",
    "_kafka_timestamp TIMESTAMP",
    "key BINARY",
    "value BINARY COMMENT 'the bytes as they came'",
    "object STRING COMMENT 's3://bucket/key'",
    "line BIGINT COMMENT '1-based line of the object'",
    "_source_id STRING",
    "_source_row BIGINT COMMENT '0-based data row of the object'",
    "quarantined_at TIMESTAMP NOT NULL",
)
PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    # One Spark task reads one topic partition and writes one file: its bounds are the proof.
    "write.distribution-mode": "none",
    "write.metadata.metrics.column._source_id": "full",
    "write.metadata.metrics.column._source_base": "full",
    # Deleting leaves a delete marker in a versioned bucket; old metadata is for maintenance to expire.
    "write.metadata.delete-after-commit.enabled": "false",
    "write.metadata.previous-versions-max": "20",
}


class SchemaConflict(RuntimeError):
    """The table's column is of another type than the schema says, and cannot become it."""


def ensure(spark: SparkSession, spec: StreamSpec, record: StructType) -> None:
    """Make the stream's table and its quarantine where they are missing; add columns that ``record`` gained.

    A column that the schema no longer names stays in the table, and is null in new rows. Raises
    SchemaConflict for a changed type, naming the column, both types and the mend.
    """
    namespace = spec.table.rsplit(".", 1)[0]
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{namespace}")
    columns = [f"`{field.name}` {_sql(field.dataType)}" for field in record.fields]
    _create(spark, spec.table, [*columns, *COORDINATES])
    ensure_quarantine(spark, spec)
    present = {field.name.lower(): field for field in spark.table(f"{CATALOG}.{spec.table}").schema.fields}
    for field in record.fields:
        there = present.get(field.name.lower())
        if there is None:
            spark.sql(f"ALTER TABLE {CATALOG}.{spec.table} ADD COLUMN `{field.name}` {_sql(field.dataType)}")
        elif _sql(there.dataType) != _sql(field.dataType):
            raise SchemaConflict(
                f"{spec.table}: column {field.name} is {_sql(there.dataType)} and {spec.schema} says "
                f"{_sql(field.dataType)}; give the new type a new column name"
            )


def ensure_quarantine(spark: SparkSession, spec: StreamSpec) -> None:
    _create(spark, spec.quarantine_table, QUARANTINE)


def _create(spark: SparkSession, table: str, columns: list[str] | tuple[str, ...]) -> None:
    properties = ", ".join(
        f"'{key}' = '{value}'" for key, value in PROPERTIES.items() if _applies(key, columns)
    )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {CATALOG}.{table} ({', '.join(columns)}) USING iceberg "
        f"TBLPROPERTIES ({properties})"
    )


def _applies(key: str, columns: list[str] | tuple[str, ...]) -> bool:
    """Iceberg refuses metrics properties for columns that a table does not have."""
    prefix = "write.metadata.metrics.column."
    return not key.startswith(prefix) or any(c.split(" ")[0] == key.removeprefix(prefix) for c in columns)


def _sql(data_type: DataType) -> str:
    return data_type.simpleString().upper()
