"""Step 7 of a load: tell other DAGs that there is proven data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing
from sluice.model.spec.ledger import run_key
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context


class AnnounceOperator(StreamOperator):
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
