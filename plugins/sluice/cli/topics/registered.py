"""`sluice new-stream --topic`: what a schema registry says of the records of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.cli.topics import messages
from sluice.cli.topics.columns import UNKNOWN_FIELDS, of_avro, recursive_doubt
from sluice.core.decoding.avro.following.recursive import unrolled
from sluice.core.decoding.avro.parsing import declared, recursion
from sluice.core.decoding.avro.types import UnsupportedSchema
from sluice.core.decoding.decoder import Decoder
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.sample import AVRO_FORMAT, JSON, Guess, Sampled, guess
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry import schemas
from sluice.core.registry.errors import RefusedSchema, UnknownSchema
from sluice.core.registry.framing import Framed, framed
from sluice.core.registry.schemas import RegisteredSchema, registered
from sluice.core.registry.subjects import Naming, Part, record_name, subject

if TYPE_CHECKING:
    from sluice.clients.registry.client import RegistryClient, Version

# Schemas that are asked for: a sample of garbage may name as many as it has records.
_MOST_SCHEMAS = 20


@dataclass(frozen=True)
class FoundSchemas:
    """``guess``: with what the registry says; ``seen``: lines for a person."""

    guess: Guess
    seen: list[str]


def look(client: RegistryClient, topic: str, records: Sequence[Sampled], by: Guess) -> FoundSchemas:
    """Look up the schemas that a sample of records names. ``by``: the guess by their bytes alone, which
    stands where they name none. Raises RegistryUnreachable, RegistryRefused."""
    asked = _Asked(client)
    key = _format_of_keys(asked, [one for one in records if one.key is not None])
    found, seen = by if key is None else replace(by, key=key), list[str]()
    having = [one for one in records if one.value is not None]
    frames = _framed(having, Part.VALUE)
    if frames is None:
        return FoundSchemas(found, seen)
    known, doubts = asked.all(frames.schema_ids)
    # A registry counts its ids, so the highest is the newest.
    known.sort(key=lambda schema: schema.id)
    doubts = [*(one for one in by.doubts if one not in by.frames), *doubts]
    types = {schema.type for schema in known}
    if types == {schemas.JSON}:
        bodies = zip(having, frames.bodies().to_pylist(), strict=True)
        of_bodies = guess([replace(one, value=body) for one, body in bodies if body is not None])
        found = replace(found, format=JSON, columns=of_bodies.columns, is_registered=True)
        doubts += of_bodies.doubts
    elif types == {schemas.AVRO}:
        newest, naming, said, other = _newest(client, topic, known)
        seen.append(said)
        found, more = _of_avro(replace(found, other_subject=other), newest, naming, asked, having)
        doubts += more
    elif types == {schemas.PROTOBUF}:
        message = messages.message_of(frames, known)
        newest, naming, said, other = _newest(client, topic, known, message.name)
        found = replace(found, other_subject=other)
        seen.append(said)
        found, decoder, more = messages.of_messages(found, newest, message.name, asked, UNKNOWN_FIELDS)
        doubts += [*message.doubts, *more]
        if decoder is not None:
            found = replace(found, subjects=str(naming))
            doubts += _doubts(decoder, having)
    elif known:
        doubts.append(f"its schemas are {' and '.join(sorted(types))}, which are not read: kept as bytes")
    seen.append(f"schema ids {', '.join(map(str, frames.schema_ids[:_MOST_SCHEMAS]))}")
    return FoundSchemas(replace(found, doubts=doubts), seen)


class _Asked:
    """The schemas of ids, each asked for once: a :class:`schemas.Schemas`."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._found: dict[int, RegisteredSchema | UnknownSchema | RefusedSchema] = {}

    def get(self, schema_id: int) -> RegisteredSchema:
        if schema_id not in self._found:
            try:
                self._found[schema_id] = registered(self._client.bundle(schema_id))
            except (UnknownSchema, RefusedSchema) as error:
                self._found[schema_id] = error
        found = self._found[schema_id]
        if isinstance(found, RegisteredSchema):
            return found
        raise found

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        return self._client.subjects(schema_id) & among

    def all(self, ids: Iterable[int]) -> tuple[list[RegisteredSchema], list[str]]:
        """The schemas of the first ids, and why there is none of others."""
        found, doubts = [], []
        for schema_id in list(ids)[:_MOST_SCHEMAS]:
            try:
                found.append(self.get(schema_id))
            except (UnknownSchema, RefusedSchema) as error:
                doubts.append(f"{error}: records that name it would be rejected")
        return found, doubts


