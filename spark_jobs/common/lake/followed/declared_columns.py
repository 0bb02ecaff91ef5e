"""What a declaration says beyond the columns of a table that follows, and what the table has beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
)

from sluice.clients.s3.requests import split
from sluice.core.schema_versions.documents import stem
from sluice.core.schema_versions.followed import address

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_WIDER = ((IntegerType, LongType), (FloatType, DoubleType))
# Documents that are looked at for the one that a table lost.
MAX_DOCUMENTS = 20


def covers(wide: DataType, narrow: DataType) -> bool:
    """Whether a column of the type ``narrow`` can become ``wide``: it has the same type or one that Iceberg
    widens it to, and of a record all of its fields, by their names."""
    if isinstance(wide, StructType) and isinstance(narrow, StructType):
        return all(
            one.name in wide.names and covers(wide[one.name].dataType, one.dataType) for one in narrow.fields
        )
    if isinstance(wide, ArrayType) and isinstance(narrow, ArrayType):
        return covers(wide.elementType, narrow.elementType)
    if isinstance(wide, MapType) and isinstance(narrow, MapType):
        return wide.keyType == narrow.keyType and covers(wide.valueType, narrow.valueType)
    if isinstance(wide, DecimalType) and isinstance(narrow, DecimalType):
        return wide.scale == narrow.scale and wide.precision >= narrow.precision
    is_wider = any(isinstance(narrow, one) and isinstance(wide, other) for one, other in _WIDER)
    return is_wider or wide == narrow


def widen(spark: SparkSession, table: Any, columns: Sequence[StructField]) -> None:
    """Commit to ``table``, Iceberg's, that these columns have their types, which cover its own."""
    record = cast("Any", spark)._jsparkSession.parseDataType(StructType(list(columns)).json())
    schema = cast("Any", spark._jvm).org.apache.iceberg.spark.SparkSchemaUtil.convert(record)
    table.updateSchema().unionByNameWith(schema).commit()


def newest_document(client: S3Client, location: str, ending: str, is_of: Callable[[str], bool]) -> str:
    """The digest of the newest document below the table's ``location`` of which ``is_of`` says that it has
    the table's columns; empty if none of the newest MAX_DOCUMENTS has. ``ending``: of their names. Raises
    botocore's errors."""
    return next(filter(is_of, islice(_documents(client, location, ending), MAX_DOCUMENTS)), "")


def _documents(client: S3Client, location: str, ending: str) -> Iterator[str]:
    """The digests of the documents that are there, the newest first."""
    bucket, prefix = split(address(location, "", ending).rsplit("/", 1)[0] + "/")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found = [one for page in pages for one in page.get("Contents", []) if one["Key"].endswith(f".{ending}")]
    for one in sorted(found, key=lambda each: each["LastModified"], reverse=True):
        yield stem(one["Key"]).rsplit("/", 1)[-1]
