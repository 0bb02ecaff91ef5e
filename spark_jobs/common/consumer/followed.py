"""The schema that a stream's table is read with: the declared one, with what the table has followed since."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sluice.clients.s3.requests import connect
from sluice.config import protobuf_messages
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.following.merging import merge as merge_messages
from sluice.core.decoding.protobuf.following.written import row_of_text
from sluice.core.schema_versions.followed import AVRO, PROTOBUF
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
    return followed_schema.read(connect(platform.s3), str(table.location()), digest, ending_of(spec))


def ending_of(spec: StreamSpec) -> str:
    """What the name of the document ends with that says what the stream's table follows."""
    return PROTOBUF if spec.is_protobuf else AVRO


def table_schema(spec: StreamSpec, followed: str) -> str:
    """The text of the schema that records are read as: ``followed``, with what the declaration has beyond it.
    Raises IncompatibleSchema if that is something else."""
    declared = OwnSchemas.load(spec).current.text
    if not followed:
        return declared
    found = merge(parsed(followed), parsed(declared))
    if found.conflicts:
        raise _other(spec, found.reason)
    return found.text


def table_message(spec: StreamSpec, followed: str) -> TableMessage:
    """As :func:`table_schema`, of a stream of Protobuf."""
    declared = protobuf_messages.of_table(spec)
    if not followed:
        return declared
    name, row = row_of_text(followed)
    if name != declared.name:
        raise _other(spec, f"its message is {declared.name}, and the table's is {name}")
    found = merge_messages(
        row, declared.descriptor, declared.as_text, recursive_as_text=declared.recursive_as_text
    )
    if found.conflicts:
        raise _other(spec, found.reason)
    return declared.following(found.schema)


def _other(spec: StreamSpec, reason: str) -> tables.IncompatibleSchema:
    return tables.IncompatibleSchema(
        f"{spec.table} follows the schemas of its records, and {spec.schema} is none of them: {reason}. Fix: "
        f"correct {spec.schema}, or name a new table"
    )
