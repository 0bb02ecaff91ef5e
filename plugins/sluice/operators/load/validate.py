"""Verification and the asset event.

Step 5 of a load: the proof, made anew from the table, the quarantine and the sources alone.

Step 7 of a load: tell other DAGs that there is proven data.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing
from sluice.hooks import failures
from sluice.hooks import load_plan as plans
from sluice.hooks.failures import failed
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document, run_key
from sluice.model.spec.schema import schema_problems
from sluice.operators.base import StreamOperator
from sluice.operators.load import (
    checks as coordinates,
)
from sluice.operators.load import (
    checks as feed_events,
)
from sluice.operators.load import (
    checks as object_rows,
)
from sluice.operators.load import (
    checks as source_rows,
)

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context
    from pyiceberg.table import Table

    from sluice.model.verification.offsets import Proof
    from sluice.model.verification.ranges import OffsetRanges
    from sluice.model.verification.sources import Reconciliation
    from sluice.operators.load.checks import OffsetCheck


@dataclass(frozen=True)
class ValidationResult:
    """What the validation saw. ``sources``: the plan's sources, each with the proof of its rows."""

    coordinates: Proof
    sources: list[tuple[Document, Reconciliation]]
    schema: list[str]
    limit: float

    @property
    def source_rows(self) -> int:
        return sum(proof.total for _, proof in self.sources)

    @property
    def published(self) -> int:
        return sum(proof.published for _, proof in self.sources)

    @property
    def quarantined(self) -> int:
        return sum(proof.quarantined for _, proof in self.sources)

    @property
    def quarantined_percent(self) -> float:
        return 100 * self.quarantined / self.source_rows if self.source_rows else 0.0

    def problems(self) -> list[str]:
        """Every reason why the load is not proved; empty when it is."""
        found = [] if self.coordinates.is_ok else [f"coordinates: {self.coordinates.message()}"]
        found += [
            f"{plans.name_of(source)}: {proof.message()}" for source, proof in self.sources if not proof.is_ok
        ]
        found += self.schema
        if self.quarantined_percent > self.limit:
            found.append(
                f"quarantine: {self.quarantined} of {self.source_rows} rows, "
                f"{self.quarantined_percent:.2f} %, the limit is {self.limit:g} %; look at "
                "their reasons, mend the source, or raise max_quarantined_percent"
            )
        return found


class ValidateOperator(StreamOperator):
    """Prove the load, or fail naming each gap, duplicate, missing row and wrong column.

    - Every (partition, offset) of the load's range set is in the table or the quarantine exactly once: from
      file metadata, and by reading two columns of the files that metadata cannot settle.
    - Of every source object, streamed again, and of every generated source, whose number of rows is its
      parameters': each row is published once or quarantined. Of what a feed gave: offsets are rows and
      quarantined offsets together, and each event id is in the table once.
    - The table has the schema's columns; the quarantined share is within ``max_quarantined_percent``.

    An exact proof goes into the ledger as ``proof.json`` and, shortened, is the return value. What is not
    exact is red without retries: looking again changes nothing.
    """

    does = "verifies every offset and record independently"
    fails_if = "a gap, a duplicate, a missing record, too much in quarantine"

    def work(self, context: Context) -> dict[str, Any]:
        run_id = context["run_id"]
        plan, documents = plans.produced(self.ledger, run_id)
        lake = self.platform_hook.lake
        # The table first: what its snapshot has published, the quarantine already held before.
        table = lake.table(self.spec.table)
        quarantine = lake.table(self.spec.quarantine_table)
        expected = plans.offsets_of_all(documents)
        found = coordinates.check_offsets(table, quarantine, expected)
        self.log.info("%s", found.message())
        findings = ValidationResult(
            coordinates=found.proof,
            sources=[
                (source, self._source(table, quarantine, source, plans.offsets_of(document), found))
                for source, document in zip(plan["sources"], documents, strict=True)
            ],
            schema=self.wrong_columns(table),
            limit=float(context["params"].get("max_quarantined_percent", 0)),
        )
        self.log.info("%s", report(findings))
        problems = findings.problems()
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            raise failed(ErrorCode.LOAD_NOT_VERIFIED, f"the load is not proved: {'; '.join(problems)}")
        head = table.current_snapshot()
        proof = document(findings, run_id, self.spec.table, head.snapshot_id if head else None, expected)
        self.ledger.put(run_key(run_id, "proof"), proof)
        return {key: value for key, value in proof.items() if key != "ranges"}

    def _source(
        self, table: Table, quarantine: Table, source: Document, offsets: OffsetRanges, found: OffsetCheck
    ) -> Reconciliation:
        if plans.is_feed(source):
            return feed_events.check_feed_events(self.spec, table, offsets, found.quarantined)
        if plans.is_generated(source):
            return source_rows.check_generated_rows(table, quarantine, source, source["parameters"]["rows"])
        return object_rows.check_object_rows(self.platform_hook, table, quarantine, source)

    def wrong_columns(self, table: Table) -> list[str]:
        """How the table's columns differ from the schema's, a line each."""
        from sluice.clients.lake.catalog import columns

        return schema_problems(self.spec, columns(table))


