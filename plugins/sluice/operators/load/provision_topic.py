"""Step 1 of a load: provision the stream's topic and that of progress, and record the bucket's counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.model.spec.stream import PROGRESS_TOPIC
from sluice.operators.base import StreamOperator
from sluice.operators.load import inventory

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
        kafka = self.platform_hook.kafka
        diff = kafka.provision(self.spec.topic)
        for changed in (diff, kafka.provision(PROGRESS_TOPIC)):
            self.log.info("%s", changed.sentence())
        inventory.record_before(self.platform_hook, self.spec, self.ledger, context["run_id"])
        return diff.as_dict()
