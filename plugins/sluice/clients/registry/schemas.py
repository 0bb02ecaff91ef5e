"""The schemas of a registry, for decoders: declared once, connected in each process that uses them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from sluice.clients.registry.client import RegistryClient
from sluice.clients.registry.kept import KeptSchemas
from sluice.clients.registry.objects import SchemaObjects
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.registry import Registry
from sluice.config.platform_sections.s3 import S3
from sluice.core.registry.schemas import RegisteredSchema

if TYPE_CHECKING:
    from sluice.config.platform import Platform


@dataclass(frozen=True)
class RegistrySchemas:
    """A :class:`~sluice.core.registry.schemas.Schemas`. ``registry``, ``s3``, ``ledger``: as the role's
    platform file has them; nothing else is pickled."""

    registry: Registry
    s3: S3
    ledger: str

    @classmethod
    def of(cls, platform: Platform) -> Self:
        """Those of a role. Raises ConfigError if its platform file has no registry."""
        return cls(platform.need_registry(), platform.s3, platform.lake.ledger)

    def get(self, schema_id: int) -> RegisteredSchema:
        """As :meth:`KeptSchemas.get`."""
        return _kept(self, os.getpid()).get(schema_id)

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        """As :meth:`KeptSchemas.subjects`."""
        return _kept(self, os.getpid()).subjects(schema_id, among)


# A process reads one registry. Of a parent's connections a forked child must use none.
@lru_cache(maxsize=2)
def _kept(declared: RegistrySchemas, process: int) -> KeptSchemas:
    store = SchemaObjects(connect(declared.s3), declared.ledger, declared.registry.identity)
    return KeptSchemas(RegistryClient(declared.registry), store)
