"""A step of a load: emit an event of the stream's asset, with the proof's counts and address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.clients import run_documents
from sluice.model.spec.ledger import Document, run_key
from sluice.operators.base import StreamOperator
from sluice.operators.load.interval import load_id
from sluice.operators.load.validate import short

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context


class EmitAssetEventOperator(StreamOperator):
    """Emit an event of ``asset``; its extra has the counts and the address of the newest proof. Raises
    Missing without a proof."""

    does = "emits an event of the stream's asset that names the proof"
    fails_if = "there is no proof"

    def __init__(self, *, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.asset = asset

    def work(self, context: Context) -> dict[str, Any]:
        proof = self.newest_proof(load_id(self, context))
        context["outlet_events"][self.asset].extra = proof
        self.log.info(
            "asset event emitted: asset=%s rows=%d status=%s",
            self.asset.name,
            proof["published"],
            proof["status"],
        )
        return {"asset": self.asset.name, "snapshot_id": proof["snapshot_id"]}

    def newest_proof(self, run_id: str) -> Document:
        found = run_documents.newest(self.ledger, run_id, "proof")
        if found is None:
            first = run_key(run_id, "proof")
            found = first, self.ledger.require(first, "validate")
        key, proof = found
        return short(proof, self.ledger.uri(key))
