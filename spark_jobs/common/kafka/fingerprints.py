"""The schemas that records name by their fingerprints: of the stream's folder, as it is by now, and of those
that were used or published before, which are kept for ever."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from fastavro.schema import SchemaParseException, UnknownType

from sluice.clients.registry.kept import KeptSchemas
from sluice.clients.registry.objects import SchemaObjects
from sluice.clients.s3.requests import connect
from sluice.config.csv_reading import avro_text
from sluice.config.platform import Platform
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.decoding.avro.decoder import unknown_schema
from sluice.core.decoding.registered.fingerprints import fingerprint_of, id_of
from sluice.core.registry.errors import NotLookedUp, UnknownSchema
from sluice.core.registry.schemas import AVRO, Bundle, Definition, RegisteredSchema, document
from spark_jobs.common.kafka.avro import AvroSchema, Schemas

log = logging.getLogger(__name__)


class SchemaFiles:
    """The stream's folder as a :class:`~sluice.clients.registry.kept.Source`, read each time."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec, self.name = spec, f"the folder schemas/ of {spec.name}"

    def subjects(self, schema_id: int) -> frozenset[str]:
        return frozenset()

    def bundle(self, schema_id: int) -> Bundle:
        """Raises UnknownSchema."""
        wanted = fingerprint_of(schema_id)
        for path in Schemas.files(self._spec):
            if (schema := self._read(path)) is not None and schema.fingerprint == wanted:
                return bundle_of(schema)
        raise UnknownSchema(unknown_schema(wanted.encode()))

    def _read(self, path: Path) -> AvroSchema | None:
        """None for a file that is none yet, or no more: it may be written just now."""
        try:
            schema = AvroSchema(avro_text(self._spec, path))
            schema.fingerprint  # noqa: B018 - parsed
        except (OSError, ConfigError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("schema file was not read file=%s: %s", path, error)
        except (SchemaParseException, UnknownType, RecursionError) as error:
            log.warning("schema file is no Avro schema file=%s: %s", path, error)
        else:
            return schema
        return None


def bundle_of(schema: AvroSchema) -> Bundle:
    """A schema as it is kept."""
    return Bundle(id_of(schema.fingerprint), Definition(AVRO, schema.text), {})


@dataclass(frozen=True)
class FingerprintSchemas:
    """A :class:`~sluice.core.registry.schemas.Schemas` of the ``topic`` of the stream ``spec``.
    ``declared``: its schema, as the process began with it; ``s3``, ``ledger``: as the role's platform file
    has them."""

    spec: StreamSpec = field(compare=False)
    topic: str
    declared: AvroSchema
    s3: S3
    ledger: str

    @classmethod
    def of(cls, spec: StreamSpec, platform: Platform) -> FingerprintSchemas:
        return cls(spec, spec.topic.name, Schemas.load(spec).current, platform.s3, platform.lake.ledger)

    def get(self, schema_id: int) -> RegisteredSchema:
        """As the protocol says, and as :meth:`KeptSchemas.get`."""
        if schema_id == id_of(self.declared.fingerprint):
            return RegisteredSchema(schema_id, AVRO, self.declared.text)
        try:
            return _kept(self, os.getpid()).get(schema_id)
        except NotLookedUp as error:
            named = unknown_schema(fingerprint_of(schema_id).encode())
            raise NotLookedUp(
                f"{named}, and was not looked up: very many others that records named shortly before are "
                "unknown. Fix: if it is known, publish the record with action replay of the stream's change "
                "DAG"
            ) from error

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        """None: a folder has the schemas of its topic alone."""
        return frozenset()

    def publish(self, schema: AvroSchema) -> None:
        """Keep a schema, before anything is sent with it. Raises Refused or Unreachable."""
        bundle = bundle_of(schema)
        self.store().put(bundle.id, document(bundle))

    def store(self) -> SchemaObjects:
        """The store of all schemas that were used or published."""
        return SchemaObjects(connect(self.s3), self.ledger, f"fingerprints of topic {self.topic}")

    def kept(self) -> KeptSchemas:
        """Without a memory yet."""
        return KeptSchemas(SchemaFiles(self.spec), self.store(), is_by_content=True)


# As ``sluice.clients.registry.schemas`` has it.
@lru_cache(maxsize=2)
def _kept(declared: FingerprintSchemas, process: int) -> KeptSchemas:
    return declared.kept()
