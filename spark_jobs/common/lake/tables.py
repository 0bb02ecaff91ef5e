"""Iceberg tables: create, add columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from sluice.config.platform_sections.lake import BUCKET_LISTS, CATALOG, DOCUMENTS
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.known_tables import CREATED_AT
from sluice.core.tables.storage import PLACE
from spark_jobs.common.lake import promises
from spark_jobs.common.lake.clock import committing, now_ms
from spark_jobs.common.lake.expected_refs import PREFIX, is_missing
from spark_jobs.common.lake.followed import declared_columns
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
    "_kafka_timestamp_type INT COMMENT '0: of the sender, 1: of the broker'",
    "key BINARY",
    "value BINARY COMMENT 'the bytes as they came'",
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "object STRING COMMENT 's3://bucket/key'",
    "line BIGINT COMMENT '1-based line of the object'",
    "_source_id STRING",
    "_source_row BIGINT COMMENT '0-based data row of the object'",
    "_source_base_offset BIGINT",
    "quarantined_at TIMESTAMP NOT NULL",
)
# Properties of every table.
PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    # A task of a large batch reads one topic partition and writes one file: its bounds verify its offsets.
    "write.distribution-mode": "none",
    # A delete leaves a delete marker in a versioned bucket; maintenance expires old metadata.
    "write.metadata.delete-after-commit.enabled": "false",
    # The writer reads from them how many objects a batch wrote, at every tenth batch: more than those have.
    "write.metadata.previous-versions-max": "60",
    "write.metadata.compression-codec": "gzip",
    # Every hundredth commit writes the newest manifests again, as one, until it has this size: by default
    # 8 MB, so a small batch would cost more the more came before it.
    "commit.manifest.target-size-bytes": str(1024 * 1024),
}
# And the name of a column.
METRICS = "write.metadata.metrics.column."
LOADED_ROWS = {f"{METRICS}_source_id": "full", f"{METRICS}_source_base_offset": "full"}
# Property of a partitioned table: the rows of a partition are in one task, and in one file.
SHUFFLED = {"write.distribution-mode": "hash"}

_METADATA_FILE = re.compile(r"/(\d+)-[^/]+\.metadata\.json$")
_NOT_FOUND = "org.apache.iceberg.exceptions.NoSuchTableException"
_ALREADY_EXISTS = "org.apache.iceberg.exceptions.AlreadyExistsException"

# Iceberg specification, "Truncate Transform Details".
_TRUNCATED = (IntegerType, LongType, DecimalType, StringType, BinaryType)


class IncompatibleSchema(ConfigError):
    """The existing table is not the declared one and cannot be changed to it."""

    code = ErrorCode.INCOMPATIBLE_SCHEMA


class WiderTable(IncompatibleSchema):
    """The existing table follows the schemas of its records, and has a wider column than what it is read
    with. ``what`` is; ``fix``: other than to declare the type."""

    def __init__(self, what: str, schema: str, fix: str = "") -> None:
        self.what, self.schema = what, schema
        declare = f"give the columns in {schema} the types that the table has"
        super().__init__(f"{what}. Fix: {f'{fix}; or ' if fix else ''}{declare}")


class TableLost(ConfigError):
    """The catalog does not have the table, and the bucket has its files."""

    code = ErrorCode.TABLE_LOST


class TableReplaced(ConfigError):
    """The catalog has another table of the name than the one that the ledger knows."""

    code = ErrorCode.TABLE_REPLACED


def declared(spec: StreamSpec) -> StructType:
    """Return the type of a value of a stream without an Avro schema; needs a session. Raises ConfigError."""
    return struct(spec.ddl_columns)


def struct(columns: Mapping[str, str]) -> StructType:
    """The type of a record with these columns, by their types in Spark's DDL; needs a session."""
    record = DataType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
    assert isinstance(record, StructType)
    return record


def create(
    spark: SparkSession,
    table: str,
    columns: Sequence[str],
    properties: Mapping[str, str] = MappingProxyType({}),
    partitions: Sequence[str] = (),
) -> None:
    """Create the table and its namespace if they are missing; ``properties`` override PROPERTIES.

    A table that exists gets its missing properties, but of columns that it does not have yet: Iceberg refuses
    such a property. Raises TableLost if the catalog, restored or lost, does
    not know a table whose files are there, CatalogBroken for one that breaks a promise.
    """
    promises.check(spark)
    wanted = PROPERTIES | dict(properties) | _placed(spark, table)
    existing = load(spark, table)
    if existing is None:
        partitioned = f"PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{table.rsplit('.', 1)[0]}")
        check_not_lost(spark, table)
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {CATALOG}.{table} ({', '.join(columns)}) USING iceberg "
            f"{partitioned} TBLPROPERTIES ({_sql_properties(wanted)})"
        )
        return
    # The version of a table that exists is none of its properties, and its creation is not now.
    names = wanted.keys() - {"format-version", CREATED_AT, PLACE}
    present, schema = existing.properties(), existing.schema()
    if missing := {
        name: wanted[name]
        for name in sorted(names)
        if not present.containsKey(name)
        and (not name.startswith(METRICS) or schema.findField(name.removeprefix(METRICS)) is not None)
    }:
        _alter(spark, table, f"SET TBLPROPERTIES ({_sql_properties(missing)})")


