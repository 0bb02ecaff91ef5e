"""A step of a load: verify it from the table, the quarantine and the sources alone."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.airflow import failures
from sluice.airflow.operators.load.interval import load_id
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.config.schema import schema_problems
from sluice.core.error_codes import ErrorCode
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.offsets.verify import EMPTY
from sluice.ledger.keys import NOT_VERIFIED, PROOF, history_key, run_key
from sluice.loads import checks
from sluice.loads import plan as plans
from sluice.loads.checks import LoadFiles
from sluice.loads.verified import VerifiedSources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from pyiceberg.table import Table

    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.core.offsets.sources import SourceCheck
    from sluice.core.offsets.verify import OffsetVerification
    from sluice.loads.checks import OffsetCheck

RESTORED = (
    "{count} sources that earlier loads verified: {table} no longer has their offsets, or is another table: "
    "its catalog was restored since the load was planned. Fix: trigger a new run, which verifies them again"
)


@dataclass(frozen=True)
class ValidationResult:
    """``sources``: the plan's sources, each with its reconciliation; ``limit``: quarantined percent;
    ``verified_before``: of the sources that an earlier load verified, from the plan; ``reverted``:
    number of sources that a change took out, which no load brings back; ``withheld``: of the quarantined
    rows, those that a change is to publish; ``removed``: offsets that a change took out singly;
    ``uploaded_again``: the objects of the plan whose newest version has the content of an earlier one."""

    offsets: OffsetVerification
    sources: list[tuple[Document, SourceCheck]]
    schema: list[str]
    limit: float
    verified_before: Document
    reverted: int = 0
    withheld: int = 0
    removed: OffsetRanges = EMPTY
    uploaded_again: Sequence[Document] = ()

    @property
    def source_rows(self) -> int:
        return sum(reconciliation.total for _, reconciliation in self.sources)

    @property
    def published(self) -> int:
        return sum(reconciliation.published for _, reconciliation in self.sources)

    @property
    def quarantined(self) -> int:
        return sum(reconciliation.quarantined for _, reconciliation in self.sources)

    @property
    def quarantined_percent(self) -> float:
        """Of the rows, without those that are withheld: they are good."""
        return 100 * (self.quarantined - self.withheld) / self.source_rows if self.source_rows else 0.0

    def problems(self) -> list[str]:
        """Why the load is not verified; empty if it is."""
        problems = [] if self.offsets.is_ok else [f"offsets: {self.offsets.message()}"]
        problems += [
            f"{plans.name_of(source)}: {reconciliation.message()}"
            for source, reconciliation in self.sources
            if not reconciliation.is_ok
        ]
        problems += self.schema
        if self.quarantined_percent > self.limit:
            problems.append(
                f"quarantine: {self.quarantined - self.withheld} of {self.source_rows} rows, "
                f"{self.quarantined_percent:.2f} %, the limit is {self.limit:g} %. Fix: check "
                "their reasons, correct the source, or raise max_quarantined_percent"
            )
        return problems


@dataclass(frozen=True)
class VerifiedLoad:
    """What lineage tells of a load. ``proof``: the address of the ledger's document, empty without one."""

    result: ValidationResult
    problems: list[str]
    expected: OffsetRanges
    location: str
    snapshot_id: int | None
    proof: str = ""


