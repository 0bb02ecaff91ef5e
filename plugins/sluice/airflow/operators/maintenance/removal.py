"""Steps of maintenance that delete late: record the current metadata, remove what no record needs."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.airflow import database
from sluice.airflow.failures import failed_attempt
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.maintenance.by_catalog import OwnMaintenanceMixin
from sluice.config.tables import lake_tables
from sluice.maintenance.batch_history import BatchHistory
from sluice.maintenance.check_records import CheckRecords
from sluice.maintenance.reconciliation.contents import MARKED
from sluice.maintenance.removal import FileRemoval, NotVerifiedYet, check_rewrites, record_metadata

if TYPE_CHECKING:
    from airflow.sdk import Context


class RecordMetadataOperator(StreamOperator):
    """Record the metadata file of each of the stream's tables that the catalog has now."""

    does = "records which metadata file of each table the catalog has; says how much each holds"
    fails_if = "a table is lost or replaced, or the catalog or the ledger does not answer"

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, Any]:
        return record_metadata(self.platform_hook, self.spec, self.tables, context["run_id"])


class RemoveFilesOperator(OwnMaintenanceMixin, StreamOperator):
    """Delete the files of the stream's tables that no state of the last ``restore_horizon_days`` names.

    Fails without retries, but while a change may still be verified. May run again at any time.
    """

    does = (
        "deletes files that no state of the last `restore_horizon_days` names; checks the others; skipped "
        "where the catalog deletes"
    )
    left = "the catalog deletes files that its snapshots do not name"
    fails_if = (
        "a file that a table or a recorded state needs is gone, a table is lost, a rewrite is not verified, "
        "a record is from the future, or S3 denies the deletion"
    )

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, Any]:
        try:
            check_rewrites(self.platform_hook, self.spec, self.ledger)
        except NotVerifiedYet as error:
            raise failed_attempt(error.code, error) from error
        return FileRemoval(self.platform_hook, self.spec).remove(datetime.now(UTC))


class RemoveHistoryOperator(StreamOperator):
    """Delete documents of batches, and records of checks, that are older than ``history_days`` and that
    nothing needs any more.

    May run again at any time. That role ``maintenance`` may not is said, and fails nothing: they take space.
    """

    does = (
        "deletes documents of batches that are older than `history_days` and verified, keeps what they say "
        "of offsets, and deletes records of checks that are as old"
    )
    fails_if = "the catalog, the bucket or the ledger does not answer, or another run does the same"

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, Any]:
        fewest_days, marks = database.days(os.environ), self.marks_of(self.ledger)
        marked = {key for kind in MARKED if (key := marks.marked(kind))}
        batches = BatchHistory(self.platform_hook, self.spec, fewest_days).remove(datetime.now(UTC))
        records = CheckRecords(self.platform_hook, self.spec, marked, fewest_days).remove(datetime.now(UTC))
        notes = [*batches.pop("notes", ()), *records.pop("notes", ())]
        return {**batches, "records": records, **({"notes": notes} if notes else {})}


class RecordMaintenanceOperator(StreamOperator):
    """Record that a run of maintenance was complete, for supervision; it fails with any step of the run."""

    does = "records that this run was complete; supervision reports a stream without one for three intervals"
    fails_if = "the ledger does not answer"

    checked = None

    def work(self, context: Context) -> None:
        history = self.platform_hook.history(self.stream)
        history.record_maintenance(datetime.now(UTC), context["run_id"])
