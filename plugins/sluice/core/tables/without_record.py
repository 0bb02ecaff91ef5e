"""Offsets of a batch that have no record in a table: as the log's own headers and history say, or as the
stream declares."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges, Pair
from sluice.core.tables.summary import OFFSET_RANGES, WITHOUT_RECORD

# Characters of a summary's property; more are in a document beside the table: each reader of the table's
# metadata reads all summaries, and a topic may have a marker for every few records.
MAX_CHARACTERS = 4096
# The folder of these documents, in the table's.
FOLDER = "without-record"
NAMES = ("control", "aborted", "absent", "skipped")


@dataclass(frozen=True)
class WithoutRecord:
    """Offsets and why they have no record."""

    control: OffsetRanges = field(default_factory=OffsetRanges)
    """Markers of transactions."""
    aborted: OffsetRanges = field(default_factory=OffsetRanges)
    """Records of aborted transactions."""
    absent: OffsetRanges = field(default_factory=OffsetRanges)
    """In no batch of the log, or taken out of it, which ``evidence`` explains."""
    evidence: str = ""
    """Text; empty without absent ones."""
    address: str = ""
    """The document that has the offsets; then none are here, and ``documented`` counts them."""
    documented: int = 0
    """Number of offsets in the document."""
    skipped: OffsetRanges = field(default_factory=OffsetRanges)
    """Records without a value, which the stream's declaration leaves out (`[records] tombstones`)."""

    @property
    def offsets(self) -> OffsetRanges:
        """Raises ValueError if a document has them: :meth:`read` it first."""
        if self.address:
            raise ValueError(f"{self.address} has the offsets")
        return self.control.union(self.aborted).union(self.absent).union(self.skipped)

    @property
    def count(self) -> int:
        return self.documented if self.address else self.offsets.count

    def read(self, document: Callable[[str], Mapping[str, Any]]) -> WithoutRecord:
        """With the offsets. ``document``: reads one by its address."""
        return WithoutRecord.from_document(document(self.address)) if self.address else self

    def within(self, offsets: OffsetRanges) -> WithoutRecord:
        """Those of ``offsets``."""
        parts = {name: getattr(self, name).intersect(offsets) for name in NAMES}
        return WithoutRecord(**parts, evidence=self.evidence if parts["absent"] else "")

    @classmethod
    def joined(cls, parts: Iterable[WithoutRecord]) -> WithoutRecord:
        """Those of all parts, of which each piece of evidence is said once."""
        found: dict[str, dict[int, list[Pair]]] = {name: defaultdict(list) for name in NAMES}
        evidence: dict[str, None] = {}
        for part in parts:
            evidence |= dict.fromkeys(part.evidence.split("; ") if part.evidence else ())
            for name, pairs in found.items():
                for partition, ranges in getattr(part, name).partitions.items():
                    pairs[partition] += ranges.pairs()
        named: dict[str, Any] = {name: OffsetRanges.of(pairs) for name, pairs in found.items()}
        return cls(**named, evidence="; ".join(evidence))

    def message(self) -> str:
        """Numbers and reasons, without addresses; of a document that is not read the number alone."""
        if self.address:
            return f"{self.documented} with their reasons in a document beside the table"
        named = (
            (self.control, "markers of transactions"),
            (self.aborted, "of aborted transactions"),
            (self.absent, f"absent ({self.evidence})"),
            (self.skipped, "tombstones, which the stream skips"),
        )
        return ", ".join(f"{offsets.count} {what}" for offsets, what in named if offsets) or "none"

    def to_document(self) -> dict[str, Any]:
        """Empty if each offset has a record."""
        if self.address:
            return {"address": self.address, "count": self.documented}
        document: dict[str, Any] = {
            name: json.loads(offsets.to_json()) for name in NAMES if (offsets := getattr(self, name))
        }
        return document | ({"evidence": self.evidence} if document and self.evidence else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> WithoutRecord:
        if "address" in document:
            return cls(address=document["address"], documented=document["count"])
        parts: dict[str, Any] = {name: OffsetRanges.of(document.get(name, {})) for name in NAMES}
        return cls(**parts, evidence=document.get("evidence", ""))

    def properties(self) -> dict[str, str]:
        """As an entry of the batch's summary; none if each offset has a record."""
        document = self.to_document()
        return {WITHOUT_RECORD: json.dumps(document, separators=(",", ":"))} if document else {}

    @property
    def is_long(self) -> bool:
        """Whether they are too many for a summary."""
        return any(len(value) > MAX_CHARACTERS for value in self.properties().values())

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> WithoutRecord:
        return cls.from_document(json.loads(summary.get(WITHOUT_RECORD, "{}")))


def record_count(summary: Mapping[str, str]) -> int:
    """Number of a batch's records: the offsets that it read, less those without a record."""
    ranges = OffsetRanges.of_batch(summary[OFFSET_RANGES])
    return ranges.count - (WithoutRecord.of(summary).count if WITHOUT_RECORD in summary else 0)
