"""Offsets of a batch that have no record, as the log's own headers and history say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

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

    def properties(self) -> dict[str, str]:
        """As an entry of the batch's summary; none if each offset has a record."""
        if not self.offsets:
            return {}
        parts = {"control": self.control, "aborted": self.aborted, "absent": self.absent}
        document = {name: json.loads(ranges.to_json()) for name, ranges in parts.items() if ranges}
        if self.evidence:
            document["evidence"] = self.evidence
        return {WITHOUT_RECORD: json.dumps(document, separators=(",", ":"))}

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> WithoutRecord:
        document = json.loads(summary.get(WITHOUT_RECORD, "{}"))
        evidence = document.pop("evidence", "")
        return cls(**{name: OffsetRanges.of(ranges) for name, ranges in document.items()}, evidence=evidence)


def records_of(summary: Mapping[str, str]) -> OffsetRanges:
    """The offsets of a batch's records: what it read, less what has no record."""
    ranges = OffsetRanges.of_batch(summary[OFFSET_RANGES])
    return ranges.minus(WithoutRecord.of(summary).offsets) if WITHOUT_RECORD in summary else ranges
