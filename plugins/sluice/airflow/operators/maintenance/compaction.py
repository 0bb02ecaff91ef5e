"""Compact the small files of a stream's tables, and verify the compaction without Spark."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow import failures
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.config.sections.maintenance import compacted_tables, for_each_table
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.tables.rewrites import Rewrites, is_of_change
from sluice.core.tables.storage import KEEP_REWRITES
from sluice.ledger.keys import run_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.loads.plan import head_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.core.tables.storage import Rewrite


class CompactOperator(SparkJobOperator):
    """Rewrite the small files of the stream's tables; of the dates before the param ``compact_before`` in
    a table that is partitioned by a DATE first.

    The first attempt pins the date and the newest snapshots in the ledger for later attempts and the check.
    The job publishes only a verified rewrite.
    """

    does = "rewrites small files of the stream's table, its quarantine and its queries' states"
    fails_if = "the rewrite cannot be verified to hold the same rows"

    checked = staticmethod(compacted_tables)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="compact", **kwargs)

    def work(self, context: Context) -> dict[str, Any]:
        pinned = self._pin(context)
        self.log.info("compaction pinned: before=%s main=%s", pinned["before"], pinned["main"])
        # Before the stream's first start there is no table.
        if pinned["main"]:
            self.submit(context, ["--before", pinned["before"]])
        return {"before": pinned["before"], "main": pinned["main"]}

    def _pin(self, context: Context) -> Document:
        def create() -> Document:
            before = closed_before(given, at)
            heads = self.platform_hook.lake.heads(*compacted_tables(self.spec))
            return {
                "run_id": context["run_id"],
                "before": before.isoformat(),
                "main": {name: asdict(head) for name, head in heads.items()},
                "at": datetime.now(UTC).isoformat(),
            }

        run_id, at = context["run_id"], context["dag_run"].run_after
        given = context["params"].get("compact_before")
        pinned = self.ledger.pin(run_key(run_id, "compaction"), create)
        if given and closed_before(given, at).isoformat() != pinned["before"]:
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
    """Verify that since the compaction began ``main`` of each table got only batches of its writer and
    rewrites; and each rewrite that no earlier run has verified: one may publish when its run has ended.

    A rewrite keeps the number of rows, and its added files hold exactly the rows of its removed files: of
    the stream's table the offsets, of the others all columns but bytes. Fails without retries otherwise,
    naming the snapshot and the metadata files to go back to; it reverts nothing. Of each rewrite that passes
    the ledger gets a document: until then no run deletes files.
    """

    does = "compares both sides without Spark: the same rows by their offsets, or by their values"
    fails_if = "they differ"

    checked = staticmethod(compacted_tables)

    def work(self, context: Context) -> dict[str, Any]:
        names = compacted_tables(self.spec)
        run_id = context["run_id"]
        pinned = self.ledger.require(run_key(run_id, "compaction"), "compact")
        # Not the pinned ones alone: the job sees a table that was created since, too.
        there = self.platform_hook.lake.heads(*names)
        log = self.log.exception
        tables = for_each_table(there, lambda name: self._verify(name, run_id, pinned), log)
        return {"before": pinned["before"], "tables": tables}

    def _verify(self, name: str, run_id: str, pinned: Document) -> dict[str, int]:
        from sluice.clients.lake import compaction

        table = self.platform_hook.lake.table(name)
        is_of_stream = name == self.spec.table
        columns = compaction.OFFSETS if is_of_stream else compaction.without_binary(table)
        at, verified = datetime.fromisoformat(pinned["at"]), VerifiedRewrites(self.ledger)
        # Those of changes are verified by their own runs.
        pending = verified.unverified(Rewrites.of(table.properties))
        due = [one for one in pending.ids if not is_of_change(one)]
        rewrites = compaction.since(table, head_of(pinned, name), columns, due)
        self.log.info("%s", report(name, rewrites))
        problems = [problem for rewrite in rewrites for problem in rewrite.problems()]
        fix = self._fix(name, at) if problems else ""
        kept = {rewrite.id for rewrite in rewrites}
        problems += [expired_message(one) for one in due if one not in kept]
        self._record(verified, name, run_id, rewrites)
        self.check_no_problems(ErrorCode.COMPACTION_NOT_VERIFIED, problems, f"{name} changed", fix)
        return {
            "rewrites": sum(1 for rewrite in rewrites if rewrite.removed.files),
            "files_before": sum(rewrite.removed.files for rewrite in rewrites),
            "files_after": sum(rewrite.added.files for rewrite in rewrites),
            "rows": sum(rewrite.added.records for rewrite in rewrites),
        }

    @staticmethod
    def _record(verified: VerifiedRewrites, name: str, run_id: str, rewrites: list[Rewrite]) -> None:
        """Record those of which every snapshot passes."""
        failed = {rewrite.id for rewrite in rewrites if rewrite.problems()}
        for rewrite in {one.id for one in rewrites if one.id} - failed:
            snapshots = [one.snapshot_id for one in rewrites if one.id == rewrite]
            now = datetime.now(UTC).isoformat()
            document = {"table": name, "run_id": run_id, "snapshot_ids": snapshots, "at": now}
            verified.confirm(rewrite, document)

    def _fix(self, name: str, at: datetime) -> str:
        """How to go back. Not to a snapshot: a busy stream has let it expire."""
        before = next((r for r in self.platform_hook.history(self.stream).metadata() if r.at <= at), None)
        found = before.tables if before else {}
        # Of these tables alone, records that batches rejected or queries counted would be lost.
        names = [name] if name == self.spec.table else list(found)
        files = ", ".join(f"{one} at {found[one]}" for one in names if one in found)
        return (
            f". Fix: stop the stream, and register {files or 'the metadata file from before the run'} again "
            "(docs/operating.md, Compaction verification failed)"
        )


def expired_message(rewrite: str) -> str:
    return (
        f"rewrite {rewrite} was published, and its snapshots have expired before it was verified: they are "
        f"kept for {KEEP_REWRITES}. Fix: compare numbers of rows (docs/operating.md, Compaction verification "
        "failed)"
    )


def report(table: str, rewrites: list[Rewrite]) -> str:
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
    return f"{table}: {failures.table(head, rows) if rows else 'no file was rewritten'}"
