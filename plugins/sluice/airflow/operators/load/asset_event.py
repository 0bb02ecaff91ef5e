"""A step of a load: emit an event of the stream's asset, with the proof's counts and address."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.failures import failed
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.airflow.operators.load.validate import short
from sluice.core.error_codes import ErrorCode
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.continuity import covers
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, run_key
from sluice.loads import plan as plans
from sluice.loads.verified import VerifiedSources

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

# As Airflow's own partitioned timetables and mappers write a key by default.
KEY_FORMAT = "%Y-%m-%dT%H:%M:%S"


def partition_key(plan: Document) -> str | None:
    """The begin of the interval that the load is of, in UTC: a backfill's, or of generated records. None for
    a load of files or of a feed."""
    begin = plan["params"].get("interval")
    generated = [source["parameters"] for source in plan["sources"] if plans.is_generated(source)]
    # Records that an earlier load verified are no longer in the plan.
    begin = begin or (generated[0] if generated else plan["params"]).get("start_time")
    return datetime.fromisoformat(begin).astimezone(UTC).strftime(KEY_FORMAT) if begin else None


class EmitAssetEventOperator(StreamOperator):
    """Emit an event of ``asset``; its extra has the counts and the address of the newest proof. Of
    ``interval``, if given, the same with the load's partition key. Raises Missing without a proof, and fails
    if the table does not have any more what it proves. Skipped if all of the load's rows are withheld."""

    does = "emits an event of the stream's asset that names the proof; skipped if all rows are withheld"
    fails_if = "a check has not passed, or the table does not have any more what the proof says"

    def __init__(self, *, asset: Asset, interval: Asset | None = None, **kwargs: Any) -> None:
        super().__init__(outlets=[asset, *([interval] if interval else [])], **kwargs)
        self.asset = asset
        self.interval = interval

    def work(self, context: Context) -> dict[str, Any]:
        load = load_id(self, context)
        plan = plans.plan_of(self.ledger, load)
        key, found = self.newest_proof(load)
        self._check_others(plan, key)
        self._check_current(load, plan, found)
        if found["withheld"] and not found["published"]:
            # A task that succeeds has an event of each of its assets.
            raise AirflowSkipException(
                f"withheld, not announced: the table has none of the load's {found['withheld']} rows until "
                f"action replace of {self.stream}_change. Fix: trigger the load after that with its objects, "
                "withhold and verify_again"
            )
        proof = short(found, self.ledger.uri(key))
        events = context["outlet_events"]
        events[self.asset].extra = proof
        partition = partition_key(plan) if self.interval else None
        if self.interval and partition:
            events[self.interval].extra = proof
            events[self.interval].add_partitions(partition)
        self.log.info(
            "asset event emitted: asset=%s rows=%d status=%s partition_key=%s",
            self.asset.name,
            proof["published"],
            proof["status"],
            partition,
        )
        return {"asset": self.asset.name, "snapshot_id": proof["snapshot_id"], "partition_key": partition}

    def _check_current(self, load: str, plan: Document, proof: Document) -> None:
        """Raises AirflowFailException if the table does not have what the proof names: by its position and
        its changes."""
        lake, name = self.platform_hook.lake, self.spec.table
        verified = VerifiedSources(self.ledger, lake, name)
        of_load = OffsetRanges.from_json(json.dumps(proof["ranges"])).partitions.items()
        ends = {partition: ranges.pairs()[-1][1] for partition, ranges in of_load if ranges}
        is_same = proof["table_uuid"] == lake.table_uuid(name)
        if not (is_same and covers(verified.ends, ends) and verified.still(proof["verified_before"])):
            raise failed(
                ErrorCode.LOAD_NOT_VERIFIED,
                f"load {load!r} was verified to {ends} of table {proof['table_uuid']}, and {name} ends at "
                f"{verified.ends}, or is another table, or lost what earlier loads verified: its catalog was "
                "restored since. Fix: clear validate, which verifies the load again",
            )
        if gone := plans.reverted_of(plan, verified.reverted):
            raise failed(
                ErrorCode.LOAD_NOT_VERIFIED,
                f"load {load!r} was verified, and a change took out since what it loaded: {summarize(gone)}. "
                f"Fix: action redo of {self.stream}_change brings it back; then clear this task",
            )

    def newest_proof(self, run_id: str) -> tuple[str, Document]:
        """Raises Missing without one."""
        found = run_documents.newest(self.ledger, run_id, "proof")
        if found is None:
            first = run_key(run_id, "proof")
            found = first, self.ledger.require(first, "validate")
        return found

    def _check_others(self, plan: Document, proof: str) -> None:
        """Only the ledger says that a check passed: a person may mark its task as success. Raises Missing for
        one without a result beside the proof, AirflowFailException if the interval is not complete."""
        self.ledger.require(beside_proof(proof, "audit"), "audit")
        if self.spec.queries:
            self.ledger.require(beside_proof(proof, "reconciliation"), "reconcile_sinks")
        if corrected := plan.get("corrected"):
            raise failed(
                ErrorCode.FILE_CORRECTED,
                f"{len(corrected)} corrected file(s) of the interval are not loaded, so it is not complete. "
                "Fix: clear check_corrected_files, which names each and what to do",
            )
