"""Schemas of a registry that is a dictionary, and records that name them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from sluice.core.registry.errors import UnknownSchema
from sluice.core.registry.schemas import AVRO, RegisteredSchema


class FakeSchemas:
    """``schemas``: id -> type and text, or the error that asking for it raises. ``asked``: the ids."""

    def __init__(self, schemas: dict[int, tuple[str, str] | Exception]) -> None:
        self.schemas, self.asked = schemas, list[int]()

    def get(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        found = self.schemas.get(schema_id, UnknownSchema(f"schema id {schema_id} is not in the registry"))
        if isinstance(found, Exception):
            raise found
        return RegisteredSchema(schema_id, *found)


def avro(tree: Any) -> tuple[str, str]:
    return AVRO, json.dumps(tree)


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


def encoded(schemas: FakeSchemas, schema_id: int, value: Any) -> bytes:
    """As Confluent's serializer writes it: the body by fastavro."""
    found = schemas.schemas[schema_id]
    assert not isinstance(found, Exception)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(found[1])), value)
    return framed(schema_id, out.getvalue())
