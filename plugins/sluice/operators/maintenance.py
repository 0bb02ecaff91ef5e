"""Compact, verify compaction; to come: expire, orphans.

Compaction: the small files of closed dates become few large ones.

The compaction's proof, made anew without Spark.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Refused
from sluice.hooks import failures
from sluice.hooks.failures import failed, final_failures
from sluice.hooks.load_plan import now
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document, run_key
from sluice.operators.base import StreamOperator
from sluice.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.model.verification.storage import Rewrite


class CompactOperator(SparkJobOperator):
    """Rewrite the files of the dates before the param ``compact_before``, by default before the day before
    the run.

    The first attempt pins, in the ledger, the date and the snapshot of ``main`` from before; later attempts
    and the check behind it use the same. The job publishes nothing that it cannot prove.
    """

    does = "rewrites the files of the dates before `compact_before`"
    fails_if = "the same rows cannot be shown"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="compact", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        with final_failures():
            pinned = self._pin(context)
            self.log.info("files of dates before %s; main is at %s", pinned["before"], pinned["snapshot_id"])
            self.submit(context, ["--before", pinned["before"]])
            return {"before": pinned["before"], "snapshot_id": pinned["snapshot_id"]}

    def _pin(self, context: Context) -> Document:
        def create() -> Document:
            before = closed_before(context["params"].get("compact_before"), context["dag_run"].run_after)
            head = self.platform_hook.lake.table(self.spec.table).current_snapshot()
            return {
                "run_id": context["run_id"],
                "before": before.isoformat(),
                "snapshot_id": head.snapshot_id if head else None,
                "at": now(),
            }

        return self.ledger.pin(run_key(context["run_id"], "compaction"), create)


def closed_before(given: str | None, at: datetime) -> date:
    """The date that is given (ISO 8601), or the day before ``at`` in UTC, so that what comes a little late
    still finds its date alone. Raises Refused for one behind the day of ``at``: such dates still grow, and
    the stream would have to begin its batch anew each time."""
    today = at.astimezone(UTC).date()
    if not given:
        return today - timedelta(days=1)
    try:
        before = date.fromisoformat(given)
    except ValueError as error:
        raise Refused(
            f"compact_before = {given!r} is no date; write it as 2026-11-20", ErrorCode.INVALID_PARAMETER
        ) from error
    if before > today:
        raise Refused(
            f"compact_before = {given} is later than {today}: the stream still writes to that date",
            ErrorCode.INVALID_PARAMETER,
        )
    return before


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
        pinned = self.ledger.require(run_key(context["run_id"], "compaction"), "compact")
        rewrites = self.rewrites_since(pinned["snapshot_id"])
        self.log.info("%s", report(rewrites))
        problems = [problem for rewrite in rewrites for problem in rewrite.problems()]
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            raise failed(
                ErrorCode.COMPACTION_NOT_VERIFIED,
                f"{self.spec.table} is not as it was: {'; '.join(problems)}; stop the stream, and roll main "
                f"back to snapshot {pinned['snapshot_id']}",
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
    return failures.table(head, rows) if rows else "nothing was rewritten"
