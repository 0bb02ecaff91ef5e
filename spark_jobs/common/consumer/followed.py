"""The schema that a stream's table is read with: the declared one, with what the table has followed since."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sluice.clients.s3.requests import connect
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.types import parsed
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.followed import followed_schema


def followed_by(spark: SparkSession, platform: Platform, spec: StreamSpec) -> str:
    """The text of the schema that the stream's table follows; empty if that is the declared one, or if there
    is no table yet. Raises LakeFileMissing, and botocore's errors."""
    table = tables.load(spark, spec.table)
    digest = followed_schema.digest_of(table.properties()) if table is not None else ""
    if not digest:
        return ""
    return followed_schema.read(connect(platform.s3), str(table.location()), digest)


def table_schema(spec: StreamSpec, followed: str) -> str:
    """The text of the schema that records are read as: ``followed``, with what the declaration has beyond it.
    Raises IncompatibleSchema if that is something else."""
    declared = OwnSchemas.load(spec).current.text
    if not followed:
        return declared
    found = merge(parsed(followed), parsed(declared))
    if found.conflicts:
        raise tables.IncompatibleSchema(
            f"{spec.table} follows the schemas of its records, and {spec.schema} is none of them: "
            f"{found.reason}. Fix: correct {spec.schema}, or name a new table"
        )
    return found.text
