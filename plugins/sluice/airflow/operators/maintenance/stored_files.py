"""A step of reconciliation: the stored files of table and quarantine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.airflow.operators.maintenance.reconciliation import NOTHING, ONCE, ReconciliationOperator
from sluice.config.sections.maintenance import for_each_table
from sluice.maintenance.reconciliation.findings import Finding, FindingName

if TYPE_CHECKING:
    from airflow.sdk import Context


# A kind of the history: up to which manifest lists the newest run has checked, for the next one.
CHECKED = "reconciled_files"


class CheckFilesOperator(ReconciliationOperator):
    """Check that each data file since the last run that passed is in the bucket as it was written."""

    does = "checks that the data files since the last run that passed are stored as they were written"
    fails_if = "a data file is missing, has another size than its manifest says, or was overwritten"

    def work(self, context: Context) -> dict[str, Any]:
        is_full, history = bool(context["params"].get("full")), self.own_history
        names = (self.spec.table, self.spec.quarantine_table)
        found = [one for one in self.table_findings(*names) if one.name not in ONCE]
        newest = None if is_full else history.latest(CHECKED)
        lists: dict[str, str] = dict((newest or {}).get("manifest_lists", {}))
        done: dict[str, int] = {}

        def check(name: str) -> None:
            if self.platform_hook.lake.location(name) is None:
                # New, or a finding.
                return
            problems, checked, location = self._check(name, lists.get(name))
            found.extend(problems)
            done[name] = checked
            if location and not problems:
                lists[name] = location

        for_each_table(names, check, self.log.exception)
        # Of a table with findings the one before.
        history.record_run(CHECKED, {"manifest_lists": lists}, datetime.now(UTC))
        self.report(found, "stored files")
        return {"checked": done} if done else {"result": NOTHING}

    def _check(self, name: str, since: str | None) -> tuple[list[Finding], int, str | None]:
        """Findings, number of files, and the manifest list up to which they were checked."""
        from sluice.clients.lake import table_diff
        from sluice.core.errors import Refused
        from sluice.core.tables.storage import WrittenObject
        from sluice.loads.inventory import check_objects
        from sluice.maintenance.reconciliation.table_contents import DAMAGED, kept

        table = self.platform_hook.lake.table(name)
        try:
            diff = table_diff.diff(table, kept(table, since))
        except Refused as error:
            if error.code not in DAMAGED:
                raise
            return [Finding(FindingName.METADATA_DAMAGED, f"{name}: {error}")], 0, None
        if diff is None:
            return [], 0, None
        written = [WrittenObject(one.file.file_path, one.file.file_size_in_bytes) for one in diff.added]
        checked = check_objects(written, self.entries)
        problems = [Finding(FindingName.FILE_DAMAGED, one.message()) for one in checked if one.problem]
        return problems, len(written), diff.manifest_list
