"""What a load's asset event names: its newest proof, if every check passed and the table still has it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.continuity import covers
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, run_key
from sluice.loads import sources
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning.plan import plan_of, reverted_of

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger

# As Airflow's own partitioned timetables and mappers write a key by default.
KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True)
class Announcement:
    """``proof``: the load's newest, ``key`` its key in the ledger."""

    plan: Document
    key: str
    proof: Document

    @property
    def is_withheld(self) -> bool:
        """Whether all of the load's rows wait for a change: readers would look for them in vain."""
        return bool(self.proof["withheld"] and not self.proof["published"])


def announcement(lake: Lake, spec: StreamSpec, ledger: Ledger, load: str) -> Announcement:
    """Raises Missing without a proof, or a check's result beside it; Refused if the load's interval is not
    complete, or the table does not have what the proof names."""
    plan = plan_of(ledger, load, spec.planning_task)
    key, proof = newest_proof(ledger, load)
    _check_others(spec, ledger, plan, key)
    _check_current(lake, spec, ledger, load, plan, proof)
    return Announcement(plan, key, proof)


def partition_key(plan: Document) -> str | None:
    """The begin of the interval that the load is of, in UTC: a backfill's, or of generated records. None for
    a load of files or of a feed."""
    times = (source.start_time for source in sources.read_all(plan["sources"]))
    # Records that an earlier load verified are no longer in the plan.
    begin = plan["params"].get("interval") or next(filter(None, times), plan["params"].get("start_time"))
    return datetime.fromisoformat(begin).astimezone(UTC).strftime(KEY_FORMAT) if begin else None


def newest_proof(ledger: Ledger, load: str) -> tuple[str, Document]:
    """Raises Missing without one."""
    found = run_documents.newest(ledger, load, "proof")
    if found is None:
        first = run_key(load, "proof")
        found = first, ledger.require(first, "validate")
    return found


def _check_others(spec: StreamSpec, ledger: Ledger, plan: Document, proof: str) -> None:
    """Only the ledger says that a check passed: a person may mark its task as success."""
    ledger.require(beside_proof(proof, "audit"), "audit")
    if spec.queries:
        ledger.require(beside_proof(proof, "reconciliation"), "compare_sinks")
    if corrected := plan.get("corrected"):
        raise Refused(
            f"{len(corrected)} corrected file(s) of the interval are not loaded, so it is not complete. "
            "Fix: clear check_corrected_files, which names each and what to do",
            ErrorCode.FILE_CORRECTED,
        )


def _check_current(
    lake: Lake, spec: StreamSpec, ledger: Ledger, load: str, plan: Document, proof: Document
) -> None:
    """By the table's position and its changes."""
    name = spec.table
    verified = VerifiedSources(ledger, lake, name)
    of_load = OffsetRanges.from_json(json.dumps(proof["ranges"])).partitions.items()
    ends = {partition: ranges.pairs()[-1][1] for partition, ranges in of_load if ranges}
    is_same = proof["table_uuid"] == lake.table_uuid(name)
    if not (is_same and covers(verified.ends, ends) and verified.still(proof["verified_before"])):
        raise Refused(
            f"load {load!r} was verified to {ends} of table {proof['table_uuid']}, and {name} ends at "
            f"{verified.ends}, or is another table, or lost what earlier loads verified: its catalog was "
            "restored since. Fix: clear validate, which verifies the load again",
            ErrorCode.LOAD_NOT_VERIFIED,
        )
    if gone := reverted_of(plan, verified.reverted):
        raise Refused(
            f"load {load!r} was verified, and a change took out since what it loaded: {summarize(gone)}. "
            f"Fix: action redo of {spec.name}_change brings it back; then clear this task",
            ErrorCode.LOAD_NOT_VERIFIED,
        )
