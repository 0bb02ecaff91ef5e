"""Offsets of a batch that have no record, as the log's own headers and history say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import OFFSET_RANGES, WITHOUT_RECORD


@dataclass(frozen=True)
class WithoutRecord:
    """``control``: markers of transactions; ``aborted``: records of aborted ones; ``absent``: in no batch of
    the log, or taken out of it, which ``evidence`` explains."""

    control: OffsetRanges = field(default_factory=OffsetRanges)
    aborted: OffsetRanges = field(default_factory=OffsetRanges)
    absent: OffsetRanges = field(default_factory=OffsetRanges)
    evidence: str = ""

    @property
    def offsets(self) -> OffsetRanges:
        return self.control.union(self.aborted).union(self.absent)

    def to_document(self) -> dict[str, Any]:
        """Empty if each offset has a record."""
        if not self.offsets:
            return {}
        parts = {"control": self.control, "aborted": self.aborted, "absent": self.absent}
        document: dict[str, Any] = {name: json.loads(one.to_json()) for name, one in parts.items() if one}
        return document | ({"evidence": self.evidence} if self.evidence else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> WithoutRecord:
        parts = {name: OffsetRanges.of(document.get(name, {})) for name in ("control", "aborted", "absent")}
        return cls(**parts, evidence=document.get("evidence", ""))

    def properties(self) -> dict[str, str]:
        """As an entry of the batch's summary; none if each offset has a record."""
        document = self.to_document()
        return {WITHOUT_RECORD: json.dumps(document, separators=(",", ":"))} if document else {}

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> WithoutRecord:
        return cls.from_document(json.loads(summary.get(WITHOUT_RECORD, "{}")))


def records_of(summary: Mapping[str, str]) -> OffsetRanges:
    """The offsets of a batch's records: what it read, less what has no record."""
    ranges = OffsetRanges.of_batch(summary[OFFSET_RANGES])
    return ranges.minus(WithoutRecord.of(summary).offsets) if WITHOUT_RECORD in summary else ranges
