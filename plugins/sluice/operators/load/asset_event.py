"""A step of a load: emit an event of the stream's asset, with the proof's counts and address."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.clients import run_documents
from sluice.hooks import load_plan as plans
from sluice.model.spec.ledger import Document, run_key
from sluice.operators.base import StreamOperator
from sluice.operators.load.interval import load_id
from sluice.operators.load.validate import short

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
    ``interval``, if given, the same with the load's partition key. Raises Missing without a proof."""

    does = "emits an event of the stream's asset that names the proof"
    fails_if = "there is no proof"

    def __init__(self, *, asset: Asset, interval: Asset | None = None, **kwargs: Any) -> None:
        super().__init__(outlets=[asset, *([interval] if interval else [])], **kwargs)
        self.asset = asset
        self.interval = interval

    def work(self, context: Context) -> dict[str, Any]:
        load = load_id(self, context)
        proof = self.newest_proof(load)
        events = context["outlet_events"]
        events[self.asset].extra = proof
        key = partition_key(plans.plan_of(self.ledger, load)) if self.interval else None
        if self.interval and key:
            events[self.interval].extra = proof
            events[self.interval].add_partitions(key)
        self.log.info(
            "asset event emitted: asset=%s rows=%d status=%s partition_key=%s",
            self.asset.name,
            proof["published"],
            proof["status"],
            key,
        )
        return {"asset": self.asset.name, "snapshot_id": proof["snapshot_id"], "partition_key": key}

    def newest_proof(self, run_id: str) -> Document:
        found = run_documents.newest(self.ledger, run_id, "proof")
        if found is None:
            first = run_key(run_id, "proof")
            found = first, self.ledger.require(first, "validate")
        key, proof = found
        return short(proof, self.ledger.uri(key))
