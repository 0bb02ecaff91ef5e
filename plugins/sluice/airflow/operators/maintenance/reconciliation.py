"""Steps of reconciliation: positions of the systems, contents of the table, and its stored files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.base import BACKSTOP, StreamOperator
from sluice.airflow.triggers.idle.base import LOOK_TIMEOUT, unlooked
from sluice.airflow.triggers.idle.reconciliation import PositionsTrigger, UnchangedTrigger
from sluice.ledger.keys import run_key
from sluice.maintenance.reconciliation import unchanged
from sluice.maintenance.reconciliation.contents import SETTLE_SECONDS, ContentsReconciliation
from sluice.maintenance.reconciliation.files import reconcile_files
from sluice.maintenance.reconciliation.positions import reconcile_positions

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.airflow.triggers.idle.base import IdleTrigger
    from sluice.core.json_record import Document


class ReconciliationOperator(StreamOperator):
    """A step whose findings fail it, without retries: they would be the same. It starts in the triggerer,
    and a worker does it only if that does not find it to be in order, or did not look."""

    # Nothing is checked before: a lost table is a finding.
    checked = None
    start_from_trigger = True
    waits: Sequence[timedelta] = (LOOK_TIMEOUT,)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_trigger_args = self.trigger().start("reconcile")

    def trigger(self) -> IdleTrigger:
        raise NotImplementedError(f"{type(self).__name__} has no trigger()")

    def reconcile(self, context: Context, event: dict[str, Any]) -> Any:
        self.log.info("%s", event["reason"])
        return self.execute(context)

    def unanswered(self, context: Context, error: Exception) -> Any:
        """This worker is there already, so a triggerer that is gone costs a look and no more."""
        return self.reconcile(context, unlooked(error))


class UnchangedOperator(ReconciliationOperator):
    """A step that need not run while nothing changed since it passed. ``step``: its name in the ledger."""

    step = ""

    def trigger(self) -> IdleTrigger:
        return UnchangedTrigger(stream=self.stream, step=self.step)

    def begin(self) -> Document:
        """To be called before anything is looked at."""
        unchanged.begin(self.platform_hook.history(self.stream), self.step, datetime.now(UTC))
        return unchanged.seen(self.platform_hook, self.spec)

    def passed(self, seen: Document, result: dict[str, Any]) -> None:
        history, notes = self.platform_hook.history(self.stream), result.get("notes", ())
        unchanged.passed(history, self.step, seen, datetime.now(UTC), notes)


class ObserveOffsetsOperator(ReconciliationOperator):
    """Compare the offsets of the group, the table and the broker, and the table's with earlier runs'."""

    does = "compares the offsets of topic, table, consumer group, newest verified load and earlier runs"
    fails_if = "one is ahead of another that it follows, or went back"

    def trigger(self) -> IdleTrigger:
        return PositionsTrigger(stream=self.stream)

    def work(self, context: Context) -> dict[str, Any]:
        marks = self.marks_of(self.ledger)
        return reconcile_positions(self.platform_hook, self.spec, self.tables, marks, datetime.now(UTC))


class VerifyTableOperator(UnchangedOperator):
    """Verify that each published offset is in the table or the quarantine once, from what the last run that
    passed verified and the files since."""

    does = "verifies every published offset, and the commits, since the last run that passed"
    fails_if = (
        "an offset is missing, repeated or unexpected, too many new records were rejected, metadata is "
        "damaged, another program committed, or `main` was moved by hand"
    )

    step = "table"
    waits = (LOOK_TIMEOUT, *(timedelta(seconds=seconds) + BACKSTOP for seconds in SETTLE_SECONDS))
    # Whether a triggerer was missing when the step waited for one: it is done without, to its end.
    waits_itself = False

    def unanswered(self, context: Context, error: Exception) -> Any:
        self.waits_itself = True
        return super().unanswered(context, error)

    def work(self, context: Context) -> dict[str, Any]:
        return self._verify(context, 0, self.begin())

    def resume(self, context: Context, event: Any, waited: int, seen: Document) -> dict[str, Any]:
        with final_failures():
            return self._verify(context, waited, seen)

    def _verify(self, context: Context, waited: int, seen: Document) -> dict[str, Any]:
        """``waited``: how often it did; ``seen``: when it began."""
        key, marks = run_key(context["run_id"], f"findings-{self.task_id}"), self.marks_of(self.ledger)
        contents = ContentsReconciliation(self.platform_hook, self.spec, self.ledger, self.tables, marks, key)
        result = contents.run(is_full=bool(context["params"].get("full")), waited=waited)
        if result is None:
            pause = timedelta(seconds=SETTLE_SECONDS[waited])
            if self.waits_itself:
                time.sleep(pause.total_seconds())
                return self._verify(context, waited + 1, seen)
            self.defer(
                trigger=TimeDeltaTrigger(pause),
                method_name="resume",
                kwargs={"waited": waited + 1, "seen": seen},
                timeout=pause + BACKSTOP,
            )
        self.passed(seen, result)
        return result


class CheckFilesOperator(UnchangedOperator):
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

    step = "files"

    def work(self, context: Context) -> dict[str, Any]:
        is_full, seen, hook = bool(context["params"].get("full")), self.begin(), self.platform_hook
        result = reconcile_files(hook, self.spec, self.tables, self.entries, is_full=is_full)
        self.passed(seen, result)
        return result
