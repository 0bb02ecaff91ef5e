"""The compaction's proof, made anew without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import Missing
from sluice.hooks import text
from sluice.model.spec.ledger import run_key
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.model.verification.rewrites import Rewrite


class CheckCompactionOperator(StreamOperator):
    """See that since the run's compaction began ``main`` has got batches of its owner, and rewritten files
    with the same rows, and nothing else.

    Each snapshot that is no owner's must be a replacing of files, leave the table with as many rows as
    before, and bring the very coordinates that it took away: read from the files of both sides. Red without
    retries otherwise, naming the snapshot; nothing is put back here.
    """

    does = "compares both sides without Spark: the same offsets, as many rows"
    fails_if = "they differ"

    def work(self, context: Context) -> dict[str, Any]:
        key = run_key(context["run_id"], "compaction")
        pinned = self.ledger.get(key)
        if pinned is None:
            raise Missing(f"no document {self.ledger.uri(key)}; clear the compact task")
        rewrites = self.rewrites_since(pinned["snapshot_id"])
        self.log.info("%s", report(rewrites))
        problems = [problem for rewrite in rewrites for problem in rewrite.problems()]
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            raise AirflowFailException(
                f"{self.spec.table} is not as it was: {'; '.join(problems)}; stop the stream, and roll main "
                f"back to snapshot {pinned['snapshot_id']}"
            )
        return {
            "before": pinned["before"],
            "rewrites": len(rewrites),
            "files_before": sum(rewrite.removed.files for rewrite in rewrites),
            "files_after": sum(rewrite.added.files for rewrite in rewrites),
            "rows": sum(rewrite.added.records for rewrite in rewrites),
        }

    def rewrites_since(self, snapshot_id: int | None) -> list[Rewrite]:
        """What happened to the table behind that snapshot, of the batches nothing."""
        from sluice.clients.lake import compaction

        return compaction.since(self.platform_hook.lake.table(self.spec.table), snapshot_id)


def report(rewrites: list[Rewrite]) -> str:
    """What was done, as a table for the log."""
    rows = [
        [
            rewrite.snapshot_id,
            rewrite.operation,
            rewrite.removed.files,
            rewrite.added.files,
            rewrite.removed.records,
            rewrite.added.records,
            "other rows" if rewrite.problems() else "the same rows",
        ]
        for rewrite in rewrites
    ]
    head = ["snapshot", "operation", "files before", "after", "rows before", "after", "result"]
    return text.table(head, rows) if rows else "nothing was rewritten"
