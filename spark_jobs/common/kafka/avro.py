"""Avro records: plain binary bodies, with the writer's schema in the header ``avro-schema``.

The header is the schema's CRC-64-AVRO fingerprint (Avro specification, "Schema Fingerprints"): a body read
with another schema decodes into wrong values. Without the header the current schema is used.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastavro.schema import fingerprint, to_parsing_canonical_form
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StructType

from spark_jobs.common.spark.columns import computed

SCHEMA_HEADER = "avro-schema"
# Of this process alone, so no body can contain it.
END = os.urandom(16)


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

    @property
    def framed(self) -> str:
        """The schema of a body with END behind it: ``record`` and ``end``."""
        # Names that no schema has; without a namespace, which its types would inherit.
        end = {"type": "fixed", "name": f"End_{END.hex()}", "size": len(END)}
        fields = [{"name": "record", "type": self.parsed}, {"name": "end", "type": end}]
        return json.dumps({"type": "record", "name": f"Framed_{END.hex()}", "fields": fields})

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

    Avro has no checksum: other bytes may decode by chance or leave a tail. So a body is read with END behind
    it, as a record of two fields, and the second one must be END. Of the current schema the encoded record
    must also have the same bytes: Avro's reader cuts a number that is too large for its type, and leaves out
    all but one of a map's equal keys. (In PERMISSIVE mode ``from_avro`` returns nulls for what it cannot
    read.)
    """
    value, current = F.col("value"), schemas.current
    # Without a lambda, for which Spark would interpret all expressions of the plan: the last one of the name.
    position = F.array_position(F.reverse("headers.key"), SCHEMA_HEADER)
    header = F.when(position > 0, F.element_at("headers.value", -position.cast("int")))
    named = computed(rows, fingerprint=header.cast("string"))
    framed = F.concat(value, F.lit(END))
    parsed = from_avro(framed, current.framed, {"mode": "PERMISSIVE"})
    for writer in schemas.earlier:
        evolved = {"mode": "PERMISSIVE", "avroSchema": current.framed}
        old = from_avro(framed, writer.framed, evolved)
        parsed = F.when(F.col("fingerprint") == writer.fingerprint, old).otherwise(parsed)
    known = [schema.fingerprint for schema in (current, *schemas.earlier)]
    is_earlier = F.coalesce(F.col("fingerprint") != current.fingerprint, F.lit(False))
    intact = F.when(
        F.col("parsed.end") == F.lit(END),
        is_earlier | (to_avro(F.col("parsed.record"), current.text) == value),
    )
    reason = (
        F.when(value.isNull(), F.lit("the record has no value (a tombstone)"))
        .when(
            ~F.col("fingerprint").isin(known),
            F.concat(F.lit("written with an Avro schema that is unknown: "), "fingerprint"),
        )
        .when(
            ~F.coalesce(intact, F.lit(False)),
            F.lit(f"not an Avro body of {current.parsed['name']}"),
        )
    )
    return computed(named, parsed=parsed).select(
        *rows.columns, F.col("parsed.record").alias("record"), reason.alias("reason")
    )
