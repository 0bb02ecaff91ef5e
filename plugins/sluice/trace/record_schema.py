"""Which schema of a registry a record names: as the topic says it, or, of a record that the topic has lost,
as the offsets of each schema's records do. No column of the table says it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.range_reader import RangeReader
from sluice.clients.registry.client import RegistryClient
from sluice.core.decoding.decoder import Malformed
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.registry.errors import RegistryRefused, RegistryUnreachable, UnknownSchema
from sluice.core.registry.framing import unframed
from sluice.core.schema_versions.offsets import SchemaOffsets
from sluice.core.tables.batches import Batch
from sluice.systems import Systems

# How long a broker that does not answer is waited for.
_SECONDS = 15.0


@dataclass(frozen=True)
class Record:
    """A published record, at an ``offset`` of a ``partition``. ``batch``: that published it, None if that is
    not recorded. ``value`` and ``headers``: of a record in quarantine, which keeps them, as its columns have
    them."""

    partition: int
    offset: int
    batch: Batch | None = None
    value: bytes | None = None
    headers: Sequence[Any] = ()


# What a person is told of the schema.
SchemaOf = Callable[[Record], str]


@dataclass(frozen=True)
class Recorded:
    """What the table says of the offsets of schema ids, and whether a change was made: it may bring back a
    record whose batch rejected it, and did not know its id."""

    offsets: SchemaOffsets = field(default_factory=SchemaOffsets)
    has_changes: bool = False

    def is_certain(self, record: Record) -> bool:
        """Whether a row is of one of the ids that cover its offset."""
        rejected_none = not self.has_changes or (record.batch is not None and not record.batch.rejected)
        return rejected_none and self.offsets.is_complete_at(record.partition, record.offset)

    def answer(self, record: Record, named: Callable[[int], str], why: str) -> str:
        """The ids that cover a record's offset, which are ``named``; ``why``: the topic does not tell."""
        ids = self.offsets.covering(record.partition, record.offset)
        if not ids:
            return f"not known: {why}"
        said = " or ".join(map(named, ids))
        if not self.is_certain(record):
            return f"not known: {why}; by the offsets of their records perhaps {said}"
        return f"{said}, by the offsets of their records ({why})"


def schema_of(
    systems: Systems,
    topic: str,
    topic_id: str,
    recorded: Recorded | None = None,
    subjects: Collection[str] = (),
) -> SchemaOf:
    """``topic_id``: of the topic that the table has records of; another one of its name tells nothing.
    ``subjects``: those of the topic's values, empty for its own. What cannot be asked, or is deleted, is said
    in the answer: the rest of a trace does not need it."""
    known, own = recorded or Recorded(), subjects or (f"{topic}-value",)

    def of_frame(value: bytes, headers: Sequence[tuple[bytes, bytes | None]]) -> str:
        try:
            schema_id, _ = unframed(value, headers)
        except Malformed as error:
            return f"none: {error}"
        return with_versions(schema_id)

    def with_versions(schema_id: int) -> str:
        return f"id {schema_id}{_versions(systems.registry, own, schema_id)}"

    def answer(record: Record) -> str:
        if record.value is not None:
            return of_frame(record.value, [(one["key"].encode(), one["value"]) for one in record.headers])
        with Brokers(systems.platform.kafka) as brokers:
            reader = RangeReader(brokers, topic, topic_id, patience=_SECONDS)
            try:
                offsets = IntervalSet.of([(record.offset, record.offset + 1)])
                read = reader.read(record.partition, offsets)
                rows = [row for piece in read for row in piece.to_pylist()]
            except (Refused, Unreachable) as error:
                return known.answer(record, with_versions, str(error))
        if not rows:
            return known.answer(record, with_versions, "the topic has no record there any more")
        if rows[0]["value"] is None:
            return "none: it has no value"
        return of_frame(rows[0]["value"], [(one["key"], one["value"]) for one in rows[0]["headers"] or ()])

    return answer


def _versions(registry: RegistryClient, subjects: Collection[str], schema_id: int) -> str:
    """Which version of the topic's own subjects an id is, for a message: of others where they do not have it,
    since topics whose schemas are the same text share its id."""
    try:
        found = registry.uses(schema_id)
    except UnknownSchema:
        return ", which the registry does not have"
    except (RegistryUnreachable, RegistryRefused) as error:
        return f" (its version is not known: {error})"
    own = [one for one in found if one[0] in subjects]
    return "".join(f", version {version} of subject {subject}" for subject, version in own or found)