def _framed(records: Sequence[Sampled], part: Part) -> Framed | None:
    """None if not even half of them name a schema."""
    sent = pa.array([one.key if part is Part.KEY else one.value for one in records], pa.binary())
    found = framed(sent, _headers(records), part)
    return found if 2 * (found.ids != 0).sum() > len(records) else None


def _headers(records: Sequence[Sampled]) -> pa.ListArray:
    lists = [[{"key": key, "value": value} for key, value in one.headers or ()] for one in records]
    return pa.array(lists, SCHEMA.field("headers").type)


def _format_of_keys(asked: _Asked, records: Sequence[Sampled]) -> str | None:
    """None if the registry says nothing of the keys. ``records``: those that have one."""
    frames = _framed(records, Part.KEY)
    types = {schema.type for schema in asked.all(frames.schema_ids)[0]} if frames else set()
    formats = {schemas.AVRO: AVRO_FORMAT, schemas.JSON: JSON}
    return formats.get(types.pop()) if len(types) == 1 else None


def _newest(
    client: RegistryClient, topic: str, known: Sequence[RegisteredSchema], message: str = ""
) -> tuple[RegisteredSchema, Naming, str, str]:
    """The schema for the table, by which naming strategy it was found, a line that says so, and its subject
    if that is another topic's. ``message``:
    the name of a Protobuf message, of which a schema may have several."""
    for naming in Naming:
        for schema in reversed(known):
            try:
                name = subject(naming, topic, Part.VALUE, message or record_name(schema))
                version = client.latest(name)
            except (UnknownSchema, RefusedSchema):
                continue
            if version.schema.type == schema.type:
                return version.schema, naming, _described(client, version), ""
    newest = known[-1]
    # A mirror of another topic: its records keep their ids.
    others = {name for name, _ in client.uses(newest.id) if not name.endswith(f"-{Part.KEY}")}
    if len(others) == 1:
        version = client.latest(*others)
        return version.schema, Naming.TOPIC, _described(client, version), version.subject
    said = f"schema id {newest.id}: no usual subject of the topic has it, so there may be a newer version"
    return newest, Naming.TOPIC, said, ""


def _described(client: RegistryClient, version: Version) -> str:
    count = len(client.versions(version.subject))
    return (
        f"subject {version.subject}, version {version.version} of {count}, schema id {version.schema.id}, "
        f"compatibility {client.compatibility(version.subject)}"
    )


def _of_avro(
    by: Guess, schema: RegisteredSchema, naming: Naming, asked: _Asked, records: Sequence[Sampled]
) -> tuple[Guess, list[str]]:
    """The guess with the columns of a schema, and what the sample's records do not fit."""
    text, left_out = of_avro(schema.text)
    try:
        again = recursion(declared(text).record)
        decoder = RegisteredAvro(unrolled(text), asked, UNKNOWN_FIELDS)
    except UnsupportedSchema as error:
        return by, [f"schema id {schema.id} can be no table's: {error}: values are kept as bytes"]
    columns = {one.name: str(one.type) for one in decoder.schema if one.name != UNKNOWN_FIELDS}
    found = replace(
        by,
        format=AVRO_FORMAT,
        columns=columns,
        schema=text,
        is_recursive=bool(again),
        is_registered=True,
        subjects=str(naming),
    )
    # Without the rest of a sentence on tables.
    doubts = [recursive_doubt(schema.id, again.partition(",")[0])] if again else []
    return found, [*left_out, *doubts, *_doubts(decoder, records)]


def _doubts(decoder: Decoder, records: Sequence[Sampled]) -> list[str]:
    """What the sample's records do not fit."""
    values = pa.array([one.value for one in records], pa.binary())
    decoded = decoder.decode(values, _headers(records))
    reasons = zip(records, decoded.reasons.to_pylist(), strict=True)
    wrong = [f"{one.place}: {reason}" for one, reason in reasons if reason]
    doubts = list[str]()
    if wrong:
        doubts.append(f"{len(wrong)} of {len(values)} values would be rejected, the first in {wrong[0]}")
    extra = decoded.columns.column(UNKNOWN_FIELDS)
    if kept := len(extra) - extra.null_count:
        doubts.append(
            f"{kept} of {len(values)} values have fields that the schema lacks: in {UNKNOWN_FIELDS}"
        )
    return doubts
