"""`sluice new-stream --topic`: what a schema registry says of records that are Protobuf messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluice.cli.topics.columns import recursive_doubt
from sluice.config import protobuf_messages
from sluice.config.reading.protoc import compiled
from sluice.config.reading.toml import ConfigError
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.frames import message_indexes
from sluice.core.decoding.protobuf.schema import (
    NotCompiled,
    ProtobufSchema,
    UnsupportedMessage,
    descriptor_of,
)
from sluice.core.decoding.registered.protobuf import RegisteredProtobuf, schema_of
from sluice.core.decoding.sample import PROTOBUF_FORMAT, Guess
from sluice.core.registry.framing import Framed
from sluice.core.registry.schemas import RegisteredSchema, Schemas

# The name of the file in the stream's folder.
FILE = "schema.proto"


@dataclass(frozen=True)
class FoundMessage:
    """``name``: the full name of the message of most records, empty if it is not known; ``doubts``: lines for
    a person."""

    name: str
    doubts: list[str]


def message_of(frames: Framed, known: Sequence[RegisteredSchema]) -> FoundMessage:
    """Which message the records of a sample are."""
    found, doubts = Counter[str](), list[str]()
    of_id = {}
    for schema in known:
        try:
            of_id[schema.id] = schema_of(schema, compiled)
        except NotCompiled as error:
            doubts.append(f"schema id {schema.id} cannot be used: {error}")
    for schema_id, body in zip(frames.ids.tolist(), frames.bodies().to_pylist(), strict=True):
        if schema_id in of_id:
            try:
                indexes, _ = message_indexes(body)
            except Malformed:
                continue
            found.update(of_id[schema_id].names_at(indexes)[:1])
    if len(found) > 1:
        counted = ", ".join(f"{count} {name}" for name, count in found.most_common())
        doubts.append(f"its records are several messages: {counted}; a stream reads one, and rejects others")
    return FoundMessage(found.most_common(1)[0][0] if found else "", doubts)


def of_messages(
    by: Guess, schema: RegisteredSchema, message: str, schemas: Schemas, unknown: str
) -> tuple[Guess, RegisteredProtobuf | None, list[str]]:
    """The guess with the columns of a message, what reads its records, and doubts. ``unknown``: the column of
    what the table lacks. None and the guess as it was if the message can be no table's."""
    kept = "values are kept as bytes"
    if wrong := [name for name, _ in schema.imports if name == FILE or not name.endswith(".proto")]:
        # They become files of the stream's folder, beside its own.
        return (
            by,
            None,
            [f"schema id {schema.id} imports {wrong[0]!r}, which cannot be its name here: {kept}"],
        )
    try:
        table, again = _table(schema_of(schema, compiled), message)
        protobuf_messages.check_names(table.type, message)
    except (NotCompiled, UnsupportedMessage, ConfigError) as error:
        why = str(error).split(". Fix:")[0]
        return by, None, [f"schema id {schema.id} can be no table's: {why}: {kept}"]
    doubts = [recursive_doubt(schema.id, again)] if again else []
    if any(descriptor_of(text) for text in (schema.text, *dict(schema.imports).values())):
        doubts.append(
            f"its schema is registered as a descriptor, so {FILE} has base64: put your own .proto text there"
        )
    found = replace(
        by,
        format=PROTOBUF_FORMAT,
        columns={one.name: str(one.type) for one in table.columns()},
        schema=schema.text,
        imports=dict(schema.imports),
        message=table.name,
        is_recursive=bool(again),
        is_registered=True,
    )
    return found, RegisteredProtobuf(table, schemas, compiled, unknown), doubts


def _table(schema: ProtobufSchema, message: str) -> tuple[TableMessage, str]:
    """What the message's table is, and its first field that is a text since it is inside of itself; empty
    without one. Raises UnsupportedMessage."""
    try:
        return TableMessage(schema, message), ""
    except UnsupportedMessage as error:
        table = TableMessage(schema, message, recursive_as_text=True)
        return table, str(error).partition(": no table")[0]
