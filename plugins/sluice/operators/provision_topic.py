"""Step 1 of a load: the topic is as the stream declares it, and what lies in the bucket is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.operators import inventory
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProvisionTopicOperator(StreamOperator):
    """Create the topic, add partitions, change declared configs; return the diff.

    Refuses to shrink (red, not retried): fewer partitions, or another replication factor. The first attempt
    of a run also records ``before.json``, which the audit measures against.
    """

    does = "creates or adjusts the topic as `stream.toml` declares it"
    fails_if = "it would have to shrink"

    def work(self, context: Context) -> dict[str, Any]:
        diff = self.platform_hook.kafka.provision(self.spec.topic)
        self.log.info("%s", diff.sentence())
        inventory.record_before(self.platform_hook, self.spec, self.ledger, context["run_id"])
        return diff.as_dict()
