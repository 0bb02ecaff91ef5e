"""Tables: created, widened, awaited.

The tables of a stream: made when they are missing, widened when the schema grew, never narrowed.

The stream's table, waited for by those that read it: the consumer makes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.config import ConfigError
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.schema import Partition, parse_ddl
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.lake.iceberg import IcebergTable

OFFSET_COLUMNS = (
    "_kafka_partition INT NOT NULL",
    "_kafka_offset BIGINT NOT NULL",
    "_kafka_timestamp TIMESTAMP",
    "_source_id STRING",
    "_source_row BIGINT",
    "_source_base_offset BIGINT",
)
QUARANTINE = (
    "stage STRING NOT NULL COMMENT 'rejected by the producer or the consumer'",
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
    # Deleting leaves a delete marker in a versioned bucket; old metadata is for maintenance to expire.
    "write.metadata.delete-after-commit.enabled": "false",
    "write.metadata.previous-versions-max": "20",
}
CLAIMS = {
    "write.metadata.metrics.column._source_id": "full",
    "write.metadata.metrics.column._source_base_offset": "full",
}
# A batch is shuffled, so that what belongs into one partition is in one task, and in one file.
SHUFFLED = {"write.distribution-mode": "hash"}

_TYPES: dict[str, type[DataType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "bigint": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ntz": TimestampNTZType,
}
# What a truncated partition may be of (Iceberg specification, "Truncate Transform Details").
_TRUNCATED = (IntegerType, LongType, DecimalType, StringType, BinaryType)


class IncompatibleSchema(ConfigError):
    """The table there is not the declared one, and cannot become it."""

    code = ErrorCode.INCOMPATIBLE_SCHEMA


def declared(spec: StreamSpec) -> StructType:
    """The type of a record of a stream whose schema is in Spark's DDL. Raises ConfigError."""
    columns = parse_ddl(spec.schema_file.read_text(), f"{spec.name}/{spec.schema}")
    return StructType([StructField(name, _type(kind)) for name, kind in columns.items()])


def ensure(spark: SparkSession, spec: StreamSpec, record: StructType) -> None:
    """Make the stream's table and its quarantine where they are missing; add columns that ``record`` gained.

    A column that the schema no longer names stays in the table, and is null in new rows. Raises
    IncompatibleSchema for a changed type, naming the column, both types and the mend, and for other
    partitions than ``partition_by``; ConfigError where the record has no such column.
    """
    namespace = spec.table.rsplit(".", 1)[0]
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{namespace}")
    columns = [f"`{field.name}` {_sql(field.dataType)}" for field in record.fields]
    partitions = spec.partitions
    _check_partitions(spec, partitions, record)
    _create(spark, spec.table, [*columns, *OFFSET_COLUMNS], _properties(spec, record), partitions)
    ensure_quarantine(spark, spec)
    present = {field.name.lower(): field for field in spark.table(f"{CATALOG}.{spec.table}").schema.fields}
    for field in record.fields:
        there = present.get(field.name.lower())
        if there is None:
            spark.sql(f"ALTER TABLE {CATALOG}.{spec.table} ADD COLUMN `{field.name}` {_sql(field.dataType)}")
        elif _sql(there.dataType) != _sql(field.dataType):
            raise IncompatibleSchema(
                f"{spec.table}: column {field.name} is {_sql(there.dataType)} and {spec.schema} says "
                f"{_sql(field.dataType)}; give the new type a new column name"
            )
    found = IcebergTable(spark, spec.table).partitions()
    if found != [str(partition) for partition in partitions]:
        raise IncompatibleSchema(
            f"{spec.table}: is partitioned by {', '.join(found) or 'nothing'}, and stream.toml says "
            f"partition_by = {spec.partition_by}; declare what is there, or name a new table"
        )
    _ensure_order(spark, spec.table, [partition.column for partition in partitions if partition.width])


def ensure_quarantine(spark: SparkSession, spec: StreamSpec) -> None:
    _create(spark, spec.quarantine_table, QUARANTINE, PROPERTIES)


def _check_partitions(spec: StreamSpec, partitions: Sequence[Partition], record: StructType) -> None:
    """Raises ConfigError where the record has no such column, or one that cannot be truncated."""
    for partition in partitions:
        if partition.column not in record.fieldNames():
            raise ConfigError(
                f"stream {spec.name}: partition_by {str(partition)!r} is no column of {spec.schema}"
            )
        kind = record[partition.column].dataType
        if partition.width and not isinstance(kind, _TRUNCATED):
            raise ConfigError(
                f"stream {spec.name}: partition_by {str(partition)!r}: {partition.column} is a "
                f"{kind.simpleString()}, and only texts and numbers can be truncated; write "
                f"{partition.column!r}"
            )


def _ensure_order(spark: SparkSession, table: str, columns: Sequence[str]) -> None:
    """Let every file be sorted by ``columns``: it holds many values of them, and a reader of one value skips
    what lies before and behind it. A table that has an order keeps it."""
    if not columns:
        return
    rows = spark.sql(f"SHOW TBLPROPERTIES {CATALOG}.{table}").collect()
    if not any(row["key"] == "sort-order" for row in rows):
        names = ", ".join(f"`{name}`" for name in columns)
        spark.sql(f"ALTER TABLE {CATALOG}.{table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {names}")


def _properties(spec: StreamSpec, record: StructType) -> dict[str, str]:
    if not spec.partition_by:
        return PROPERTIES | CLAIMS
    # There are many files, and each is in a manifest with the bounds of its columns. Of texts they say little
    # and take most of the room.
    partitioned = [partition.column for partition in spec.partitions]
    texts = [
        field.name
        for field in record.fields
        if isinstance(field.dataType, StringType) and field.name not in partitioned
    ]
    counted = {f"write.metadata.metrics.column.{name}": "counts" for name in texts}
    return PROPERTIES | CLAIMS | SHUFFLED | counted


def _create(
    spark: SparkSession,
    table: str,
    columns: Sequence[str],
    properties: Mapping[str, str],
    partitions: Sequence[Partition] = (),
) -> None:
    values = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    fields = ", ".join(partition.sql for partition in partitions)
    partitioned = f"PARTITIONED BY ({fields})" if fields else ""
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {CATALOG}.{table} ({', '.join(columns)}) USING iceberg {partitioned} "
        f"TBLPROPERTIES ({values})"
    )


def _type(kind: str) -> DataType:
    """``StructType.fromDDL`` wants a session, and a consumer knows its columns before it has one."""
    if kind.startswith("decimal"):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return DecimalType(int(precision), int(scale))
    return _TYPES[kind]()


def _sql(data_type: DataType) -> str:
    return data_type.simpleString().upper()


Say = Callable[[str, str, Mapping[int, int]], None]


def await_table(spark: SparkSession, table: str, say: Say, seconds: float, stop: threading.Event) -> bool:
    """Until ``table`` is there, looked for every so many ``seconds``; False when asked to stop before.

    ``say`` is told meanwhile, as :meth:`HeartbeatThread.say` is.
    """
    while not spark.catalog.tableExists(f"{CATALOG}.{table}"):
        say("idle", f"waiting for table {table}, which the consumer makes", {})
        if stop.wait(seconds):
            return False
    return True
