"""Avro records: plain binary bodies, with the writer's schema in the header ``avro-schema``.

The header is the schema's CRC-64-AVRO fingerprint (Avro specification, "Schema Fingerprints"): a body read
with another schema decodes into wrong values. Without the header the current schema is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastavro.schema import expand_schema, fingerprint, to_parsing_canonical_form
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import StructType

from sluice.config.csv_reading import avro_text
from sluice.config.stream import StreamSpec
from spark_jobs.common.kafka.avro_layout import has_blocks, raw, with_entries
from spark_jobs.common.kafka.wire_formats import wire_format
from spark_jobs.common.spark.columns import computed
from spark_jobs.common.spark.texts import quoted

SCHEMA_HEADER = "avro-schema"
# Zeros are nulls, and texts without characters: with so many behind it, a body that was cut is one.
PADDING = 65_536
# Drawn by this process, so no body can contain it.
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
    def symbols(self) -> dict[str, tuple[str, ...]]:
        """Field -> the texts that it may have, of those that are an enum. Another one is no error of its row
        for Spark's writer, but of the whole job."""
        found: dict[str, tuple[str, ...]] = {}
        expanded: Any = expand_schema(self.parsed)
        for field in expanded["fields"]:
            for kind in field["type"] if isinstance(field["type"], list) else [field["type"]]:
                if isinstance(kind, dict) and kind["type"] == "enum":
                    found[field["name"]] = tuple(kind["symbols"])
        return found

    def framed(self, end: bytes = END) -> str:
        """The schema of a body with ``end`` behind it: ``record`` and ``end``."""
        # Names that no schema has; without a namespace, which its types would inherit.
        fixed = {"type": "fixed", "name": f"End_{END.hex()}", "size": len(end)}
        fields = [{"name": "record", "type": self.parsed}, {"name": "end", "type": fixed}]
        return json.dumps({"type": "record", "name": f"Framed_{END.hex()}", "fields": fields})

    def rewritten(self, rewrite: Callable[[Any], Any]) -> AvroSchema:
        """By a function of :mod:`spark_jobs.common.kafka.avro_layout`."""
        return AvroSchema(json.dumps(rewrite(self.parsed)))

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
    def load(cls, spec: StreamSpec) -> Schemas:
        """From ``schema.avsc`` or ``schema.ddl``, and the optional folder ``schemas/`` beside it."""
        current = AvroSchema(avro_text(spec, spec.schema_file))
        paths = sorted((spec.folder / "schemas").glob(f"*{spec.schema_file.suffix}"))
        earlier = (AvroSchema(avro_text(spec, path)) for path in paths)
        return cls(current, tuple(s for s in earlier if s.fingerprint != current.fingerprint))


def schema_headers(schema: AvroSchema) -> Column:
    """The column ``headers`` of Spark's Kafka sink."""
    value = F.lit(schema.fingerprint).cast("binary")
    return F.array(F.struct(F.lit(SCHEMA_HEADER).alias("key"), value.alias("value")))


