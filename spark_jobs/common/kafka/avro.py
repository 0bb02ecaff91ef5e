"""Avro records: plain binary bodies, with the writer's schema in the header ``avro-schema``.

The header is the schema's CRC-64-AVRO fingerprint (Avro specification, "Schema Fingerprints"): a body read
with another schema decodes into wrong values. Without the header the current schema is used.
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
    """One version of a schema. ``fingerprint``: 16 hex digits."""

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
        return [
            f["name"] for f in self.parsed["fields"] if f["type"] != "null" and not _is_optional(f["type"])
        ]

    def struct(self, spark: SparkSession) -> StructType:
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
    """The current schema and its predecessors, which records on the topic may have."""

    current: AvroSchema
    earlier: tuple[AvroSchema, ...] = ()

    @classmethod
    def load(cls, file: Path) -> Schemas:
        """From ``schema.avsc`` and the optional folder ``schemas/`` beside it."""
        current = AvroSchema(file.read_text())
        paths = sorted((file.parent / "schemas").glob("*.avsc"))
        earlier = (AvroSchema(path.read_text()) for path in paths)
        return cls(current, tuple(s for s in earlier if s.fingerprint != current.fingerprint))


def schema_headers(schema: AvroSchema) -> Column:
    """The column ``headers`` of Spark's Kafka sink."""
    value = F.lit(schema.fingerprint).cast("binary")
    return F.array(F.struct(F.lit(SCHEMA_HEADER).alias("key"), value.alias("value")))


def decoded(rows: DataFrame, schemas: Schemas) -> DataFrame:
    """``rows`` (``value``, ``headers``) with ``record``, a struct of the current schema, and ``reason``: why
    the body is malformed (or null).

    A body is decoded only if the encoded record has the same bytes: Avro has no checksum, and other bytes may
    decode by chance or leave a tail. (In PERMISSIVE mode ``from_avro`` returns a struct of nulls for an
    unreadable body, so a required field is null.)
    """
    value, current = F.col("value"), schemas.current
    found = F.filter("headers", lambda header: header["key"] == SCHEMA_HEADER)
    fingerprint = F.element_at(found, -1)["value"].cast("string")
    record, intact = _decode_one(value, current, current)
    fingerprints = [current.fingerprint]
    for writer in schemas.earlier:
        old, old_intact = _decode_one(value, writer, current)
        fingerprints.append(writer.fingerprint)
        record = F.when(fingerprint == writer.fingerprint, old).otherwise(record)
        intact = F.when(fingerprint == writer.fingerprint, old_intact).otherwise(intact)
    reason = (
        F.when(value.isNull(), F.lit("the record has no value (a tombstone)"))
        .when(
            fingerprint.isNotNull() & ~fingerprint.isin(fingerprints),
            F.concat(F.lit("written with an Avro schema that is unknown: "), fingerprint),
        )
        .when(~F.coalesce(intact, F.lit(False)), F.lit(f"not an Avro body of {current.parsed['name']}"))
    )
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
