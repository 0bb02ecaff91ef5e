"""Steps of reconciliation: positions of the systems, contents of the table, and its stored files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.base import BACKSTOP, StreamOperator
from sluice.ledger.keys import run_key
from sluice.maintenance.reconciliation.contents import SETTLE_SECONDS, ContentsReconciliation
from sluice.maintenance.reconciliation.files import reconcile_files
from sluice.maintenance.reconciliation.positions import reconcile_positions

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReconciliationOperator(StreamOperator):
    """A step whose findings fail it, without retries: they would be the same."""

    # Nothing is checked before: a lost table is a finding.
    checked = None


class ObserveOffsetsOperator(ReconciliationOperator):
    """Compare the offsets of the group, the table and the broker, and the table's with earlier runs'."""

    does = "compares the offsets of topic, table, consumer group, newest verified load and earlier runs"
    fails_if = "one is ahead of another that it follows, or went back"

    def work(self, context: Context) -> dict[str, Any]:
        return reconcile_positions(self.platform_hook, self.spec, self.tables, datetime.now(UTC))


class VerifyTableOperator(ReconciliationOperator):
    """Verify that each published offset is in the table or the quarantine once, from what the last run that
    passed verified and the files since."""

    does = "verifies every published offset, and the commits, since the last run that passed"
    fails_if = (
        "an offset is missing, repeated or unexpected, too many new records were rejected, metadata is "
        "damaged, another program committed, or `main` was moved by hand"
    )

    waits = tuple(timedelta(seconds=seconds) + BACKSTOP for seconds in SETTLE_SECONDS)

    def work(self, context: Context) -> dict[str, Any]:
        return self._verify(context, 0)

    def resume(self, context: Context, event: Any, waited: int) -> dict[str, Any]:
        with final_failures():
            return self._verify(context, waited)

    def _verify(self, context: Context, waited: int) -> dict[str, Any]:
        """``waited``: how often it did."""
        key, marks = run_key(context["run_id"], f"findings-{self.task_id}"), self.marks_of(self.ledger)
        contents = ContentsReconciliation(self.platform_hook, self.spec, self.ledger, self.tables, marks, key)
        result = contents.run(is_full=bool(context["params"].get("full")), waited=waited)
        if result is None:
            pause = timedelta(seconds=SETTLE_SECONDS[waited])
            self.defer(
                trigger=TimeDeltaTrigger(pause),
                method_name="resume",
                kwargs={"waited": waited + 1},
                timeout=pause + BACKSTOP,
            )
        return result


class CheckFilesOperator(ReconciliationOperator):
    """Check that each data file since the last run that passed is in the bucket as it was written, and each
    document that a table names."""

    does = (
        "checks that the data files since the last run that passed, and the documents that the table names, "
        "are stored as they were written"
    )
    fails_if = (
        "a data file is missing, has another size than its manifest says, or was overwritten; a document is "
        "missing, or has other content"
    )

    def work(self, context: Context) -> dict[str, Any]:
        is_full = bool(context["params"].get("full"))
        return reconcile_files(self.platform_hook, self.spec, self.tables, self.entries, is_full=is_full)
