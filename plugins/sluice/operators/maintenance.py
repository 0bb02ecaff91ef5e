"""Compact the files of closed dates, and verify the compaction without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Refused
from sluice.hooks import failures
from sluice.hooks.failures import final_failures
from sluice.hooks.load_plan import now
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import Document, run_key
from sluice.operators.base import StreamOperator
from sluice.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.model.verification.storage import Rewrite


class CompactOperator(SparkJobOperator):
    """Rewrite the files of the dates before the param ``compact_before``.

    The first attempt pins the date and ``main``'s snapshot in the ledger for later attempts and the check.
    The job publishes only a verified rewrite.
    """

    does = "rewrites the files of the dates before `compact_before`"
    fails_if = "the rewrite cannot be verified to hold the same rows"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="compact", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        with final_failures():
            pinned = self._pin(context)
            self.log.info("compaction pinned: before=%s snapshot=%s", pinned["before"], pinned["snapshot_id"])
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

        run_id, given = context["run_id"], context["params"].get("compact_before")
        pinned = self.ledger.pin(run_key(run_id, "compaction"), create)
        if given and given != pinned["before"]:
            raise Refused(
                f"run id {run_id!r} compacts the dates before {pinned['before']}, and compact_before is "
                f"{given}: a run id keeps its date, also when its run is deleted. Fix: trigger a run with "
                "another run id",
                ErrorCode.RUN_ID_REUSED,
            )
        return pinned


def closed_before(given: str | None, at: datetime) -> date:
    """The date ``given`` (ISO 8601), by default the day before ``at`` in UTC, which leaves late records room.

    Raises Refused for a date after ``at``: the stream still writes to it, and would repeat its batches.
    """
    today = at.astimezone(UTC).date()
    if not given:
        return today - timedelta(days=1)
    try:
        before = date.fromisoformat(given)
    except ValueError as error:
        raise Refused(
            f"compact_before = {given!r} is no date. Fix: write it as 2026-11-20", ErrorCode.INVALID_PARAMETER
        ) from error
    if before > today:
        raise Refused(
            f"compact_before = {given} is later than {today}: the stream still writes to that date",
            ErrorCode.INVALID_PARAMETER,
        )
    return before


class VerifyCompactionOperator(StreamOperator):
    """Verify that since the compaction began ``main`` got only batches of its writer and rewrites.

    A rewrite keeps the number of rows, and its added files hold exactly the offsets of its removed files:
    both are read. Fails without retries otherwise, naming the snapshot; it reverts nothing.
    """

    does = "compares both sides without Spark: the same offsets, as many rows"
    fails_if = "they differ"

    def work(self, context: Context) -> dict[str, Any]:
        pinned = self.ledger.require(run_key(context["run_id"], "compaction"), "compact")
        from sluice.clients.lake import compaction

        rewrites = compaction.since(self.platform_hook.lake.table(self.spec.table), pinned["snapshot_id"])
        self.log.info("%s", report(rewrites))
        self.check_no_problems(
            ErrorCode.COMPACTION_NOT_VERIFIED,
            [problem for rewrite in rewrites for problem in rewrite.problems()],
            f"{self.spec.table} changed",
            f". Fix: stop the stream, and roll main back to snapshot {pinned['snapshot_id']}",
        )
        return {
            "before": pinned["before"],
            "rewrites": len(rewrites),
            "files_before": sum(rewrite.removed.files for rewrite in rewrites),
            "files_after": sum(rewrite.added.files for rewrite in rewrites),
            "rows": sum(rewrite.added.records for rewrite in rewrites),
        }


def report(rewrites: list[Rewrite]) -> str:
    rows = [
        [
            rewrite.snapshot_id,
            rewrite.operation,
            rewrite.removed.files,
            rewrite.added.files,
            rewrite.removed.records,
            rewrite.added.records,
            "FAILED" if rewrite.problems() else "same rows",
        ]
        for rewrite in rewrites
    ]
    head = ["snapshot", "operation", "files before", "after", "rows before", "after", "result"]
    return failures.table(head, rows) if rows else "no file was rewritten"
