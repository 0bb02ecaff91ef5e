"""At which offsets the records of each schema id are: the property of a table that follows a registry.

It is set in the commit that publishes a batch, so it is true of ``main`` and of no other: a batch that fails
says nothing, and a restored catalog has it as it was. A property and not the snapshots' summaries: those are
20 to 5,000 in each metadata file and expire, this is one text. Ids that it has no space for are in a document
beside the table, which the property names: what a batch writes has the same bound on its first day and on its
last. A change reads records that a batch has published, so it has nothing to add.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.followed import digest_of

PROPERTY = "sluice.schema-offsets"
# The folder of the documents, in the table's.
FOLDER = "schema-offsets"
# Characters of the property: what Hive's catalog accepts of one, and half of that, above which ids move into
# a document.
MOST_CHARACTERS = 32_768
MAX_CHARACTERS = MOST_CHARACTERS // 2
# Pairs of id and partition that a document keeps: of a producer that registers a schema per record, the
# newest.
MAX_PAIRS = 20_000

# A document as it is in JSON.
Document = Iterable[Any]
# Partition -> the first and the last offset.
Bounds = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Seen:
    """An id's records: when the first was published (ms since 1970), and their offsets by partition."""

    at: int
    bounds: Bounds

    def joined(self, other: Seen) -> Seen:
        return Seen(min(self.at, other.at), joined(self.bounds, other.bounds))


@dataclass(frozen=True)
class SchemaOffsets:
    """Schema id -> its records, the ids that were seen last at the end.

    ``complete``: partition -> [from, until): the ids of all records of these offsets that became rows are
    here. ``document``: digest of the one with more ids and bounds, empty without one; :meth:`with_document`
    has both. ``forgotten``: number of pairs of id and partition that there was no space for.
    """

    ids: Mapping[int, Seen] = field(default_factory=dict)
    complete: Bounds = field(default_factory=dict)
    document: str = ""
    forgotten: int = 0

    def more(self, found: Mapping[int, Bounds], ranges: OffsetRanges, at: int) -> SchemaOffsets:
        """After a batch of ``ranges`` that was published ``at`` (ms since 1970). ``found``: its ids."""
        ids = dict(self.ids)
        for schema_id, bounds in sorted(found.items()):
            one, known = Seen(at, bounds), ids.pop(schema_id, None)
            ids[schema_id] = known.joined(one) if known else one
        complete = dict(self.complete)
        for partition, offsets in ranges.partitions.items():
            begin, end = offsets.pairs()[0][0], offsets.pairs()[-1][1]
            since, until = complete.get(partition, (begin, begin))
            # Batches between that recorded nothing, as of an earlier version of Sluice: a gap.
            complete[partition] = (since if since <= begin <= until else begin, end)
        return replace(self, ids=ids, complete=complete)

    def is_long(self, found: Mapping[int, Bounds]) -> bool:
        """Whether the ids are to move into a document, after a batch with the ids ``found``. Up to
        MOST_CHARACTERS not if it would be for the ids of this batch alone, which the next may have too: each
        batch would write a document."""
        characters = len(self.text())
        if characters <= MAX_CHARACTERS or not self.ids:
            return False
        has_earlier = _pairs(self.ids) > 2 * sum(map(len, found.values()))
        return has_earlier or characters > MOST_CHARACTERS

    def moved(self, document: Document = ()) -> tuple[SchemaOffsets, str]:
        """Without ids, and the text of the document that has them. ``document``: the one that is named
        now."""
        whole = self.with_document(document)
        ids, forgotten, pairs = dict(whole.ids), self.forgotten, _pairs(whole.ids)
        while pairs > MAX_PAIRS:
            lost = len(ids.pop(next(iter(ids))).bounds)
            pairs, forgotten = pairs - lost, forgotten + lost
        text = json.dumps(_ids_as_json(ids), separators=(",", ":"))
        return SchemaOffsets({}, self.complete, digest_of(text), forgotten), text

    def with_document(self, document: Document) -> SchemaOffsets:
        """With the ids of its document."""
        ids = _ids_of(document)
        for schema_id, one in self.ids.items():
            known = ids.pop(schema_id, None)
            ids[schema_id] = known.joined(one) if known else one
        return replace(self, ids=ids)

    def covering(self, partition: int, offset: int) -> list[int]:
        """The ids whose records are on both sides of an offset, or at it, rising."""
        bounds = {schema_id: one.bounds.get(partition) for schema_id, one in self.ids.items()}
        return sorted(found for found, pair in bounds.items() if pair and pair[0] <= offset <= pair[1])

    def is_complete_at(self, partition: int, offset: int) -> bool:
        """Whether an id that is not here has no row there."""
        since, until = self.complete.get(partition, (0, 0))
        return since <= offset < until and not self.forgotten

    def text(self) -> str:
        said: dict[str, Any] = {
            "ids": _ids_as_json(self.ids),
            "complete": _bounds_as_json(self.complete),
            "document": self.document,
            "forgotten": self.forgotten,
        }
        return json.dumps({name: one for name, one in said.items() if one}, separators=(",", ":"))

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> SchemaOffsets:
        """What a table's properties say; empty of one without."""
        said = json.loads(properties.get(PROPERTY) or "{}")
        return cls(
            _ids_of(said.get("ids", [])),
            _bounds_of(said.get("complete", {})),
            said.get("document", ""),
            said.get("forgotten", 0),
        )


def joined(left: Bounds, right: Bounds) -> dict[int, tuple[int, int]]:
    """The bounds of both."""
    found = dict(left)
    for partition, (first, last) in right.items():
        known = found.get(partition, (first, last))
        found[partition] = min(known[0], first), max(known[1], last)
    return found


def joined_ids(parts: Iterable[Mapping[int, Bounds]]) -> dict[int, Bounds]:
    """The bounds of each id in all parts of a batch."""
    found: dict[int, Bounds] = {}
    for part in parts:
        for schema_id, bounds in part.items():
            found[schema_id] = joined(found.get(schema_id, {}), bounds)
    return found


def address(location: str, digest: str) -> str:
    """Where a document is. ``location``: the table's folder."""
    return f"{location}/{FOLDER}/{digest}.json"


def _pairs(ids: Mapping[int, Seen]) -> int:
    return sum(len(one.bounds) for one in ids.values())


def _ids_as_json(ids: Mapping[int, Seen]) -> list[Any]:
    # A list: its order says which were seen last.
    return [[schema_id, one.at, _bounds_as_json(one.bounds)] for schema_id, one in ids.items()]


def _ids_of(said: Document) -> dict[int, Seen]:
    return {schema_id: Seen(at, _bounds_of(bounds)) for schema_id, at, bounds in said}


def _bounds_as_json(bounds: Bounds) -> dict[str, list[int]]:
    return {str(partition): [*pair] for partition, pair in sorted(bounds.items())}


def _bounds_of(said: Mapping[str, Any]) -> dict[int, tuple[int, int]]:
    return {int(partition): (first, last) for partition, (first, last) in said.items()}
