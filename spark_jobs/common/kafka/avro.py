"""Avro on the topic: plain binary bodies, with the writer's schema named in a record header.

A body alone cannot tell which schema wrote it, and read with another one it decodes into nonsense. So the
header ``avro-schema`` carries the schema's CRC-64-AVRO fingerprint (Avro specification, "Schema
Fingerprints"). A record without that header is read with the current schema.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StructType

from spark_jobs.common.spark.session import computed

SCHEMA_HEADER = "avro-schema"


@dataclass(frozen=True)
class AvroSchema:
    """One version of a schema: its JSON text, parsed form, and fingerprint (16 hex digits)."""

    text: str

    @property
    def parsed(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.text)
        return parsed

    @property
    def fingerprint(self) -> str:
        return fingerprint(to_parsing_canonical_form(self.parsed), "CRC-64-AVRO")

    @property
    def required(self) -> list[str]:
        """The fields that are never null."""
        return [
            f["name"] for f in self.parsed["fields"] if f["type"] != "null" and not _is_optional(f["type"])
        ]

    def struct(self, spark: SparkSession) -> StructType:
        """Spark's type of a record."""
        empty = spark.createDataFrame([], "value binary").select(
            from_avro("value", self.text).alias("record")
        )
        struct = empty.schema["record"].dataType
        assert isinstance(struct, StructType)
        return struct


def _is_optional(avro_type: Any) -> bool:
    return isinstance(avro_type, list) and "null" in avro_type


@dataclass(frozen=True)
class Schemas:
    """The current schema, and its predecessors that records on the topic may still carry."""

    current: AvroSchema
    earlier: tuple[AvroSchema, ...] = ()

    @classmethod
    def load(cls, file: Path) -> Schemas:
        """From ``schema.avsc`` and, where there is one, the folder ``schemas/`` beside it."""
        earlier = sorted((file.parent / "schemas").glob("*.avsc"))
        current = AvroSchema(file.read_text())
        return cls(
            current,
            tuple(
                s
                for s in map(AvroSchema, (p.read_text() for p in earlier))
                if s.fingerprint != current.fingerprint
            ),
        )


def encode(record: Column, schema: AvroSchema) -> Column:
    """A struct column as an Avro body."""
    return to_avro(record, schema.text)


def schema_headers(schema: AvroSchema) -> Column:
    """The ``headers`` column for Spark's Kafka sink."""
    value = F.lit(schema.fingerprint).cast("binary")
    return F.array(F.struct(F.lit(SCHEMA_HEADER).alias("key"), value.alias("value")))


def decode(value: Column, headers: Column, schemas: Schemas) -> tuple[Column, Column]:
    """Columns ``(record, reason)``: the record as a struct of the current schema, and why it is not one.

    ``reason`` is null exactly where the body was decoded. A body counts as decoded only if encoding the
    record again gives the same bytes: Avro has no checksum, and bytes that decode by luck, or with a tail
    that nobody read, are not a record. (In PERMISSIVE mode ``from_avro`` gives a struct of nulls for a body
    that it cannot read, so a required field that is null tells.)
    """
    named = F.element_at(F.filter(headers, lambda header: header["key"] == SCHEMA_HEADER), -1)["value"].cast(
        "string"
    )
    current = schemas.current
    record, intact = _decode_one(value, current, current)
    known = [current.fingerprint]
    for writer in schemas.earlier:
        old, old_intact = _decode_one(value, writer, current)
        known.append(writer.fingerprint)
        record = F.when(named == writer.fingerprint, old).otherwise(record)
        intact = F.when(named == writer.fingerprint, old_intact).otherwise(intact)
    reason = (
        F.when(value.isNull(), F.lit("the record has no value (a tombstone)"))
        .when(
            named.isNotNull() & ~named.isin(known),
            F.concat(F.lit("written with an Avro schema that is not known here: "), named),
        )
        .when(~F.coalesce(intact, F.lit(False)), F.lit(f"not an Avro body of {current.parsed['name']}"))
    )
    return record, reason


def decoded(rows: DataFrame, schemas: Schemas) -> DataFrame:
    """``rows`` (with ``value`` and ``headers``) with the columns of :func:`decode`."""
    record, reason = decode(F.col("value"), F.col("headers"), schemas)
    return computed(rows, record=record, reason=reason)


def _decode_one(value: Column, writer: AvroSchema, reader: AvroSchema) -> tuple[Column, Column]:
    options = {"mode": "PERMISSIVE"}
    if writer is not reader:
        options["avroSchema"] = reader.text
    record = from_avro(value, writer.text, options)
    marker = reader.required[0]
    if writer is not reader:
        return record, record[marker].isNotNull()
    return record, F.when(record[marker].isNotNull(), to_avro(record, reader.text) == value)
