"""Which schema of a registry a record names, as the topic says it: no column of the table does."""

from __future__ import annotations

from collections.abc import Callable

from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.range_reader import RangeReader
from sluice.clients.registry.client import RegistryClient
from sluice.core.decoding.decoder import Malformed
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.registry.errors import RegistryRefused, RegistryUnreachable, UnknownSchema
from sluice.core.registry.framing import unframed
from sluice.systems import Systems

# Partition and offset -> what a person is told of the schema.
SchemaOf = Callable[[int, int], str]
# How long a broker that does not answer is waited for.
_SECONDS = 15.0


def schema_of(systems: Systems, topic: str, topic_id: str) -> SchemaOf:
    """``topic_id``: of the topic that the table has records of; another one of its name tells nothing. What
    cannot be asked, or is deleted, is said in the answer: the rest of a trace does not need it."""

    def answer(partition: int, offset: int) -> str:
        with Brokers(systems.platform.kafka) as brokers:
            reader = RangeReader(brokers, topic, topic_id, patience=_SECONDS)
            try:
                read = reader.read(partition, IntervalSet.of([(offset, offset + 1)]))
                rows = [row for piece in read for row in piece.to_pylist()]
            except (Refused, Unreachable) as error:
                return f"not known: {error}"
        if not rows:
            return "not known: the topic has no record there any more"
        if rows[0]["value"] is None:
            return "none: it has no value"
        headers = [(one["key"], one["value"]) for one in rows[0]["headers"] or ()]
        try:
            schema_id, _ = unframed(rows[0]["value"], headers)
        except Malformed as error:
            return f"none: {error}"
        return f"id {schema_id}{_versions(systems.registry, topic, schema_id)}"

    return answer


def _versions(registry: RegistryClient, topic: str, schema_id: int) -> str:
    """Which version of the topic's own subject an id is, for a message: of other subjects where it has none,
    since topics whose schemas are the same text share its id."""
    try:
        found = registry.uses(schema_id)
    except UnknownSchema:
        return ", which the registry does not have"
    except (RegistryUnreachable, RegistryRefused) as error:
        return f" (its version is not known: {error})"
    own = [one for one in found if one[0] == f"{topic}-value"]
    return "".join(f", version {version} of subject {subject}" for subject, version in own or found)