class ValidateOperator(QuarantineOperator):
    """Verify the load, or fail naming each gap, duplicate, missing row and wrong column.

    - Every offset of the load is in the table or the quarantine exactly once: by file metadata, or by two
      columns of the files whose metadata is not conclusive.
    - Every row of an object version (streamed again) or of a generator (its parameters tell the number) is
      published once or quarantined. Of a feed, rows and quarantined offsets add up to the offsets, and each
      event id is in the table once.
    - Sources that an earlier load verified are not in the plan; the table still has their offsets.
    - The table has the schema's columns; the quarantined share is within ``max_quarantined_percent``.

    The table is planned once, from the files that were committed since the load was planned. The proof goes
    into the ledger as ``proof.json``; its counts and address are the return value. Then each source gets its
    verified document. No retries: the result would be the same.
    """

    does = "verifies every offset and record independently"
    fails_if = "there is a gap, a duplicate or a missing record, or too much in quarantine"

    # Of this attempt; None until it has read the table.
    verified_load: VerifiedLoad | None = None

    def work(self, context: Context) -> dict[str, Any]:
        from sluice.clients.s3.errors import removed_by

        run_id, began = load_id(self, context), time.monotonic()
        self.submitted["plan"] = self.ledger.uri(run_key(run_id, "plan"))
        plan, produced = plans.plan_of(self.ledger, run_id), plans.produced(self.ledger, run_id)
        lake, sources = self.platform_hook.lake, plan["sources"]
        self.settle()
        sent = plans.offsets_of_all(produced)
        removed = removed_by(self.ledger.client, lake.changes(self.spec.table))
        load = LoadFiles.plan(lake, self.spec, sources, sent.minus(removed.single_offsets))
        check = checks.check_offsets(load)
        self.log.info("%s", check.message())
        verified = VerifiedSources(self.ledger, lake, self.spec.table)
        result = ValidationResult(
            offsets=check.verification,
            sources=[
                (source, self._source(load, source, check, rows, removed.rows_of(source["source_id"])))
                for source, rows in zip(sources, self._rows(sources), strict=True)
            ],
            schema=self.wrong_columns(load.table),
            limit=float(context["params"].get("max_quarantined_percent", 0)),
            verified_before=plan.get("verified_before", {"count": 0}),
            reverted=len(plan.get("reverted", [])),
            # Any producer can send such keys: of other sources they are rejected rows.
            withheld=sum(len(load.withheld.get(s["source_id"], ())) for s in sources if s.get("withheld")),
            removed=sent.intersect(removed.single_offsets),
            uploaded_again=plan.get("uploaded_again", []),
        )
        self.log.info("%s", report(result))
        for name in ("gaps", "duplicates", "unexpected"):
            if found := getattr(check.verification, name):
                self.log.error("%s: %s: %s", name, self.spec.topic.name, found)
        problems = result.problems()
        if not verified.still(result.verified_before):
            problems.append(RESTORED.format(count=result.verified_before["count"], table=self.spec.table))
        head = load.table.current_snapshot()
        snapshot_id = head.snapshot_id if head else None
        self.verified_load = VerifiedLoad(result, problems, load.expected, load.table.location(), snapshot_id)
        seconds = round(time.monotonic() - began, 1)
        if problems:
            found = {"run_id": run_id, "seconds": seconds, "problems": [summarize(problems)]}
            self.ledger.put(history_key(NOT_VERIFIED, datetime.now(UTC), "load"), found)
        self.check_no_problems(ErrorCode.LOAD_NOT_VERIFIED, problems, "verification failed")
        self.tables.note(self.spec.table, self.spec.quarantine_table)
        about = {"table": self.spec.table, "table_uuid": str(load.table.metadata.table_uuid)}
        proof = document(result, run_id, about, snapshot_id, load.expected)
        key = run_key(run_id, "proof")
        if self.ledger.put(key, proof) is not proof:
            # Verified before: the table may have changed since, or its catalog was restored.
            key = run_key(run_id, f"proof-{snapshot_id}")
            self.ledger.put(key, proof)
        self.verified_load = replace(self.verified_load, proof=self.ledger.uri(key))
        self._record_ends(proof, load.expected, seconds)
        # After the proof: a document without one would spare a source its verification.
        verified.record(self._verified(proof, sources), plans.end_offsets(produced))
        return short(proof, self.ledger.uri(key))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """Airflow's OpenLineage provider calls it, if a user has configured a transport."""
        if self.verified_load is None:
            return None
        from sluice.airflow.operators.load.lineage import of_load

        return of_load(self.verified_load, self.platform_hook.platform, self.spec)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any] | None:
        """The same with the problems: a load that is not verified is in the table too."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def _record_ends(self, proof: Document, expected: OffsetRanges, seconds: float) -> None:
        """Record up to where the table was verified, for reconciliation: constant cost, by the newest key."""
        ends = {str(p): offsets.pairs()[-1][1] for p, offsets in expected.partitions.items()}
        if ends:
            at = datetime.now(UTC)
            # With the numbers that a page shows: the proof itself has a line per source.
            record = {
                "run_id": proof["run_id"],
                "table": proof["table"],
                "table_uuid": proof["table_uuid"],
                "ends": ends,
                "seconds": seconds,
                "records": proof["topic_records"],
                "published": proof["published"],
                "quarantined": proof["quarantined"],
            }
            key = history_key(PROOF, at, "load")
            self.ledger.put(key, record)
            self.mark(key)

    def mark(self, key: str) -> None:
        """Leave in Airflow's database that the ledger has the record of a proof."""
        self.marks_of(self.ledger).leave(PROOF, key)

    def _rows(self, sources: list[Document]) -> list[int]:
        """Of each source, the objects' counted; 0 of a feed, which has none."""
        from sluice.clients.s3.requests import at_once

        def count(source: Document) -> int:
            if plans.is_feed(source) or plans.is_generated(source):
                return int(source.get("parameters", {}).get("rows", 0))
            return checks.object_rows(self.platform_hook, source)

        return at_once(sources, count)

    def _source(
        self, load: LoadFiles, source: Document, check: OffsetCheck, rows: int, removed: list[int]
    ) -> SourceCheck:
        if plans.is_feed(source):
            return checks.check_feed_events(self.spec, load, check)
        return checks.check_source_rows(load, source, rows, removed)

    @staticmethod
    def _verified(proof: Document, sources: list[Document]) -> list[Document]:
        """The documents of the sources that a later load may have again; a feed's are each run's own."""
        again = {source["source_id"] for source in sources if not plans.is_feed(source)}
        # Also a version with the content of one of the table's sources: the next load need not compare it.
        same = [one for one in proof["uploaded_again"] if not one["is_reverted"]]
        return [
            {**source, "run_id": proof["run_id"], "at": proof["at"]}
            for source in [*(s for s in proof["sources"] if s["source_id"] in again), *same]
        ]

    def wrong_columns(self, table: Table) -> list[str]:
        from sluice.clients.lake.catalog import columns

        return schema_problems(self.spec, columns(table))


