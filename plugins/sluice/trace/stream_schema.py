"""A stream's schema: its columns and when they came, the versions that its records have, and the registry's
newest against the table. Costs the same whatever the table's history is."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pyiceberg.schema import index_name_by_id
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from sluice.clients.lake.commits import ancestors
from sluice.clients.lake.schema_offsets import schema_offsets
from sluice.clients.registry.client import RegistryClient
from sluice.clients.registry.client import Version as OfSubject
from sluice.clients.s3.requests import read_change
from sluice.config import protobuf_messages
from sluice.config.csv_reading import avro_text
from sluice.config.reading.further_names import names_of
from sluice.config.reading.protoc import compiled
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.records.declaration import Records
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.avro.types import UnsupportedSchema
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.errors import ClientError
from sluice.core.registry.errors import UnknownSchema
from sluice.core.registry.schemas import AVRO, PROTOBUF
from sluice.core.schema_versions import columns, followed
from sluice.core.schema_versions.compared import differences, differences_of_messages
from sluice.core.schema_versions.declared import Contradiction, message_of_table, schema_of_table
from sluice.core.schema_versions.offsets import Seen
from sluice.core.schema_versions.stream import Column, Latest, StreamSchema, Version, column_of, fields_of
from sluice.core.schema_versions.table_columns import arrow_schema, type_text
from sluice.core.tables.known_tables import CREATED_AT
from sluice.core.tables.storage import documents_place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Versions that are shown, each of which is a request to the registry.
MAX_VERSIONS = 20
# Snapshots that are looked at for when a column came.
_MAX_SNAPSHOTS = 100


def stream_schema(
    spec: StreamSpec, table: Table, client: S3Client, registry: Callable[[], RegistryClient]
) -> StreamSchema:
    """``registry``: asked only of a stream whose records name schemas. A registry that does not answer is a
    ``problem`` of the answer. Raises Refused or Unreachable if the table's documents cannot be read."""
    paths = index_name_by_id(table.schema())
    came = columns.came_with(table.properties.get(columns.PROPERTY), paths)
    of_table = _columns(table, came)
    digest = table.properties.get(followed.PROPERTY) or ""
    if not spec.uses_registry:
        return StreamSchema(of_table, digest)
    offsets = schema_offsets(client, table)
    newest = [*offsets.ids.items()][: -MAX_VERSIONS - 1 : -1]
    places, latest, problem = dict[int, str](), None, ""
    try:
        asked = registry()
        places = {schema_id: _place(asked, spec.subjects, schema_id) for schema_id, _ in newest}
        latest = _latest(spec, table, client, asked.latest(spec.subjects[0]))
    except (ClientError, ConfigError, UnsupportedSchema) as error:
        problem = str(error)

    def version(schema_id: int, seen: Seen) -> Version:
        return Version(schema_id, seen, places.get(schema_id, ""), fields_of(schema_id, came, paths))

    return StreamSchema(
        of_table,
        digest,
        has_registry=True,
        versions=[version(*one) for one in newest],
        seen_versions=len(offsets.ids),
        latest=latest,
        problem=problem,
        complete=offsets.complete,
    )


def _columns(table: Table, came: dict[int, columns.Came]) -> list[Column]:
    schemas = {one.schema_id: set(index_name_by_id(one)) for one in table.metadata.schemas}
    original = schemas[min(schemas)]
    created = int(table.properties.get(CREATED_AT) or 0)
    snapshots = [*islice(ancestors(table), _MAX_SNAPSHOTS)][::-1]
    # PyIceberg's own text has the ids of nested fields.
    kinds = arrow_schema(json.loads(table.schema().model_dump_json()))

    def column(field: NestedField) -> Column:
        def has_it(schema_id: int | None) -> bool:
            return schema_id is None or field.field_id in schemas.get(schema_id, ())

        kept = [(one.timestamp_ms, has_it(one.schema_id)) for one in snapshots]
        began = created if field.field_id in original else 0
        return column_of(
            field.name, type_text(kinds.field(field.name).type), field.field_id, came, kept, began
        )

    return [column(field) for field in table.schema().fields]


def _place(registry: RegistryClient, subjects: Collection[str], schema_id: int) -> str:
    """Which versions an id is: of the topic's own subjects if they have it, since topics with the same text
    share its id."""
    try:
        found = registry.uses(schema_id)
    except UnknownSchema:
        return "not in the registry any more"
    own = [one for one in found if one[0] in subjects] or found
    return ", ".join(f"version {version} of {name}" for name, version in own) or "of no subject"


def _latest(spec: StreamSpec, table: Table, client: S3Client, newest: OfSubject) -> Latest:
    schema = newest.schema
    found = Latest(newest.subject, newest.version, schema.id)
    kind = PROTOBUF if spec.is_protobuf else AVRO
    if spec.records is None or not (spec.is_avro or spec.is_protobuf):
        return replace(found, note="not compared: Avro and Protobuf of a topic that others fill are")
    if schema.type != kind:
        return replace(found, note=f"not compared: it is of type {schema.type}, and the table's of {kind}")
    text, digest = "", table.properties.get(followed.PROPERTY)
    if digest:
        ending = followed.PROTOBUF if spec.is_protobuf else followed.AVRO
        uri = followed.address(documents_place(table.location(), table.properties), digest, ending)
        text = json.dumps(read_change(client, uri, "schema that the table follows"), ensure_ascii=False)
    try:
        if spec.is_protobuf:
            message = message_of_table(protobuf_messages.of_table(spec), text)
            following = _following(spec, spec.records, table, message.columns().names)
            return replace(found, differences=differences_of_messages(message, schema, compiled, following))
        of_table = parsed(schema_of_table(avro_text(spec, spec.schema_file), text))
        following = _following(spec, spec.records, table, of_table.record.by_name)
        return replace(found, differences=differences(of_table, schema.text, following))
    except Contradiction as error:
        return replace(found, note=f"not compared: {spec.schema} is none of what the table follows: {error}")


def _following(spec: StreamSpec, records: Records, table: Table, columns: Collection[str]) -> Following:
    """How a table follows schemas. ``columns``: of the schema that it is read with."""
    partitions = frozenset(
        one.name for one in table.spec().fields if not isinstance(one.transform, IdentityTransform)
    )
    of_table = arrow_schema(json.loads(table.schema().model_dump_json()))
    names = names_of(of_table, columns, records.added_columns, partitions)
    return Following(
        spec.follows,
        names=names,
        recursive_as_text=records.has_recursive_texts,
        keeps_fields=bool(records.unknown_column),
    )
