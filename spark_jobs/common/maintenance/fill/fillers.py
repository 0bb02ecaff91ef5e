"""What fills the rows of a stream: of Avro by all schemas that its records may be written with."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from sluice.clients.registry.kept import RegistryChanged
from sluice.clients.registry.objects import SchemaObjects
from sluice.clients.s3.requests import connect
from sluice.config.platform import Platform
from sluice.config.sections.records.declaration import Format
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.trees import form
from sluice.core.decoding.filling.avro import AvroFiller
from sluice.core.decoding.filling.batches import Filler
from sluice.core.decoding.filling.json import JsonFiller
from sluice.core.decoding.registered.fingerprints import fingerprint_of
from sluice.core.messages import quoted
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.schemas import AVRO, bundle_of, registered
from spark_jobs.common.consumer.followed import table_schema
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas

_THREADS = 8


def filler_of(spec: StreamSpec, platform: Platform, followed: str) -> Filler | None:
    """What fills the rows of a stream's table; None if it keeps no further fields, or of a format that
    nothing fills. ``followed``: as ``decoders.decoder_of`` has it. Raises ConfigError, and what reading the
    kept schemas does."""
    records = spec.records
    if records is None or not records.unknown_column or records.format == Format.PROTOBUF:
        return None
    if not spec.is_avro:
        return JsonFiller(spec.ddl_columns)
    if records.registry:
        registry = platform.need_registry().identity
        store = SchemaObjects(connect(platform.s3), platform.lake.ledger, registry)
        writers = kept_schemas(store, lambda one: f"schema id {one} of registry {quoted(registry)}")
    else:
        own = OwnSchemas.load(spec)
        writers = [own.current.text, *(schema.text for schema in own.earlier)]
        if spec.follows_fingerprints:
            # A file of the folder may be gone since its records were decoded.
            found = FingerprintSchemas.of(spec, platform).store()
            writers += kept_schemas(found, lambda one: f"schema {fingerprint_of(one)} of {spec.topic.name}")
    return AvroFiller(writers, table_schema(spec, followed))


def _form(text: str) -> str | None:
    try:
        return form(text, aliases=True)
    except ValueError:
        # It is no JSON, so no record was decoded with it.
        return None


def kept_schemas(store: SchemaObjects, title: Callable[[int], str]) -> list[str]:
    """The schemas in Avro of all ids that decoded records named: each is kept when it is first met, so those
    of a table's rows are among them, whatever the topic and the registry have lost. Those that readers take
    for the same are one. ``title``: of an id's, for messages."""

    def text(schema_id: int) -> str | None:
        try:
            found = registered(bundle_of(store.get(schema_id), schema_id))
        except RefusedSchema:
            # No record was decoded with it.
            return None
        except ValueError as error:
            raise RegistryChanged(
                f"the kept document of {title(schema_id)} is damaged: {error}; nothing was changed. Fix: "
                "restore its first version"
            ) from error
        return _form(found.text) if found.type == AVRO else None

    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(text, sorted(store.ids()))
        return [*dict.fromkeys(one for one in found if one is not None)]
