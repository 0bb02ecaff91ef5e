"""Steps of maintenance that delete files late: record the current metadata, remove what no record needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sluice.hooks import compaction_runs
from sluice.hooks.compaction_runs import ATTEMPT, REMOVED
from sluice.hooks.failures import failed, table
from sluice.hooks.removal import remove_objects_by
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.maintenance import lake_tables
from sluice.model.verification.file_removal import (
    MISSING_FIX,
    ClockChanged,
    MetadataRecord,
    StoredFile,
    missing,
    needed_records,
    path_of,
    removable,
    usage,
)
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.lake.referenced import ReferencedFiles

# The folders of a table that Iceberg writes. Its others are not looked at.
FOLDERS = ("data", "metadata")
NAMED = 10


class RecordMetadataOperator(StreamOperator):
    """Record the metadata file of each of the stream's tables that the catalog has now.

    The record says which files a catalog needs that is restored to a later state: before this run's own
    changes, so that these can be undone.
    """

    does = "records which metadata file of each table the catalog has"
    fails_if = "the catalog or the ledger does not answer"

    def work(self, context: Context) -> dict[str, str]:
        lake = self.platform_hook.lake
        locations = {name: lake.location(name) for name in lake_tables(self.spec)}
        found = {name: location for name, location in locations.items() if location}
        # Later than the locations: the states from this time on come from them.
        history = self.platform_hook.history(self.stream)
        history.record_metadata(found, datetime.now(UTC), context["run_id"])
        return found


class RemoveFilesOperator(StreamOperator):
    """Delete the files of the stream's tables that no state of the last ``restore_horizon_days`` names.

    Before, each file that the current metadata or a recorded state of this time names must be there, and
    after it those of the current metadata; every compaction since the last deletion must be verified. Fails
    without retries otherwise. May run again at any time: what is left is removed then.
    """

    does = "deletes files that no state of the last `restore_horizon_days` names; checks the others"
    fails_if = (
        "a file that a table or a recorded state needs is gone, an earlier compaction is not verified, or S3 "
        "denies the deletion"
    )

    def work(self, context: Context) -> dict[str, Any]:
        attempt = compaction_runs.newest(self.ledger, context["run_id"], ATTEMPT)
        self._check_verified()
        done = self.remove(datetime.now(UTC))
        compaction_runs.record(self.ledger, context["run_id"], REMOVED, attempt, done)
        return done

    def _check_verified(self) -> None:
        """Raises AirflowFailException if a compaction is not: what it replaced may be the only copy."""
        records = self.platform_hook.history(self.stream).metadata()
        # Records of earlier versions do not have their run.
        runs = takewhile(bool, (record.run for record in records))
        found = compaction_runs.unverified(self.ledger, runs)
        self.check_no_problems(
            ErrorCode.COMPACTION_NOT_VERIFIED,
            [f"run {run!r}: {document} is missing" for run, document in found.items()],
            "a compaction is not verified, so nothing is deleted",
            ". Fix: clear verify_compaction of this run; if it fails: docs/operating.md, Compaction "
            "verification failed",
        )

    def remove(self, now: datetime) -> dict[str, Any]:
        """As if it was ``now``. Returns table -> number of deleted files, or why none was looked for."""
        maintenance = self.spec.maintenance
        horizon = timedelta(days=maintenance.restore_horizon_days)
        longest_gap = 2 * timedelta(hours=maintenance.schedule_hours)
        recorded = self.platform_hook.history(self.stream).metadata()
        try:
            records = needed_records(recorded, now, horizon, longest_gap)
        except ClockChanged as error:
            self.log.warning("nothing removed: %s", error)
            return dict.fromkeys(lake_tables(self.spec), f"nothing removed: {error}")
        done: dict[str, Any] = {}
        for name in lake_tables(self.spec):
            try:
                done[name] = self._remove_of(name, records)
            except ClockChanged as error:
                done[name] = f"nothing removed: {error}"
            self.log.info("%s: %s", name, done[name])
        return done

    def _remove_of(self, name: str, records: list[MetadataRecord]) -> int | str:
        lake = self.platform_hook.lake
        if lake.location(name) is None:
            return "nothing removed: the catalog does not have the table"
        if not records or name not in records[0].tables:
            days = self.spec.maintenance.restore_horizon_days
            return f"nothing removed: the records of its metadata do not cover {days} days"
        from sluice.clients.lake.referenced import ReferencedFiles

        reader = ReferencedFiles(lake.table(name).io, name)
        locations = {record.tables[name] for record in records if name in record.tables}
        needed, files = self._checked(name, reader, locations)
        found = removable(files, needed, records[0].at, records[0].tables[name])
        self.log.info(
            "%s: %d of %d files are needed by no state since %s%s",
            name, len(found), len(files), records[0].at.isoformat(timespec="seconds"),
            table(["kind", "files", "bytes"], usage(found)) if found else "",
        )  # fmt: skip
        for file in found[:NAMED]:
            self.log.info("%s", file.path)
        if found:
            bucket = self._folder(name).split("/", 1)[0]
            remove_objects_by(bucket, (file.path.removeprefix(f"{bucket}/") for file in found))
            self._checked(name, reader, set())
        return len(found)

    def _checked(
        self, name: str, reader: ReferencedFiles, recorded: set[str]
    ) -> tuple[set[str], dict[str, StoredFile]]:
        """The paths that the current metadata and that of the ``recorded`` locations name, and the stored
        files, of which none that a branch of theirs reaches may be missing."""
        # The metadata first: files that are written meanwhile are stored and not yet named.
        needed, reached = set[str](), dict[str, int | None]()
        for location in {self.platform_hook.lake.table(name).metadata_location, *recorded}:
            found, others = reader.of(location)
            reached |= found
            needed |= others
        folder = self._folder(name)
        bucket, prefix = folder.split("/", 1)
        folders = [f"{folder}/{part}/" for part in FOLDERS]
        stored = (self.platform_hook.bucket(bucket).files(f"{prefix}/{part}/") for part in FOLDERS)
        files = {file.path: file for part in stored for file in part}
        problems = missing(reached, files, folders)
        for problem in problems[:NAMED]:
            self.log.error("%s", problem)
        if problems:
            raise failed(
                ErrorCode.LAKE_FILE_MISSING,
                f"{name}: {len(problems)} files that its current metadata, or its state within the restore "
                f"horizon, names are not as written: {'; '.join(problems[:3])}. Fix: {MISSING_FIX}",
            )
        return needed | reached.keys(), files

    def _folder(self, name: str) -> str:
        return path_of(self.platform_hook.lake.table(name).location()).rstrip("/")
