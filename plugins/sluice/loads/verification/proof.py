"""The result of a load's verification, and the proof: for the ledger, a log, and the asset's event."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.core.json_record import Document
from sluice.core.messages import aligned
from sluice.core.offsets.verify import EMPTY
from sluice.ledger.keys import now
from sluice.loads.planning.plan import names_again
from sluice.loads.verification.without_record import NO_GAPS, GapsWithoutRecord

if TYPE_CHECKING:
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.core.offsets.sources import SourceCheck
    from sluice.core.offsets.verify import OffsetVerification
    from sluice.loads.sources.base import Source
    from sluice.loads.verification.checks import OffsetCheck


# In a message: the share, three reasons, that there are more, and the way on; and two of another kind.
SHOWN_PROBLEMS = 8


@dataclass(frozen=True)
class ValidationResult:
    """The checks of one load."""

    offsets: OffsetVerification
    """The load's, compared with the table's."""
    sources: list[tuple[Source, SourceCheck]]
    """The plan's, each with its check."""
    schema: list[str]
    """A message per column that is not as declared."""
    limit: float
    """Percent of the rows that may be quarantined."""
    verified_before: Document
    """The sources that an earlier load verified, from the plan."""
    reverted: int = 0
    """Number of sources that a change took out, which no load brings back."""
    withheld: int = 0
    """Number of the quarantined rows that a change is to publish."""
    removed: OffsetRanges = EMPTY
    """Offsets that a change took out singly."""
    without: GapsWithoutRecord = NO_GAPS
    """Offsets of the load without a record."""
    uploaded_again: Sequence[Document] = ()
    """The plan's objects whose newest version has the content of an earlier one."""
    reasons: Callable[[], list[str]] = list
    """Says why the producer rejected rows, the most frequent first; empty if it rejected none. Asked of a
    load with too many: to sum them up takes longer than to count."""

    @property
    def source_rows(self) -> int:
        return sum(check.total for _, check in self.sources)

    @property
    def published(self) -> int:
        return sum(check.published for _, check in self.sources)

    @property
    def quarantined(self) -> int:
        return sum(check.quarantined for _, check in self.sources)

    @property
    def quarantined_percent(self) -> float:
        """The share of quarantined rows, without those that are withheld: they are good."""
        return 100 * (self.quarantined - self.withheld) / self.source_rows if self.source_rows else 0.0

    def problems(self, stream: str) -> list[str]:
        """Why the load of this stream is not verified; empty if it is."""
        problems = [] if self.offsets.is_ok else [f"offsets: {self.offsets.message()}"]
        problems += [f"{source.name}: {check.message()}" for source, check in self.sources if not check.is_ok]
        problems += self.schema
        share = (
            f"{self.quarantined - self.withheld} of {self.source_rows} rows, {self.quarantined_percent:.2f} %"
        )
        if self.quarantined_percent > self.limit:
            problems.append(
                f"quarantine: {share}, the limit is {self.limit:g} %. Fix: check their reasons, correct the "
                "source, or raise max_quarantined_percent"
            )
        elif self.quarantined and not self.published and not self.withheld:
            problems.append(
                f"quarantine: {share}, and none is published, whatever the limit is. Fix: check their "
                "reasons, correct the source"
            )
        else:
            return problems
        # Problems of their own: a message cuts each of them.
        reasons = [f"quarantine: {reason}" for reason in self.reasons()]
        return [*problems, *reasons, *(self._way_on(stream) if reasons else [])]

    def _way_on(self, stream: str) -> list[str]:
        """How rows are loaded by another declaration: what was sent keeps the rules of its plan."""
        planned = {(source.run_id, source.send_by_other_rules(stream)) for source, _ in self.sources}
        return [
            f"quarantine: after a change of the declaration, trigger {stream}_change with action=revert and "
            f"load={run_id}, {again}; sluice new-stream NAME --from FILE --no-load infers all of [csv]"
            for run_id, again in sorted(planned)[:1]
        ]


