"""States of a stream's queries, changed by several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from sluice.core.queries.progress import QueryState
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.queries.streaming_query import is_committed
from spark_jobs.common.spark.checkpoint import CheckpointCorrupted
from spark_jobs.common.spark.offset_log import Plan
from tests.support.raising import raising


class Interrupted(QueryStateWriter):
    """Its catalog takes as long as another thread needs to rebuild ``second``, or to wait for its turn."""

    def __init__(self) -> None:
        spec: Any = type("Spec", (), {"name": "hits"})
        self.spec, self.branch, self.epoch = spec, "w6_1f0c9a2b", 6
        self.states = {
            "first": QueryState("count", batch=7, source_snapshot_id=70),
            "second": QueryState("count", batch=57, source_snapshot_id=70),
        }
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self.rebuild, args=("second", 57))

    def stage_summary(self, summary: Mapping[str, str]) -> None:
        pass

    def _publish(self, *_: object) -> None:
        self.thread.start()
        self.thread.join(0.3)


def test_a_rebuild_outlives_another_query_s_publish() -> None:
    """Otherwise batches 0 to 57 of the rebuild are taken for those that all sinks have."""
    writer = Interrupted()
    writer.publish("first", QueryState("count", batch=8, source_snapshot_id=80), None)
    writer.thread.join(10)
    first, second = writer.states["first"], writer.states["second"]
    assert (second.batch, second.batch_offset, second.checkpoints) == (-1, 58, ["w6_1f0c9a2b"])
    assert (first.batch, first.checkpoints) == (8, ["w6_1f0c9a2b"])


STATE = QueryState("count", batch=5, source_snapshot_id=50)


def test_only_the_newest_batch_may_be_repeated() -> None:
    assert is_committed(STATE, 5, Plan(50, 1, 0), "w3")
    assert not is_committed(STATE, 6, Plan(60, 1, 0), "w3")


@pytest.mark.parametrize(("batch", "source"), [(4, 40), (4, 50), (0, 60), (5, 60), (5, None)])
def test_another_batch_of_a_number_that_is_there_is_not_skipped(batch: int, source: int | None) -> None:
    with raising(
        CheckpointCorrupted, "w3", f"batch {batch} reads up to snapshot {source}", "batch 5 up to 50"
    ):
        is_committed(STATE, batch, Plan(source, 1, 0), "w3")
