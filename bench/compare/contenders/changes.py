"""What changes of a loaded stream cost: a revert of half of its sources, their redo, a replay of all.

As a program, ``python -m bench.compare.contenders.changes <stream> <offsets>``: reads these offsets as one
batch and decodes them; its line of JSON is without the start of Spark.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.compare.contenders.jobs import SUBMIT, Sluice, check
from bench.compare.figures import Figures
from bench.compare.stack import BenchStack
from sluice.clients.lake.changes import removed_by
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.stream import ENTRY_POINT
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.result import ChangeResult
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_ranges import TopicRanges
from sluice.ledger.keys import run_key


class ChangedSluice(Sluice):
    """A stream that is loaded, and whose consumer is stopped."""

    def __init__(self, bench: BenchStack, stream: str) -> None:
        super().__init__(bench, stream)
        self.ledger = bench.stack.systems("airflow").ledger(self.spec.name)

    def read(self) -> Figures:
        """All records by ``read_ranges``, decoded, in a process of its own."""
        name, everything = f"{self.spec.name}-read", self.everything()
        command = [sys.executable, "-m", "bench.compare.contenders.changes", self.spec.name]
        whole = self.bench.run([*command, str(TopicRanges.of({self.spec.topic.name: everything}))], name, 0)
        lines = self.bench.log(name).read_text(errors="replace").splitlines()
        found: Figures = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
        check("records that were read", int(found.pop("rows")), everything.count)
        return found | {"cpu_seconds": whole["cpu_seconds"], "memory_megabytes": whole["memory_megabytes"]}

    def revert(self) -> Figures:
        """Every second source: with rows in every file, so each file is written again."""
        plan = self.ledger.require(run_key(self.run_id, "plan"), "produce")
        sources = tuple(sorted(source["source_id"] for source in plan["sources"]))[::2]
        return self._made(Action.REVERT, sources_out=sources, reverts=sources)

    def redo(self) -> Figures:
        """What the revert took out."""
        before = self._result()
        ((change, reverted),) = before.reverts.items()
        return self._made(Action.REDO, rows_in=reverted.offsets, redoes=(change,))

    def replay(self) -> Figures:
        """Every record of the stream."""
        everything = self.everything()
        return self._made(Action.REPLAY, rows_out=everything, rows_in=everything)

    def everything(self) -> OffsetRanges:
        """What the stream has published."""
        position = self.stream.lake.position(self.spec.table)
        if position is None:
            raise ValueError(f"{self.spec.table} has no published record")
        return OffsetRanges.from_ends(position.starts, position.ends)

    def _result(self) -> ChangeResult:
        return removed_by(self.ledger.client, self.stream.lake.changes(self.spec.table))

    def _made(self, action: Action, **parts: Any) -> Figures:
        made = self.stream.lake.changes(self.spec.table).count
        plan = ChangePlan(f"bench-{made}", action, self.spec.topic.name, **parts, changes=made)
        before = self.published()
        key = run_key(plan.id, "change")
        self.ledger.put(key, plan.to_document())
        job = (str(ENTRY_POINT), "change", self.spec.name, "--plan", self.ledger.uri(key))
        figures = self.bench.run([*SUBMIT, *job], f"{self.spec.name}-{action}", plan.rows_in.count)
        gone = self._result().reverts[plan.id].offsets.count if plan.reverts else 0
        check(f"changes of {self.spec.table}", self.stream.lake.changes(self.spec.table).count, made + 1)
        brought = plan.rows_in.count - plan.rows_out.count
        check(f"rows of {self.spec.table}", self.published(), before - gone + brought)
        return figures


def main(arguments: Sequence[str]) -> None:
    """Read and decode, into nothing."""
    from spark_jobs.common.consumer.decoded_rows import decoded_rows, is_good, table_rows
    from spark_jobs.common.consumer.run import decoding
    from spark_jobs.common.kafka.read_ranges import read_ranges
    from spark_jobs.common.maintenance.change import SHUFFLE_PARTITIONS
    from spark_jobs.common.spark import session

    stream, text = arguments
    spec, platform = streams.load(stream), platforms.load("consumer")
    spark = session.start(f"sluice {stream} read", platform, SHUFFLE_PARTITIONS)
    ranges = TopicRanges.parse(text, spec.topic.name)
    began = time.monotonic()
    good = table_rows(
        decoded_rows(read_ranges(spark, platform.kafka, ranges), decoding(spec)).where(is_good())
    )
    good.write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - began
    # After the measured part.
    rows = read_ranges(spark, platform.kafka, ranges).count()
    spark.stop()
    print(
        "\n"
        + json.dumps({"seconds": round(seconds, 2), "rows": rows, "rows_per_second": round(rows / seconds)})
    )


if __name__ == "__main__":
    main(sys.argv[1:])