def _placed(spark: SparkSession, table: str) -> dict[str, str]:
    """Where a new table's documents are, if not in its folder: each table has a place of its own, as one that
    is made again under its name has a folder."""
    declared = cast("str", spark.conf.get(f"{PREFIX}{DOCUMENTS}", ""))
    return {PLACE: f"{declared}/{table}-{uuid4().hex[:8]}"} if declared else {}


def _sql_properties(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def _in_catalog(spark: SparkSession, table: str) -> tuple[Any, Any]:
    """Iceberg's catalog, and its identifier of the table."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    identifiers = cast("Any", spark._jvm).org.apache.iceberg.catalog.TableIdentifier
    return manager.catalog(CATALOG).icebergCatalog(), identifiers.parse(table)


def load(spark: SparkSession, table: str) -> Any:
    """Iceberg's table; None if there is no such table. Reads it once: Spark's statements would three times,
    at every start."""
    catalog, name = _in_catalog(spark, table)
    try:
        return catalog.loadTable(name)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _NOT_FOUND:
            raise
    # Another process may have created it meanwhile.
    return None if is_missing(spark, table) else catalog.loadTable(name)


def check_not_lost(spark: SparkSession, table: str) -> None:
    """Raises TableLost, with the metadata file to register, if the bucket has one of a table that the catalog
    does not have."""
    if spark.conf.get(f"{PREFIX}{BUCKET_LISTS}", "") == "false":
        # Then the ledger alone knows of lost tables: sluice.core.tables.known_tables.
        return
    # A new, empty table in its place would start where the topic now begins, without what was published.
    catalog, name = _in_catalog(spark, table)
    jvm = cast("Any", spark._jvm)
    no_columns = jvm.org.apache.iceberg.Schema(jvm.java.util.ArrayList())
    try:
        # Never committed: it has the location of a new table, and the catalog's access to files.
        new = catalog.newCreateTableTransaction(name, no_columns).table()
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _ALREADY_EXISTS:
            return
        raise
    found = [
        (int(match[1]), int(file.createdAtMillis()), str(file.location()))
        for file in new.io().listPrefix(f"{new.location()}/metadata/").iterator()
        if (match := _METADATA_FILE.search(str(file.location())))
    ]
    # Number 0 is of a creation, which another process may have begun, or was killed in: no rows.
    newest = max((file for file in found if file[0] > 0), default=None)
    if newest is not None and load(spark, table) is None:
        raise TableLost(
            f"{table}: not in the catalog, and the bucket has its metadata file {newest[2]}. Fix: register "
            "that file in the catalog (docs/operating.md, Table lost by the catalog), restore the catalog's "
            "backup, or name a new table"
        )


def ensure(spark: SparkSession, spec: StreamSpec, record: StructType) -> None:
    """Create the stream's table and quarantine if they are missing, and add new columns of ``record``.

    A column that the schema no longer has stays in the table, null in new rows. Of a table that follows the
    schemas of its records, columns become as wide as ``record``. Raises IncompatibleSchema for another type
    (WiderTable, if the table follows) or other partitions than ``partition_by``, ConfigError for a partition
    of no column.
    """
    _check_partitions(spec, record)
    columns = [f"`{field.name}` {_sql(field.dataType)}" for field in record.fields]
    properties = _properties(spec, record) | {CREATED_AT: str(now_ms())}
    partitions = [partition.sql for partition in spec.partitions]
    create(spark, spec.table, [*columns, *OFFSET_COLUMNS], properties, partitions)
    create(spark, spec.quarantine_table, QUARANTINE)
    present = {field.name.lower(): field for field in spark.table(f"{CATALOG}.{spec.table}").schema.fields}
    added = [field for field in record.fields if field.name.lower() not in present]
    wider = list[StructField]()
    for field in record.fields:
        existing = present.get(field.name.lower())
        if existing is None:
            _alter(spark, spec.table, f"ADD COLUMN `{field.name}` {_sql(field.dataType)}")
        # Fields of a record as they are spelled: others would be null in a file.
        elif _sql(existing.dataType) != _sql(field.dataType):
            if not spec.follows or not declared_columns.covers(field.dataType, existing.dataType):
                raise _incompatible(spec, existing, field)
            wider.append(StructField(existing.name, field.dataType))
    if wider:
        with committing(spark, spec.table):
            declared_columns.widen(spark, load(spark, spec.table), wider)
    if added:
        # The properties of these columns.
        create(spark, spec.table, [*columns, *OFFSET_COLUMNS], properties, partitions)
    check_partitioning(spark, spec)
    _ensure_order(spark, spec.table, [partition.column for partition in spec.partitions if partition.width])


def check_columns(spark: SparkSession, spec: StreamSpec, record: StructType) -> None:
    """Raises IncompatibleSchema if the table has a column of ``record`` with another type."""
    present = {field.name.lower(): field for field in spark.table(f"{CATALOG}.{spec.table}").schema.fields}
    for field in record.fields:
        existing = present.get(field.name.lower())
        if existing is not None and _sql(existing.dataType) != _sql(field.dataType):
            raise _incompatible(spec, existing, field)


def _incompatible(spec: StreamSpec, existing: StructField, field: StructField) -> IncompatibleSchema:
    what = (
        f"{spec.table}: column {field.name} is {_sql(existing.dataType)} and {spec.schema} says "
        f"{_sql(field.dataType)}"
    )
    if spec.follows and declared_columns.covers(existing.dataType, field.dataType):
        return WiderTable(what, spec.schema)
    return IncompatibleSchema(f"{what}. Fix: give the new type a new column name")


def check_partitioning(spark: SparkSession, spec: StreamSpec) -> None:
    """Raises IncompatibleSchema if the table has other partitions than ``partition_by``."""
    partitions = IcebergTable(spark, spec.table).partitions()
    if partitions != [str(partition) for partition in spec.partitions]:
        raise IncompatibleSchema(
            f"{spec.table}: partitioned by {', '.join(partitions) or 'nothing'}, and stream.toml says "
            f"partition_by = {spec.partition_by}. Fix: declare the table's partitions, or name a new table"
        )


def _check_partitions(spec: StreamSpec, record: StructType) -> None:
    for partition in spec.partitions:
        if partition.column not in record.fieldNames():
            raise ConfigError(
                f"stream {spec.name}: partition_by {str(partition)!r} is no column of {spec.schema}"
            )
        kind = record[partition.column].dataType
        if isinstance(kind, FloatType | DoubleType):
            raise ConfigError(
                f"stream {spec.name}: partition_by {str(partition)!r}: {partition.column} is a "
                f"{kind.simpleString()}, and NaN is not equal to itself. Fix: partition by another column"
            )
        if partition.width and not isinstance(kind, _TRUNCATED):
            raise ConfigError(
                f"stream {spec.name}: partition_by {str(partition)!r}: {partition.column} is a "
                f"{kind.simpleString()}; only texts and whole numbers can be truncated. Fix: write "
                f"{partition.column!r}"
            )


def _ensure_order(spark: SparkSession, table: str, columns: Sequence[str]) -> None:
    """Sort files by ``columns``, so that a reader of one value skips the others; keep an existing order."""
    if not columns:
        return
    rows = spark.sql(f"SHOW TBLPROPERTIES {CATALOG}.{table}").collect()
    if not any(row["key"] == "sort-order" for row in rows):
        names = ", ".join(f"`{name}`" for name in columns)
        _alter(spark, table, f"WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {names}")


def widen(spark: SparkSession, table: str, column: str) -> None:
    """Give a column of INT all values of BIGINT."""
    _alter(spark, table, f"ALTER COLUMN `{column}` TYPE BIGINT")


def _alter(spark: SparkSession, table: str, change: str) -> None:
    with committing(spark, table):
        spark.sql(f"ALTER TABLE {CATALOG}.{table} {change}")


def _properties(spec: StreamSpec, record: StructType) -> dict[str, str]:
    if not spec.partition_by:
        return LOADED_ROWS
    # Manifests hold bounds of every column of many files; bounds of texts are large and of little use.
    partitioned = [partition.column for partition in spec.partitions]
    texts = [
        field.name
        for field in record.fields
        if isinstance(field.dataType, StringType) and field.name not in partitioned
    ]
    counted = {f"{METRICS}{name}": "counts" for name in texts}
    return LOADED_ROWS | SHUFFLED | counted


def _sql(data_type: DataType) -> str:
    """In Spark's DDL; fields of nested records may have any name that a column may have."""
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(f'`{one.name}`: {_sql(one.dataType)}' for one in data_type.fields)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{_sql(data_type.keyType)}, {_sql(data_type.valueType)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{_sql(data_type.elementType)}>"
    return data_type.simpleString().upper()
