"""The subjects under which Confluent's serializers register the schemas of a topic.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html ("Subject
name strategy")
"""

from __future__ import annotations

from enum import StrEnum

from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import read
from sluice.core.registry.schemas import AVRO, JSON, RegisteredSchema


class Part(StrEnum):
    """What of a record is written with the schema."""

    KEY = "key"
    VALUE = "value"


class Naming(StrEnum):
    """A naming strategy of serializers; TOPIC is their default."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"


def subject(naming: Naming, topic: str, part: Part = Part.VALUE, record: str = "") -> str:
    """The subject of a topic's keys or values; ``record``: the full name of what it is written as, which a
    strategy other than TOPIC needs. Raises RefusedSchema without it."""
    if naming is Naming.TOPIC:
        return f"{topic}-{part}"
    if not record:
        raise RefusedSchema(
            f"the {part}s of topic {topic} have no record name, and their subjects are named by {naming}. "
            "Fix: declare the strategy topic"
        )
    return record if naming is Naming.RECORD else f"{topic}-{record}"


def record_name(schema: RegisteredSchema) -> str:
    """What strategies by record name a schema: the full name of a type of Avro, the title of a JSON Schema;
    empty if it has none."""
    if schema.type not in (AVRO, JSON):
        return ""
    tree = read(schema.text, f"schema id {schema.id}")
    if not isinstance(tree, dict):
        return ""
    name = tree.get("title" if schema.type == JSON else "name")
    if not isinstance(name, str):
        return ""
    namespace = tree.get("namespace") if schema.type == AVRO else None
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name
