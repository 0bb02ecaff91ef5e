"""A step of a load: emit an event of the stream's asset, with the proof's counts and address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.loads.announce import announcement, partition_key
from sluice.loads.verification.proof import short

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context


class EmitAssetEventOperator(StreamOperator):
    """Emit an event of ``asset``; its extra has the counts and the address of the newest proof. Of
    ``interval``, if given, the same with the load's partition key. Fails without a proof, and if the table
    does not have any more what it proves. Skipped if all of the load's rows are withheld."""

    does = "emits an event of the stream's asset that names the proof; skipped if all rows are withheld"
    fails_if = "a check has not passed, or the table does not have any more what the proof says"

    def __init__(self, *, asset: Asset, interval: Asset | None = None, **kwargs: Any) -> None:
        super().__init__(outlets=[asset, *([interval] if interval else [])], **kwargs)
        self.asset = asset
        self.interval = interval

    def work(self, context: Context) -> dict[str, Any]:
        found = announcement(self.platform_hook.lake, self.spec, self.ledger, load_id(self, context))
        if found.is_withheld:
            # A task that succeeds has an event of each of its assets.
            raise AirflowSkipException(
                f"withheld, not announced: the table has none of the load's {found.proof['withheld']} rows "
                f"until action replace of {self.stream}_change. Fix: trigger the load after that with its "
                "objects, withhold and verify_again"
            )
        proof = short(found.proof, self.ledger.uri(found.key))
        events = context["outlet_events"]
        events[self.asset].extra = proof
        partition = partition_key(found.plan) if self.interval else None
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
