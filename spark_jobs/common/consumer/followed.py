"""The schema that a stream's table is read with: the declared one, with what the table has followed since."""

from __future__ import annotations

from pyspark.sql import SparkSession

from sluice.clients.catalogs.vended import client_of, follow
from sluice.config import protobuf_messages
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.schema_versions.declared import Contradiction, message_of_table, schema_of_table
from sluice.core.schema_versions.followed import AVRO, PROTOBUF
from sluice.core.tables.storage import documents_place
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.followed import documents


def followed_by(spark: SparkSession, platform: Platform, spec: StreamSpec) -> str:
    """The text of the schema that the stream's table follows; empty if that is the declared one, or if there
    is no table yet. Raises LakeFileMissing, and botocore's errors."""
    table = tables.load(spark, spec.table)
    digest = documents.followed_digest(table.properties()) if table is not None else ""
    if not digest:
        return ""
    follow(platform, spec.table, str(table.location()))
    place = documents_place(str(table.location()), table.properties())
    return documents.read(client_of(platform), place, digest, ending_of(spec))


def ending_of(spec: StreamSpec) -> str:
    """What the name of the document ends with that says what the stream's table follows."""
    return PROTOBUF if spec.is_protobuf else AVRO


def table_schema(spec: StreamSpec, followed: str) -> str:
    """The text of the schema that records are read as: ``followed``, with what the declaration has beyond it.
    Raises IncompatibleSchema if that is something else."""
    try:
        return schema_of_table(OwnSchemas.load(spec).current.text, followed)
    except Contradiction as error:
        raise _other(spec, error) from error


def table_message(spec: StreamSpec, followed: str) -> TableMessage:
    """As :func:`table_schema`, of a stream of Protobuf."""
    try:
        return message_of_table(protobuf_messages.of_table(spec), followed)
    except Contradiction as error:
        raise _other(spec, error) from error


def _other(spec: StreamSpec, reason: Contradiction) -> tables.IncompatibleSchema:
    return tables.IncompatibleSchema(
        f"{spec.table} follows the schemas of its records, and {spec.schema} is none of them: {reason}. Fix: "
        f"correct {spec.schema}, or name a new table"
    )