@dataclass(frozen=True)
class VerifiedLoad:
    """A load as it was compared with its table."""

    run_id: str
    """The load's; those of a backfill's run are `<run id>#<number>`."""
    result: ValidationResult
    """With the numbers of rows."""
    check: OffsetCheck
    """Its offsets'."""
    problems: list[str]
    """Why it is not verified; empty if it is."""
    expected: OffsetRanges
    """The offsets that it sent, without those that a change removed singly."""
    table: str
    """The name, as `raw.nyc_taxi`."""
    table_uuid: str
    """Iceberg's: another one is another table."""
    location: str
    """Its address."""
    snapshot_id: int | None
    """The table's when it was read; None before its first."""
    seconds: float
    """How long the verification took."""
    proof: str = ""
    """Address of the ledger's document; empty without one."""


def report(result: ValidationResult) -> str:
    """Tables for a log."""
    rows = [
        [
            source.name,
            check.total,
            check.published,
            check.quarantined,
            check.missing,
            check.duplicated,
            "passed" if check.is_ok else "FAILED",
        ]
        for source, check in result.sources
    ]
    head = ["source", "rows", "published", "quarantined", "missing", "duplicated", "result"]
    lines: list[list[object]] = [
        ["offsets", result.offsets.message()],
        [
            "rows",
            f"{result.source_rows} = {result.published} published + {result.quarantined} quarantined",
        ],
        ["schema", "; ".join(result.schema) or "as declared"],
        ["withheld", f"{result.withheld} of the quarantined rows (action replace of the change DAG)"],
        ["quarantined", f"{result.quarantined_percent:.2f} % of the rows, at most {result.limit:g} %"],
        ["verified before", f"{result.verified_before['count']} sources, not verified again"],
        ["reverted", f"{result.reverted} sources, left out (action redo of the change DAG)"],
        ["removed", f"{result.removed.count} records, by action remove of the change DAG"],
        ["without a record", result.without.message()],
        ["uploaded again", f"{len(result.uploaded_again)} objects with the same content, loaded once"],
        ["meaning", "; ".join(sorted({source.MEANING for source, _ in result.sources}))],
    ]
    return aligned(head, rows) + "\n" + aligned(["check", "result"], lines)


def document(load: VerifiedLoad) -> Document:
    """The proof for the ledger."""
    result = load.result
    return {
        "run_id": load.run_id,
        "table": load.table,
        "table_uuid": load.table_uuid,
        "snapshot_id": load.snapshot_id,
        "status": result.offsets.status.value,
        "source_rows": result.source_rows,
        "published": result.published,
        "quarantined": result.quarantined,
        "withheld": result.withheld,
        "quarantined_percent": round(result.quarantined_percent, 4),
        "topic_records": result.offsets.expected,
        "gaps": result.offsets.gaps.count,
        "duplicates": result.offsets.duplicates.count,
        "ranges": json.loads(load.expected.to_json()),
        "sources": [
            {
                **source.identity,
                "source_id": source.source_id,
                "rows": check.total,
                "published": check.published,
                "quarantined": check.quarantined,
            }
            for source, check in result.sources
        ],
        "meaning": "; ".join(sorted({source.MEANING for source, _ in result.sources})),
        "verified_before": result.verified_before,
        "reverted": result.reverted,
        "removed": result.removed.count,
        "without_record": result.without.to_document(),
        "uploaded_again": list(result.uploaded_again),
        "at": now(),
    }


def short(proof: Document, address: str) -> dict[str, Any]:
    """What Airflow stores of a proof: its counts, and where the ledger has the rest. A load may have
    thousands of sources."""
    counts = {name: value for name, value in proof.items() if name != "ranges"}
    count = {"sources": len(proof["sources"]), "verified_before": proof["verified_before"]["count"]}
    return {**counts, **count, "uploaded_again": names_again(proof), "proof": address}
