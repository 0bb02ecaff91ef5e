"""What stays known of batches whose documents maintenance deleted from the batch log: the offsets that they
published, and which of these have no record. A gap in the table is explained by that, however old it is.

One document has all of it. The next one is written before anything else is deleted, and the one before it is
deleted a run later, so a reader finds one at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges, Pair
from sluice.core.tables.batches import Batch
from sluice.core.tables.without_record import NAMES, WithoutRecord
from sluice.ledger.batch_log import ROLLED_UP, rolled_up_number

if TYPE_CHECKING:
    from sluice.core.json_record import Document
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)

# Pieces of evidence that are kept of each end: each names the time at which a range was read.
KEPT_EVIDENCE = 10
_LEFT_OUT = "…"


@dataclass(frozen=True)
class RolledUp:
    """``offsets``: those that the batches published; ``without_record``: by the names of
    :class:`WithoutRecord`; ``evidence``: its, of the oldest and of the newest ones; ``until``: when the
    newest of the batches was published, None without any."""

    offsets: OffsetSet = field(default_factory=OffsetSet)
    without_record: Mapping[str, OffsetSet] = field(default_factory=dict)
    evidence: str = ""
    until: datetime | None = None

    def more(self, batches: Sequence[Batch]) -> RolledUp:
        """With these batches, whose offsets without a record were read."""
        joined = WithoutRecord.joined(batch.without_record for batch in batches)
        found = dict(self.without_record)
        for name in NAMES:
            if offsets := getattr(joined, name):
                found[name] = found.get(name, OffsetSet()).union(OffsetSet.of(offsets))
        published: dict[int, list[Pair]] = {}
        for batch in batches:
            for partition, ranges in batch.ranges.partitions.items():
                published.setdefault(partition, []).extend(ranges.pairs())
        times = [batch.published for batch in batches] + ([self.until] if self.until else [])
        offsets = self.offsets.union(OffsetSet.of(OffsetRanges.of(published)))
        evidence = _evidence(self.evidence, joined.evidence)
        return RolledUp(offsets, found, evidence, max(times, default=None))

    def has(self, offsets: OffsetRanges) -> bool:
        """Whether it says of each of these whether it has a record."""
        return not self.others(offsets)

    def others(self, offsets: OffsetRanges) -> OffsetRanges:
        """Those of ``offsets`` of which it says nothing."""
        return _ranges(OffsetSet.of(offsets).minus(self.offsets))

    def of(self, offsets: OffsetRanges) -> WithoutRecord:
        """Those of ``offsets`` that have no record."""
        asked = OffsetSet.of(offsets)
        parts: dict[str, Any] = {
            name: common
            for name, found in self.without_record.items()
            if (common := _ranges(found.intersect(asked)))
        }
        return WithoutRecord(**parts, evidence=self.evidence if "absent" in parts else "")

    def to_document(self, table_uuid: str) -> Document:
        """``table_uuid``: of the table whose batches they are."""
        document: Document = {
            "table_uuid": table_uuid,
            "offsets": self.offsets.to_json(),
            "without_record": {name: found.to_json() for name, found in self.without_record.items()},
            "evidence": self.evidence,
            "until": self.until.isoformat() if self.until else None,
        }
        return document

    @classmethod
    def from_document(cls, document: Document) -> RolledUp:
        """Raises ValueError, KeyError or TypeError for another document."""
        named = {name: OffsetSet.from_json(found) for name, found in document["without_record"].items()}
        if unknown := named.keys() - set(NAMES):
            raise ValueError(f"{sorted(unknown)} are no kinds of offsets without a record")
        until = datetime.fromisoformat(document["until"]) if document["until"] else None
        return cls(OffsetSet.from_json(document["offsets"]), named, document["evidence"], until)


class RolledUpReader:
    """What a batch log's newest rolled-up document says of the table with ``table_uuid``."""

    def __init__(self, documents: Ledger, table_uuid: str) -> None:
        self._documents, self._table_uuid, self._known = documents, table_uuid, RolledUp()

    def about(self, offsets: OffsetRanges) -> RolledUp:
        """Read again unless it is known to have all ``offsets``: what maintenance deletes is in it before."""
        if not self._known.has(offsets):
            self._known = newest(self._documents, self._table_uuid)[1]
        return self._known


def newest(documents: Ledger, table_uuid: str) -> tuple[int, RolledUp]:
    """What the newest rolled-up document of a batch log says, and its number; 0 and nothing if there is none,
    and nothing if it is another table's. A LIST and a GET. Raises Refused if it is damaged."""
    for key in documents.keys(ROLLED_UP, limit=1):
        try:
            number = rolled_up_number(key)
            if number is None:
                raise ValueError("its name has no number")
            document = documents.require(key, "remove_history")
            if not _is_of(document, table_uuid):
                log.warning("%s is of another table", documents.uri(key))
                return number, RolledUp()
            return number, RolledUp.from_document(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"{documents.uri(key)}: damaged: {error!r}: it says which old offsets have no record. Fix: "
                "restore the object's previous version, or delete it if the one behind it is whole",
                ErrorCode.LAKE_FILE_MISSING,
            ) from error
    return 0, RolledUp()


def older(documents: Ledger, number: int, table_uuid: str) -> list[str]:
    """Keys of the table's rolled-up documents before ``number``: a LIST, and a GET for each."""
    keys = islice(documents.keys(ROLLED_UP), 1000)
    before = [key for key in keys if (found := rolled_up_number(key)) is not None and found < number]
    return [key for key in before if (document := documents.get(key)) and _is_of(document, table_uuid)]


def _is_of(document: Document, table_uuid: str) -> bool:
    # One of before the key has none.
    return document.get("table_uuid", table_uuid) == table_uuid


def _evidence(known: str, more: str) -> str:
    pieces = [piece for text in (known, more) for piece in text.split("; ") if piece]
    pieces = list(dict.fromkeys(pieces))
    if len(pieces) <= 2 * KEPT_EVIDENCE:
        return "; ".join(pieces)
    pieces = [piece for piece in pieces if piece != _LEFT_OUT]
    return "; ".join([*pieces[:KEPT_EVIDENCE], _LEFT_OUT, *pieces[-KEPT_EVIDENCE:]])


def _ranges(offsets: OffsetSet) -> OffsetRanges:
    found: dict[int, list[Pair]] = {}
    for piece in offsets.pieces():
        for partition, ranges in piece.partitions.items():
            found.setdefault(partition, []).extend(ranges.pairs())
    return OffsetRanges.of(found)
