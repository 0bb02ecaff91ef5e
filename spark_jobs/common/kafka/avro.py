"""Avro records: plain binary bodies, with the writer's schema in the header ``avro-schema``.

The header is the schema's CRC-64-AVRO fingerprint (Avro specification, "Schema Fingerprints"): a body read
with another schema decodes into wrong values. Without the header the current schema is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastavro.schema import expand_schema, fingerprint, to_parsing_canonical_form
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from sluice.config.csv_reading import avro_text
from sluice.config.stream import StreamSpec

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
        current, *earlier = (AvroSchema(avro_text(spec, path)) for path in cls.files(spec))
        return cls(current, tuple(s for s in earlier if s.fingerprint != current.fingerprint))

    @staticmethod
    def files(spec: StreamSpec) -> list[Path]:
        """Those that are there now, the current one's first."""
        return [
            spec.schema_file,
            *sorted((spec.folder / "schemas").glob(f"*{spec.schema_file.suffix}")),
        ]


def schema_header(schema: AvroSchema) -> tuple[str, bytes]:
    """The header of a record whose writer's schema it is."""
    return SCHEMA_HEADER, schema.fingerprint.encode()