def report(findings: ValidationResult) -> str:
    """The validation as tables for the log."""
    rows = [
        [
            plans.name_of(source),
            proof.total,
            proof.published,
            proof.quarantined,
            proof.missing,
            proof.duplicated,
            "passed" if proof.is_ok else "FAILED",
        ]
        for source, proof in findings.sources
    ]
    head = ["source", "rows", "published", "quarantined", "missing", "twice", "result"]
    proof = findings.coordinates
    checks: list[list[object]] = [
        ["coordinates", proof.message()],
        [
            "rows",
            f"{findings.source_rows} = {findings.published} published + {findings.quarantined} quarantined",
        ],
        ["schema", "; ".join(findings.schema) or "as declared"],
        ["quarantined", f"{findings.quarantined_percent:.2f} % of the rows, at most {findings.limit:g} %"],
    ]
    return failures.table(head, rows) + "\n" + failures.table(["check", "result"], checks)


def document(
    findings: ValidationResult, run_id: str, table: str, snapshot_id: int | None, expected: OffsetRanges
) -> Document:
    """The proof for the ledger, and for the asset's event."""
    return {
        "run_id": run_id,
        "table": table,
        "snapshot_id": snapshot_id,
        "status": findings.coordinates.status.value,
        "source_rows": findings.source_rows,
        "published": findings.published,
        "quarantined": findings.quarantined,
        "quarantined_percent": round(findings.quarantined_percent, 4),
        "topic_records": findings.coordinates.expected,
        "gaps": findings.coordinates.gaps.count,
        "duplicates": findings.coordinates.duplicates.count,
        "ranges": json.loads(expected.to_json()),
        "sources": [
            {
                **plans.identity_of(source),
                "source_id": source["source_id"],
                "rows": proof.total,
                "published": proof.published,
                "quarantined": proof.quarantined,
            }
            for source, proof in findings.sources
        ],
        "at": plans.now(),
    }


class EmitAssetEventOperator(StreamOperator):
    """Emit an event of ``asset`` whose extra is the load's proof. Raises Missing where there is no proof."""

    does = "emits an event of the stream's asset that carries the proof"
    fails_if = "there is no proof"

    def __init__(self, *, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.asset = asset

    def work(self, context: Context) -> dict[str, Any]:
        key = run_key(context["run_id"], "proof")
        proof = self.ledger.get(key)
        if proof is None:
            raise Missing(
                f"no proof at {self.ledger.uri(key)}, so nothing is announced; clear the validate task"
            )
        context["outlet_events"][self.asset].extra = proof
        self.log.info("announced %s: %d rows, %s", self.asset.name, proof["published"], proof["status"])
        return {"asset": self.asset.name, "snapshot_id": proof["snapshot_id"]}
