"""What is remembered of a registry: an id stands for one schema for ever."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import quoted
from sluice.core.registry.errors import RefusedSchema, RegistryUnreachable, UnknownSchema
from sluice.core.registry.schemas import Bundle, RegisteredSchema, bundle_of, document, registered

log = logging.getLogger(__name__)

# Texts that a process has at most; the one that was not used for longest goes first.
MAX_BYTES = 64 << 20
# How long it is not asked again for an id that it does not have, or whose schema cannot be used: producers
# register before they send, but with several servers not all of them know it at once.
FAILED_SECONDS = 30.0
MAX_FAILED = 10_000
# Between two warnings that the registry does not answer.
WARNING_SECONDS = 60.0


class SchemaStore(Protocol):
    """A place for documents that outlives the process. Many processes use it at once."""

    def get(self, schema_id: int) -> Document | None: ...

    def put(self, schema_id: int, document: Document) -> Document:
        """Keep the document, unless there is one; returns the one that is kept."""


class Source(Protocol):
    """The registry."""

    name: str

    def bundle(self, schema_id: int) -> Bundle: ...


class RegistryChanged(Refused):
    """An id has another schema than the kept one, or that cannot be read: no record is decoded by either."""

    code = ErrorCode.REGISTRY_CHANGED


@dataclass(frozen=True)
class _Failure:
    """``until``: on the clock."""

    kind: type[UnknownSchema | RefusedSchema]
    message: str
    until: float


class KeptSchemas:
    """Schemas from memory, else from ``store``, else from the registry. Safe for several threads.

    ``clock``: seconds that only rise.
    """

    def __init__(
        self, source: Source, store: SchemaStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._store, self._clock = source, store, clock
        # The first for what is remembered; the second for requests, so that one thread asks for all.
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._schemas: OrderedDict[int, RegisteredSchema] = OrderedDict()
        self._bytes = 0
        self._failed: OrderedDict[int, _Failure] = OrderedDict()
        self._warned: float | None = None

    def get(self, schema_id: int) -> RegisteredSchema:
        """As :class:`~sluice.core.registry.schemas.Schemas`; also raises RegistryChanged, and what the store
        raises."""
        found = self._remembered(schema_id)
        if found is not None:
            return found
        with self._asking:
            # Another thread may have asked meanwhile.
            found = self._remembered(schema_id)
            if found is None:
                try:
                    found = self._look_up(schema_id)
                except (UnknownSchema, RefusedSchema) as error:
                    self._remember_failure(schema_id, error)
                    raise
                self._remember(found)
            return found

    def _remembered(self, schema_id: int) -> RegisteredSchema | None:
        with self._lock:
            found = self._schemas.get(schema_id)
            if found is not None:
                self._schemas.move_to_end(schema_id)
                return found
            failure = self._failed.get(schema_id)
        if failure is not None and self._clock() < failure.until:
            raise failure.kind(failure.message)
        return None

    def _look_up(self, schema_id: int) -> RegisteredSchema:
        try:
            kept = self._store.get(schema_id)
            if kept is not None:
                return registered(bundle_of(kept, schema_id))
        except ValueError as error:
            raise RegistryChanged(
                f"the kept document of schema id {schema_id} of registry {quoted(self._source.name)} is "
                f"damaged: {error}. Fix: restore its first version"
            ) from error
        bundle = self._ask(schema_id)
        # Before it is kept: what cannot be used is not.
        found = registered(bundle)
        written = document(bundle)
        if self._store.put(schema_id, written) != written:
            raise RegistryChanged(
                f"schema id {schema_id} of registry {quoted(self._source.name)} is kept with another schema: "
                "it was emptied, or another registry has its name. Fix: give it another name in [registry] "
                "of all platform files"
            )
        return found

    def _ask(self, schema_id: int) -> Bundle:
        try:
            return self._source.bundle(schema_id)
        except RegistryUnreachable as error:
            now = self._clock()
            if self._warned is None or now - self._warned >= WARNING_SECONDS:
                self._warned = now
                log.warning(
                    "schema registry unreachable; kept schemas are still used in_memory=%d: %s",
                    len(self._schemas),
                    error,
                )
            raise

    def _remember(self, schema: RegisteredSchema) -> None:
        with self._lock:
            self._failed.pop(schema.id, None)
            self._schemas[schema.id] = schema
            self._bytes += _size(schema)
            while self._bytes > MAX_BYTES and len(self._schemas) > 1:
                _, oldest = self._schemas.popitem(last=False)
                self._bytes -= _size(oldest)

    def _remember_failure(self, schema_id: int, error: UnknownSchema | RefusedSchema) -> None:
        # Without the traceback, which would hold the frames that raised it.
        failure = _Failure(type(error), str(error), self._clock() + FAILED_SECONDS)
        with self._lock:
            self._failed[schema_id] = failure
            self._failed.move_to_end(schema_id)
            while len(self._failed) > MAX_FAILED:
                self._failed.popitem(last=False)


def _size(schema: RegisteredSchema) -> int:
    return len(schema.text) + sum(len(text) for _, text in schema.imports)