def decoded(rows: DataFrame, schemas: Schemas) -> DataFrame:
    """``rows`` (``value``, ``headers``) with ``record``, a struct of the current schema, and ``reason``: why
    the body is malformed (or null).

    Avro has no checksum: other bytes may decode by chance or leave a tail. So a body is read with END behind
    it, as a record of two fields, and the second one must be END. Nothing of it may be lost: see
    :func:`_is_intact`. (In PERMISSIVE mode ``from_avro`` returns nulls for what it cannot read.)
    """
    value, current = F.col("value"), schemas.current
    # Without a lambda, for which Spark would interpret all expressions of the plan: the last one of the name.
    position = F.array_position(F.reverse("headers.key"), SCHEMA_HEADER)
    header = F.when(position > 0, F.element_at("headers.value", -position.cast("int")))
    named = computed(rows, header=header)
    fingerprint = F.col("header").cast("string")
    framed = F.concat(value, F.lit(END))
    parsed, intact = _read(framed, current), _is_intact(value, F.col("parsed.record"), current)
    malformed = _why_malformed(value, current)
    for writer in schemas.earlier:
        is_its = F.coalesce(fingerprint == writer.fingerprint, F.lit(False))
        parsed = F.when(is_its, _read(framed, writer, current)).otherwise(parsed)
        own = _read(framed, writer)["record"]
        intact = F.when(is_its, _is_intact(value, own, writer)).otherwise(intact)
        malformed = F.when(is_its, _why_malformed(value, writer)).otherwise(malformed)
    known = [schema.fingerprint for schema in (current, *schemas.earlier)]
    is_unknown = F.coalesce(~fingerprint.isin(known), F.lit(False))
    is_body = F.coalesce(F.when(F.col("parsed.end") == F.lit(END), intact), F.lit(False))
    reason = F.coalesce(
        F.when(value.isNull(), F.lit("the record has no value (a tombstone)")),
        F.when(
            is_unknown,
            F.concat(F.lit("written with an Avro schema that is unknown: "), quoted(F.col("header"))),
        ),
        malformed,
        F.lit(""),
    )
    return computed(named, parsed=parsed).select(
        *rows.columns,
        F.col("parsed.record").alias("record"),
        # By a condition of its own, which is all that is left of it if only the good rows are asked for.
        F.when(value.isNull() | is_unknown | ~is_body, reason).alias("reason"),
    )


def _read(framed: Column, schema: AvroSchema, current: AvroSchema | None = None, end: bytes = END) -> Column:
    evolved = {} if current is None else {"avroSchema": current.framed(end)}
    return from_avro(framed, schema.framed(end), {"mode": "PERMISSIVE", **evolved})


def _is_intact(value: Column, record: Column, schema: AvroSchema) -> Column:
    """Whether a body says no more than the ``record`` that was read of it: encoded, that has the same bytes.

    Only the blocks of maps and arrays, and the order of a map, are up to the writer. With these, the bytes
    are compared as the schemas of :mod:`avro_layout` read them, and the length tells that no entry was left
    out.
    """
    encoded = to_avro(record, schema.text)
    if not has_blocks(schema.parsed):
        return encoded == value
    entries, all_of_it = schema.rewritten(with_entries), schema.rewritten(raw)
    framed = F.concat(value, F.lit(END))
    read = to_avro(_read(framed, entries)["record"], entries.text)
    said = to_avro(_read(framed, all_of_it)["record"], all_of_it.text)
    return (encoded == value) | ((read == said) & (F.length(encoded) == F.length(read)))


def _why_malformed(value: Column, schema: AvroSchema) -> Column:
    """As :func:`_malformed`, by a lambda, so that what is for a rejected record alone is interpreted, and no
    part of compiled code."""
    return F.transform(F.array(value), lambda one: _malformed(one, schema))[0]


def _malformed(value: Column, schema: AvroSchema) -> Column:
    """What is wrong with the bytes of a record with this schema, as far as they tell: a body may begin as a
    wire format does."""
    name = schema.parsed["name"]
    all_of_it = schema.rewritten(raw)
    is_whole = _read(F.concat(value, F.lit(END)), all_of_it)["end"] == F.lit(END)
    begins = _read(value, schema, end=b"")
    behind = F.length(value) - F.length(to_avro(begins["record"], schema.text))
    padded = F.rpad(value, F.length(value) + PADDING, F.lit(b"\0"))
    empty = F.when(F.length(value) == 0, F.lit("it is empty"))
    framed = wire_format(value)
    body = F.coalesce(
        F.when(is_whole, F.lit("a value is beyond its type, or a map's key is there twice or not UTF-8")),
        F.when(
            begins["end"].isNotNull(),
            F.concat(behind.cast("string"), F.lit(f" bytes are behind the body of {name}")),
        ),
        F.when(
            _read(padded, schema, end=b"")["end"].isNotNull(), F.lit("it ends before its last field does")
        ),
    )
    json_text = F.when(F.substring(value, 1, 1).isin(b"{", b"["), F.lit("it seems to be JSON"))
    why = F.coalesce(empty, F.concat(framed, F.lit("; or "), body), framed, body, json_text)
    named = F.lit(f"not an Avro body of {name}")
    return F.coalesce(F.concat(named, F.lit(": "), why), named)
