"""What is remembered of a registry: an id stands for one schema for ever."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sluice.clients.registry.budget import MAX_UNKNOWN, Budget
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import quoted
from sluice.core.registry.errors import (
    Forbidden,
    NotLookedUp,
    RefusedSchema,
    RegistryRefused,
    RegistryUnreachable,
    UnknownSchema,
)
from sluice.core.registry.schemas import Bundle, RegisteredSchema, bundle_of, document, registered

log = logging.getLogger(__name__)

# Texts that a process has at most; the one that was not used for longest goes first.
MAX_BYTES = 64 << 20
# How long it is not asked again for an id that it does not have, or whose schema cannot be used: producers
# register before they send, but with several servers not all of them know it at once.
FAILED_SECONDS = 30.0
MAX_FAILED = 10_000
# Between two warnings that the registry does not answer; so long it is not asked for kept schemas either.
WARNING_SECONDS = 60.0
# How long a kept schema is used until the registry is asked whether it still has it under this id: it may be
# put back to an earlier state meanwhile, and give the id to another schema.
CONFIRMED_SECONDS = 3600.0


class SchemaStore(Protocol):
    """A place for documents that outlives the process. Many processes use it at once."""

    def get(self, schema_id: int) -> Document | None: ...

    def put(self, schema_id: int, document: Document) -> Document:
        """Keep the document, unless there is one; returns the one that is kept."""

    def ids(self) -> frozenset[int]:
        """Those that it has."""


class Source(Protocol):
    """The registry."""

    name: str

    def bundle(self, schema_id: int) -> Bundle: ...

    def subjects(self, schema_id: int) -> frozenset[str]: ...


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

    One that is kept is used whether the registry answers or not, and whether it still has it; but not if the
    registry has another one under its id: that is looked for once in each process, and each hour, unless
    ids are made of the schemas.

    ``clock``: seconds that only rise; ``is_by_content``: an id says which schema it is.
    """

    def __init__(
        self,
        source: Source,
        store: SchemaStore,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_by_content: bool = False,
    ) -> None:
        self._source, self._store, self._clock = source, store, clock
        self._is_by_content = is_by_content
        # The first for what is remembered; the second for requests, so that one thread asks for all.
        self._lock, self._asking = threading.Lock(), threading.Lock()
        # Each until when it is used without a look at the registry.
        self._schemas: OrderedDict[int, tuple[RegisteredSchema, float]] = OrderedDict()
        self._bytes = 0
        self._failed: OrderedDict[int, _Failure] = OrderedDict()
        # Each until when it is not asked again: an id may become a version of another subject, too.
        self._subjects: OrderedDict[tuple[int, frozenset[str]], tuple[frozenset[str], float]] = OrderedDict()
        self._warned: float | None = None
        self._budget = Budget(clock, FAILED_SECONDS)
        self._stored: tuple[float, frozenset[int]] | None = None

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
                self._check_budget(schema_id)
                began = self._clock()
                try:
                    found, seconds = self._look_up(schema_id)
                except (UnknownSchema, RefusedSchema) as error:
                    self._budget.spend(self._clock() - began)
                    self._remember_failure(schema_id, error)
                    raise
                self._remember(found, seconds)
            return found

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        """As :class:`~sluice.core.registry.schemas.Schemas`. Never kept in the store: it changes. What was
        said of other subjects may be from before it was registered for these."""
        key = schema_id, among
        with self._asking:
            found, until = self._subjects.get(key, (frozenset[str](), 0.0))
            if self._clock() >= until:
                found = self._source.subjects(schema_id) & among
                self._subjects[key] = found, self._clock() + FAILED_SECONDS
                self._subjects.move_to_end(key)
                while len(self._subjects) > MAX_FAILED:
                    self._subjects.popitem(last=False)
            return found

    def _check_budget(self, schema_id: int) -> None:
        """Raises NotLookedUp if the budget is spent, and the id is none that is stored."""
        if not self._budget.is_spent or schema_id in self._stored_ids():
            return
        raise NotLookedUp(
            f"schema id {schema_id} was not looked up: the schema registry {quoted(self._source.name)} has "
            f"none of {MAX_UNKNOWN} others that records named shortly before. Fix: if it has this one, "
            "publish the record with action replay of the stream's change DAG"
        )

    def _stored_ids(self) -> frozenset[int]:
        """Those that other processes use, as of some seconds ago."""
        now = self._clock()
        if self._stored is None or now - self._stored[0] >= FAILED_SECONDS:
            log.warning(
                "schema registry does not have ids of records; others are not looked up for now failed=%d",
                MAX_UNKNOWN,
            )
            self._stored = now, self._store.ids()
        return self._stored[1]

    def _remembered(self, schema_id: int) -> RegisteredSchema | None:
        with self._lock:
            found, until = self._schemas.get(schema_id, (None, 0.0))
            if found is not None and self._clock() < until:
                self._schemas.move_to_end(schema_id)
                return found
            failure = self._failed.get(schema_id)
        if failure is not None and self._clock() < failure.until:
            raise failure.kind(failure.message)
        return None

    def _look_up(self, schema_id: int) -> tuple[RegisteredSchema, float]:
        """The schema, and for how many seconds it is used."""
        try:
            kept = self._store.get(schema_id)
            if kept is not None:
                found = registered(bundle_of(kept, schema_id))
                return found, self._confirmed(schema_id, kept)
        except ValueError as error:
            raise RegistryChanged(
                f"the kept document of schema id {schema_id} of registry {quoted(self._source.name)} is "
                f"damaged: {error}. Fix: restore its first version"
            ) from error
        bundle = self._ask(schema_id)
        # Before it is kept: what cannot be used is not.
        found = registered(bundle)
        stored = self._store.put(schema_id, document(bundle))
        if self._is_by_content:
            # The first one's: what an id says leaves out some of a schema, as aliases.
            return registered(bundle_of(stored, schema_id)), CONFIRMED_SECONDS
        self._check_same(schema_id, bundle, stored)
        return found, CONFIRMED_SECONDS

    def _confirmed(self, schema_id: int, kept: Document) -> float:
        """Raises RegistryChanged if the registry has another schema under the id than the kept one; returns
        after how many seconds to ask again."""
        if self._is_by_content:
            return CONFIRMED_SECONDS
        if self._warned is not None and self._clock() - self._warned < WARNING_SECONDS:
            return WARNING_SECONDS
        try:
            bundle = self._source.bundle(schema_id)
        # Deleted there, or the right to it withdrawn: what it stood for stays.
        except (UnknownSchema, RefusedSchema, Forbidden):
            return CONFIRMED_SECONDS
        except (RegistryUnreachable, RegistryRefused) as error:
            self._warn(error)
            return WARNING_SECONDS
        self._check_same(schema_id, bundle, kept)
        return CONFIRMED_SECONDS

    def _check_same(self, schema_id: int, bundle: Bundle, kept: Document) -> None:
        if kept != document(bundle):
            raise RegistryChanged(
                f"schema id {schema_id} of registry {quoted(self._source.name)} is kept with another schema: "
                "it was emptied, or put back to an earlier state, or another registry has its name. Fix: if "
                "its ids stand for other schemas now, give it another name in [registry] of all platform "
                "files"
            )

    def _ask(self, schema_id: int) -> Bundle:
        try:
            return self._source.bundle(schema_id)
        except Forbidden as error:
            self._check_right(error)
            raise RefusedSchema(
                f"schema id {schema_id} is one that the login may not read: {error}; it may read those that "
                "the stream has used"
            ) from error
        except RegistryUnreachable as error:
            self._warn(error)
            raise

    def _warn(self, error: Exception) -> None:
        now = self._clock()
        if self._warned is None or now - self._warned >= WARNING_SECONDS:
            self._warned = now
            log.warning(
                "schema registry does not answer; kept schemas are still used in_memory=%d: %s",
                len(self._schemas),
                error,
            )

    def _check_right(self, error: Forbidden) -> None:
        """Raises the error, unless the login may still read a schema that records of the stream named: then
        it is a right of this one that is missing, and any producer can name it."""
        with self._lock:
            used = next(reversed(self._schemas), None)
        if used is None:
            raise error
        self._source.bundle(used)

    def _remember(self, schema: RegisteredSchema, seconds: float) -> None:
        with self._lock:
            self._failed.pop(schema.id, None)
            if schema.id not in self._schemas:
                self._bytes += _size(schema)
            self._schemas[schema.id] = schema, self._clock() + seconds
            self._schemas.move_to_end(schema.id)
            while self._bytes > MAX_BYTES and len(self._schemas) > 1:
                _, (oldest, _) = self._schemas.popitem(last=False)
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
