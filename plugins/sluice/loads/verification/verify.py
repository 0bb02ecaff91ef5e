"""Verify a load from the table, the quarantine and the sources alone, and record the proof.

- Every offset of the load is in the table or the quarantine exactly once: by file metadata, or by two columns
  of the files whose metadata is not conclusive. Or it has no record: the consumer recorded so, and the topic
  delivers none there to another client.
- Every row of an object version (read again) or of a generator (its parameters tell the number) is published
  once or quarantined. For a feed, rows and quarantined offsets add up to the offsets, and each event id is in
  the table once. Of records of others no more is claimed than their offsets.
- Sources that an earlier load verified are not in the plan; the table still has their offsets.
- The table has the schema's columns; the quarantined share is within its limit.

The table is planned once, from the files that were committed since the load was planned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from sluice.config.csv_reading import reading_of
from sluice.config.stream_columns import schema_problems
from sluice.core.csv.form import Declared
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.ledger.keys import NOT_VERIFIED, PROOF, VERIFIED_TABLE, history_key, run_key
from sluice.ledger.own_snapshots import OwnSnapshots
from sluice.loads import sources
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning import plan
from sluice.loads.sending import produced
from sluice.loads.sources.base import Source
from sluice.loads.verification import checks, proof
from sluice.loads.verification.checks import LoadFiles
from sluice.loads.verification.proof import ValidationResult, VerifiedLoad
from sluice.loads.verification.without_record import of_gaps

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.config.stream import StreamSpec
    from sluice.core.changes.result import ChangeResult
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

RESTORED = (
    "{count} sources that earlier loads verified: {table} no longer has their offsets, or is another table: "
    "its catalog was restored since the load was planned. Fix: trigger a new run, which verifies them again"
)


@dataclass(frozen=True)
class LoadVerification:
    """The load ``run_id`` of the stream ``spec``: first :meth:`verify`, then :meth:`write_proof` or
    :meth:`record_failure`. ``plan``, ``produced``: its documents in ``ledger``. ``systems``: of the lake and
    the sources. ``began``: on the monotonic clock."""

    systems: Systems
    spec: StreamSpec
    ledger: Ledger
    run_id: str
    plan: Document
    produced: Document
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, systems: Systems, spec: StreamSpec, ledger: Ledger, run_id: str) -> Self:
        """Raises Missing before the load was planned, and before all of it was sent."""
        task = spec.planning_task
        planned, sent = plan.plan_of(ledger, run_id, task), produced.of_run(ledger, run_id, task)
        return cls(systems, spec, ledger, run_id, planned, sent)

    @cached_property
    def sources(self) -> list[Source]:
        return sources.read_all(self.plan["sources"])

    @cached_property
    def verified(self) -> VerifiedSources:
        return VerifiedSources(self.ledger, self.systems.lake, self.spec.table)

    def verify(self, limit: float) -> VerifiedLoad:
        """``limit``: percent of the rows that may be in quarantine. Reads the table and the sources."""
        from sluice.clients.lake.changes import published_changes, removed_by

        lake = self.systems.lake
        sent = produced.offsets_of_all(self.produced)
        # One state for both: what a change removes meanwhile is in it, and not among the removed.
        table = lake.table(self.spec.table)
        removed = removed_by(self.ledger.client, published_changes(table))
        expected = sent.minus(removed.single_offsets)
        own = OwnSnapshots(
            self.ledger, partial(self.systems.batch_log, self.spec.table), self._verified_state
        )
        load = LoadFiles.plan(lake, self.spec, self.sources, expected, own.among, table)
        check = checks.check_offsets(load, partial(of_gaps, self.systems, self.spec))
        result = self._result(load, check, removed, sent, limit)
        problems = result.problems(self.spec.name) + check.without.problems(self.spec.name)
        if not self.verified.still(result.verified_before):
            problems.append(RESTORED.format(count=result.verified_before["count"], table=self.spec.table))
        head = load.table.current_snapshot()
        return VerifiedLoad(
            run_id=self.run_id,
            result=result,
            check=check,
            problems=problems,
            expected=load.expected,
            table=self.spec.table,
            table_uuid=str(load.table.metadata.table_uuid),
            location=load.table.location(),
            snapshot_id=head.snapshot_id if head else None,
            seconds=round(time.monotonic() - self.began, 1),
        )

    def _verified_state(self) -> Document | None:
        """What a reconciliation verified last of the table."""
        return self.systems.history(self.spec.name).latest(VERIFIED_TABLE)

    def _result(
        self,
        load: LoadFiles,
        check: checks.OffsetCheck,
        removed: ChangeResult,
        sent: OffsetRanges,
        limit: float,
    ) -> ValidationResult:
        from sluice.clients.s3.requests import at_once

        # Objects are read again, several at once.
        rows = at_once(self.sources, lambda source: source.rows(self.systems))
        return ValidationResult(
            offsets=check.verification,
            sources=[
                (
                    source,
                    checks.check_source(
                        self.spec, load, check, source, number, removed.rows_of(source.source_id)
                    ),
                )
                for source, number in zip(self.sources, rows, strict=True)
            ],
            schema=self.wrong_columns(load.table),
            limit=limit,
            verified_before=self.plan["verified_before"],
            reverted=len(self.plan["reverted"]),
            # Any producer can send such keys: of other sources they are rejected rows.
            withheld=sum(len(load.withheld(s.source_id)) for s in self.sources if s.is_withheld),
            removed=sent.intersect(removed.single_offsets),
            without=check.without,
            uploaded_again=self.plan.get("uploaded_again", []),
            reasons=partial(self._reasons, load),
        )

    def _reasons(self, load: LoadFiles) -> list[str]:
        reading = reading_of(self.spec)
        return load.rejected_sources(reading.declared if reading else Declared())

    def wrong_columns(self, table: Table) -> list[str]:
        from sluice.clients.lake.catalog import columns

        return schema_problems(self.spec, columns(table))

    def record_failure(self, load: VerifiedLoad) -> None:
        """Record in the stream's history that the load is not verified, and why."""
        found = {
            "run_id": self.run_id,
            "seconds": load.seconds,
            "problems": [summarize(load.problems, proof.SHOWN_PROBLEMS)],
        }
        self.ledger.put(history_key(NOT_VERIFIED, datetime.now(UTC), "load"), found)

    def write_proof(self, load: VerifiedLoad, mark: Callable[[str], None]) -> tuple[VerifiedLoad, Document]:
        """Write the proof and each source's verified document; the load with the proof's address, and the
        proof. ``mark``: leaves outside of the ledger that it has the history's record of this key."""
        document = proof.document(load)
        key = run_key(self.run_id, "proof")
        if self.ledger.put(key, document) is not document:
            # Verified before: the table may have changed since, or its catalog was restored.
            key = run_key(self.run_id, f"proof-{load.snapshot_id}")
            self.ledger.put(key, document)
        self._record_ends(document, load, mark)
        # After the proof: a document without one would spare a source its verification.
        self.verified.record(self._lasting(document), produced.end_offsets(self.produced))
        for source in self.sources:
            source.record_verified(self.ledger, self.verified.incarnation, self.run_id)
        return replace(load, proof=self.ledger.uri(key)), document

    def _record_ends(self, document: Document, load: VerifiedLoad, mark: Callable[[str], None]) -> None:
        """Record up to where the table was verified, for reconciliation: constant cost, by the newest key."""
        ends = {str(p): offsets.pairs()[-1][1] for p, offsets in load.expected.partitions.items()}
        if ends:
            # With the numbers that a page shows: the proof itself has a line per source.
            record = {
                "run_id": document["run_id"],
                "table": document["table"],
                "table_uuid": document["table_uuid"],
                "ends": ends,
                "seconds": load.seconds,
                "records": document["topic_records"],
                "published": document["published"],
                "quarantined": document["quarantined"],
            }
            key = history_key(PROOF, datetime.now(UTC), "load")
            self.ledger.put(key, record)
            mark(key)

    def _lasting(self, document: Document) -> list[Document]:
        """The documents of the sources that a later load may have again."""
        lasting = {source.source_id for source in self.sources if source.IS_LASTING}
        # Also a version with the content of one of the table's sources: the next load need not compare it.
        same = [one for one in document["uploaded_again"] if not one["is_reverted"]]
        return [
            {**source, "run_id": document["run_id"], "at": document["at"]}
            for source in [*(s for s in document["sources"] if s["source_id"] in lasting), *same]
        ]
