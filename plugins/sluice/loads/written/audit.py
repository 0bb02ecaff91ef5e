"""The audit of a load: the objects that were written since it began, and what its batches cost, against the
stream's ``[budget]``.

It looks at what ``main`` names, not at the rest of the bucket: objects that no snapshot names are a matter of
maintenance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.core.json_record import Document
from sluice.core.messages import aligned
from sluice.core.tables.storage import BudgetCheck, ObjectCheck
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, now, run_key
from sluice.loads.heads import head_of
from sluice.loads.sending import produced
from sluice.loads.written import inventory
from sluice.loads.written.inventory import not_shown_of_files, not_shown_of_metadata

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.s3.objects import Entry
    from sluice.config.platform_sections.lake import Lake as LakeSection
    from sluice.config.sections.consumer import Budget
    from sluice.config.stream import StreamSpec
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger
    from sluice.loads.written.inventory import BatchCosts, WrittenSince

NAMED = 10
UNKNOWN = (
    "no record says what the batches of these offsets wrote, or their manifest lists were deleted with their "
    "snapshots before an audit of this run passed: {offsets}. Fix: trigger a new run, which loads nothing "
    "again and whose event names what is verified"
)


@dataclass(frozen=True)
class AuditResult:
    """``written``: table -> its objects since the load began, each of which is ``checked``; ``costs``: of the
    load's batches; ``limits``: the stream's; ``proof``: the key of the load's newest proof; ``not_shown``:
    what the audit cannot show, a line each; ``sees_markers``: whether delete markers can be listed."""

    proof: str
    written: Mapping[str, WrittenSince]
    checked: Sequence[ObjectCheck]
    costs: BatchCosts
    limits: Budget
    not_shown: Sequence[str] = ()
    sees_markers: bool = True

    def budget(self) -> list[BudgetCheck]:
        unknown = sum(not since.is_whole for since in self.written.values())
        damaged = sum(bool(check.problem) for check in self.checked)
        lines = [
            BudgetCheck("objects missing or damaged", damaged, 0),
            # The catalog was restored meanwhile: a new load finds its own.
            BudgetCheck("tables whose objects since the load began are not all known", unknown, 0),
            BudgetCheck("records in batches whose cost is not known", self.costs.unknown.count, 0),
        ]
        if self.sees_markers:
            markers = sum(check.delete_markers for check in self.checked)
            lines.insert(0, BudgetCheck("delete markers added", markers, self.limits.delete_markers))
        if self.costs.versions is not None:
            limit = self.limits.versions_per_batch
            lines.append(BudgetCheck("versions of the costliest batch", self.costs.versions, limit))
        return lines

    def problems(self) -> list[str]:
        """What is over budget, and the objects that are missing or damaged."""
        over = [line.message() for line in self.budget() if not line.ok]
        if over:
            over += [check.message() for check in self.checked if check.problem][:NAMED]
        if self.costs.unknown:
            over.append(UNKNOWN.format(offsets=self.costs.unknown))
        return over

    def document(self) -> Document:
        until = self.costs.measured_until
        shown = {"not_shown": list(self.not_shown)} if self.not_shown else {}
        markers = sum(check.delete_markers for check in self.checked) if self.sees_markers else None
        return {
            **shown,
            "batches": self.costs.batches,
            "objects": len(self.checked),
            "bytes": sum(check.size for check in self.checked),
            "delete_markers": markers,
            "versions_per_batch": self.costs.versions,
            "measured_until": until.isoformat() if until else None,
            "at": now(),
        }

    def report(self) -> str:
        """Tables for a log."""
        rows: list[list[object]] = [[name, len(since.objects)] for name, since in self.written.items()]
        lines: list[list[object]] = [
            [line.name, f"{line.value}", f"{line.limit:g}", "ok" if line.ok else "OVER"]
            for line in self.budget()
        ]
        versions = self.costs.versions
        batches = [[self.costs.batches, "not known" if versions is None else versions]]
        return "\n".join(
            [
                aligned(["table", "objects since the load began"], rows),
                aligned(["batches of the load", "versions of the costliest"], batches),
                aligned(["budget", "value", "limit", "result"], lines),
                *self.not_shown,
            ]
        )


@dataclass(frozen=True)
class LoadAudit:
    """Audit of what the load ``run_id`` of the stream ``spec`` wrote to ``lake``, against its documents in
    ``ledger``. ``batch_log``: the log of the stream's table; ``entries``: versions and delete markers of an
    address; ``platform``: how the bucket and its maintenance are declared."""

    lake: Lake
    spec: StreamSpec
    ledger: Ledger
    run_id: str
    batch_log: Callable[[], BatchLog]
    entries: Callable[[str], Iterable[Entry]]
    platform: LakeSection

    def check(self) -> AuditResult:
        """Raises Missing if nothing was recorded when the load began, or sent. A request per object."""
        task = self.spec.planning_task
        begun_by = "provision_topic" if self.spec.topic.managed else task
        before = self.ledger.require(run_key(self.run_id, "baseline"), begun_by)
        since, log = datetime.fromisoformat(before["at"]), self.batch_log()
        is_restored = any(restore.at >= since - inventory.CLOCK_SLACK for restore in log.restores)
        written = {
            name: inventory.written_since(
                self.lake,
                name,
                head_of(before, name),
                is_restored=is_restored,
                has_log=not self.platform.is_maintained_by_catalog,
            )
            for name in (self.spec.table, self.spec.quarantine_table)
        }
        objects = [one for found in written.values() for one in found.objects]
        checked = inventory.check_objects(objects, self.entries)
        expected = produced.offsets_of_all(produced.of_run(self.ledger, self.run_id, task))
        first = run_key(self.run_id, "proof")
        key, proof = run_documents.newest(self.ledger, self.run_id, "proof") or (first, None)
        # By its first proof all of it was published.
        proof = proof if key == first else self.ledger.get(first)
        verified_at = datetime.fromisoformat(proof["at"]) if proof else None
        costs = inventory.batch_costs(log, expected, since, verified_at, self._passed)
        not_shown = not_shown_of_files(self.platform) + not_shown_of_metadata(self.platform)
        return AuditResult(
            key, written, checked, costs, self.spec.budget, not_shown, sees_markers=self.platform.bucket_lists
        )

    def _passed(self) -> dict[str, Any] | None:
        """What the newest audit of the load found that passed."""
        found = run_documents.newest(self.ledger, self.run_id, "audit")
        return found[1] if found else None

    def write_result(self, result: AuditResult) -> Document:
        """Write the result beside the load's newest proof."""
        document = result.document()
        self.ledger.put(beside_proof(result.proof, "audit"), document)
        return document