def report(result: ValidationResult) -> str:
    rows = [
        [
            plans.name_of(source),
            reconciliation.total,
            reconciliation.published,
            reconciliation.quarantined,
            reconciliation.missing,
            reconciliation.duplicated,
            "passed" if reconciliation.is_ok else "FAILED",
        ]
        for source, reconciliation in result.sources
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
        ["uploaded again", f"{len(result.uploaded_again)} objects with the same content, loaded once"],
    ]
    return failures.table(head, rows) + "\n" + failures.table(["check", "result"], lines)


def document(
    result: ValidationResult,
    run_id: str,
    about: Document,
    snapshot_id: int | None,
    expected: OffsetRanges,
) -> Document:
    """The proof for the ledger. ``about``: the table's name and UUID."""
    return {
        "run_id": run_id,
        **about,
        "snapshot_id": snapshot_id,
        "status": result.offsets.status.value,
        "source_rows": result.source_rows,
        "published": result.published,
        "quarantined": result.quarantined,
        "withheld": result.withheld,
        "quarantined_percent": round(result.quarantined_percent, 4),
        "topic_records": result.offsets.expected,
        "gaps": result.offsets.gaps.count,
        "duplicates": result.offsets.duplicates.count,
        "ranges": json.loads(expected.to_json()),
        "sources": [
            {
                **plans.identity_of(source),
                "source_id": source["source_id"],
                "rows": reconciliation.total,
                "published": reconciliation.published,
                "quarantined": reconciliation.quarantined,
            }
            for source, reconciliation in result.sources
        ],
        "verified_before": result.verified_before,
        "reverted": result.reverted,
        "removed": result.removed.count,
        "uploaded_again": list(result.uploaded_again),
        "at": plans.now(),
    }


def short(proof: Document, address: str) -> Document:
    """What Airflow stores of a proof: its counts, and where the ledger has the rest. A load may have
    thousands of sources."""
    counts = {name: value for name, value in proof.items() if name != "ranges"}
    count = {"sources": len(proof["sources"]), "verified_before": proof["verified_before"]["count"]}
    return {**counts, **count, "uploaded_again": plans.names_again(proof), "proof": address}
