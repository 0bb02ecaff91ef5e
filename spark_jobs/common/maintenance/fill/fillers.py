"""What fills the rows of a stream: of Avro and Protobuf by all schemas that its records may be written
with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sluice.clients.registry.kept import RegistryChanged
from sluice.clients.registry.objects import SchemaObjects
from sluice.clients.s3.requests import connect
from sluice.config.platform import Platform
from sluice.config.reading.protoc import compiled
from sluice.config.sections.records.declaration import Records
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.trees import form
from sluice.core.decoding.filling.avro import AvroFiller
from sluice.core.decoding.filling.batches import Filler
from sluice.core.decoding.filling.json import JsonFiller
from sluice.core.decoding.filling.protobuf.filler import ProtobufFiller
from sluice.core.decoding.protobuf.schema import NotCompiled, ProtobufSchema, descriptor_of
from sluice.core.decoding.registered.fingerprints import fingerprint_of
from sluice.core.decoding.registered.protobuf import schema_of
from sluice.core.messages import quoted
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.schemas import AVRO, PROTOBUF, RegisteredSchema, bundle_of, registered
from spark_jobs.common.consumer.followed import table_message, table_schema
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas

_THREADS = 8


def filler_of(spec: StreamSpec, platform: Platform, followed: str) -> Filler | None:
    """What fills the rows of a stream's table; None if it keeps no further fields. ``followed``: as
    ``decoders.decoder_of`` has it. Raises ConfigError, and what reading the kept schemas does."""
    records = spec.records
    if records is None or not records.unknown_column:
        return None
    if spec.is_protobuf:
        return _of_protobuf(spec, records, platform, followed)
    if not spec.is_avro:
        return JsonFiller(spec.ddl_columns)
    if records.registry:
        writers = kept_schemas(*_registry(platform))
    else:
        own = OwnSchemas.load(spec)
        writers = [own.current.text, *(schema.text for schema in own.earlier)]
        if spec.follows_fingerprints:
            # A file of the folder may be gone since its records were decoded.
            found = FingerprintSchemas.of(spec, platform).store()
            writers += kept_schemas(found, lambda one: f"schema {fingerprint_of(one)} of {spec.topic.name}")
    return AvroFiller(writers, table_schema(spec, followed))


def _registry(platform: Platform) -> tuple[SchemaObjects, Callable[[int], str]]:
    """Where a registry's schemas are kept, and what one is called."""
    registry = platform.need_registry().identity
    store = SchemaObjects(connect(platform.s3), platform.lake.ledger, registry)
    return store, lambda one: f"schema id {one} of registry {quoted(registry)}"


def _of_protobuf(spec: StreamSpec, records: Records, platform: Platform, followed: str) -> Filler:
    table = table_message(spec, followed)
    if not records.registry:
        return ProtobufFiller([table.schema], table, is_own=True)
    return ProtobufFiller(kept_messages(*_registry(platform), table.name), table, is_own=False)


def _form(text: str) -> str | None:
    try:
        return form(text, aliases=True)
    except ValueError:
        # It is no JSON, so no record was decoded with it.
        return None


def kept_schemas(store: SchemaObjects, title: Callable[[int], str]) -> list[str]:
    """The schemas in Avro of all ids that decoded records named, whatever the topic and the registry have
    lost. Those that readers take for the same are one. ``title``: of an id's, for messages."""
    found = (_form(one.text) for one in _kept(store, title) if one.type == AVRO)
    return [*dict.fromkeys(one for one in found if one is not None)]


def kept_messages(store: SchemaObjects, title: Callable[[int], str], message: str) -> list[ProtobufSchema]:
    """As :func:`kept_schemas`, of Protobuf, those that have a message of this full name."""

    def schema(of: RegisteredSchema) -> ProtobufSchema | None:
        try:
            return schema_of(of, compiled)
        except NotCompiled:
            # No record was decoded with it.
            return None

    name = message.rpartition(".")[2]
    distinct = {
        (one.text, one.imports): one
        for one in _kept(store, title)
        # Compiling one of another topic costs a process; a descriptor has no names that can be read.
        if one.type == PROTOBUF and (name in one.text or descriptor_of(one.text) is not None)
    }
    with ThreadPoolExecutor(_THREADS) as threads:
        found = [*threads.map(schema, distinct.values())]
    return [one for one in found if one is not None and message in one.names]


def _kept(store: SchemaObjects, title: Callable[[int], str]) -> list[RegisteredSchema]:
    """The schemas that are kept: each is when a record first names it, so those of a table's rows are among
    them."""

    def read(schema_id: int) -> RegisteredSchema | None:
        try:
            return registered(bundle_of(store.get(schema_id), schema_id))
        except RefusedSchema:
            # No record was decoded with it.
            return None
        except ValueError as error:
            raise RegistryChanged(
                f"the kept document of {title(schema_id)} is damaged: {error}; nothing was changed. Fix: "
                "restore its first version"
            ) from error

    with ThreadPoolExecutor(_THREADS) as threads:
        found = [*threads.map(read, sorted(store.ids()))]
    return [one for one in found if one is not None]
