"""Steps of maintenance that delete files late: record the current metadata, remove what no record needs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.failures import failed, failed_attempt, table
from sluice.airflow.operators.base import StreamOperator
from sluice.config.sections.maintenance import compacted_tables, for_each_table, lake_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.messages import summarize
from sluice.core.tables.file_removal import (
    MISSING_FIX,
    ClockChanged,
    FutureRecord,
    MetadataRecord,
    StoredFile,
    Usage,
    missing,
    missing_message,
    needed_records,
    path_of,
    removable,
)
from sluice.core.tables.rewrites import MAX_NAMED, Rewrites, is_of_change
from sluice.ledger.keys import METADATA, history_key, rewrite_key
from sluice.ledger.verified_rewrites import VerifiedRewrites

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.lake.referenced import ReferencedFiles
    from sluice.ledger.documents import Ledger

# The folders of a table that Iceberg writes. Its others are not looked at.
FOLDERS = ("data", "metadata")
NAMED = 10


class RecordMetadataOperator(StreamOperator):
    """Record the metadata file of each of the stream's tables that the catalog has now.

    The record says which files a catalog needs that is restored to a later state: before this run's own
    changes, so that these can be undone.
    """

    does = "records which metadata file of each table the catalog has"
    fails_if = "a table is lost or replaced, or the catalog or the ledger does not answer"

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, str]:
        lake, names = self.platform_hook.lake, lake_tables(self.spec)
        self.tables.note(*names)
        tables = {name: found for name in names if (found := lake.found(name))}
        locations = {name: found.location for name, found in tables.items()}
        # One that never published, an empty quarantine, may be gone or made again.
        uuids = {name: found.uuid for name, found in tables.items() if found.is_published}
        # Later than the locations: the states from this time on come from them.
        history = self.platform_hook.history(self.stream)
        history.record_metadata(locations, datetime.now(UTC), context["run_id"], uuids)
        return locations


class RemoveFilesOperator(StreamOperator):
    """Delete the files of the stream's tables that no state of the last ``restore_horizon_days`` names.

    Before, each file that the current metadata or a recorded state of this time names must be there, also if
    nothing can be deleted yet, and after it those of the current metadata; every rewrite of a table must be
    verified, and no record from the future. Fails without retries otherwise, but while a change may still be
    verified. May run again at any time: what is left is removed
    then.
    """

    does = "deletes files that no state of the last `restore_horizon_days` names; checks the others"
    fails_if = (
        "a file that a table or a recorded state needs is gone, a table is lost, a rewrite is not verified, "
        "a record is from the future, or S3 denies the deletion"
    )

    checked = staticmethod(lake_tables)

    def work(self, context: Context) -> dict[str, Any]:
        self._check_verified()
        return self.remove(datetime.now(UTC))

    def _check_verified(self) -> None:
        """Raises AirflowException if a rewrite is not: what it replaced may be the only copy."""
        lake, verified = self.platform_hook.lake, VerifiedRewrites(self.ledger)
        problems, may_be_soon = list[str](), True
        for name in lake.heads(*compacted_tables(self.spec)):
            found = verified.unverified(Rewrites.of(lake.table(name).properties))
            problems += [unverified_message(name, one, self.ledger) for one in found.ids]
            may_be_soon &= all(map(is_of_change, found.ids)) and not found.unnamed
            if found.unnamed:
                problems.append(
                    f"{name}: of {found.unnamed} rewrites before its newest {MAX_NAMED} it is not known "
                    "whether they were verified. Fix: docs/operating.md, Compaction verification failed"
                )
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            fail = failed_attempt if may_be_soon else failed
            message = f"a rewrite is not verified, so nothing is deleted: {summarize(problems)}"
            raise fail(ErrorCode.COMPACTION_NOT_VERIFIED, message)

    def remove(self, now: datetime) -> dict[str, Any]:
        """As if it was ``now``. Returns table -> number of deleted files, or why none was looked for."""
        maintenance = self.spec.maintenance
        horizon = timedelta(days=maintenance.restore_horizon_days)
        longest_gap = 2 * timedelta(hours=maintenance.schedule_hours)
        recorded = self.platform_hook.history(self.stream).metadata()
        records, future = list[MetadataRecord](), None
        try:
            records = needed_records(recorded, now, horizon, longest_gap)
        except FutureRecord as error:
            # Which records there are says nothing of the files, so these are checked before the step fails.
            future = error
            self.log.error("nothing is removed: %s", error)

        def remove_of(name: str) -> int | str:
            try:
                found = self._remove_of(name, records)
            except ClockChanged as error:
                found = f"nothing removed: {error}"
            self.log.info("%s: %s", name, found)
            return found

        done = for_each_table(lake_tables(self.spec), remove_of, self.log.exception)
        if future:
            key = self.platform_hook.history(self.stream).uri(history_key(METADATA, future.at, "tables"))
            raise failed(
                ErrorCode.CLOCK_SET_BACK,
                f"the files of the tables are there, but none was removed: {future}: {key}. Fix: correct the "
                "clock, or if it was ahead then: docs/operating.md, Clock is behind the table",
            )
        return done

    def _remove_of(self, name: str, records: list[MetadataRecord]) -> int | str:
        lake = self.platform_hook.lake
        if lake.location(name) is None:
            return "nothing removed: the catalog does not have the table"
        from sluice.clients.lake.referenced import ReferencedFiles

        reader = ReferencedFiles(lake.table(name).io, name)
        # Before anything is asked of the records: no other step finds that an old file is gone.
        needed = self._checked(name, reader, {r.tables[name] for r in records if name in r.tables})
        if not records or name not in records[0].tables:
            days = self.spec.maintenance.restore_horizon_days
            return f"nothing removed: the records of its metadata do not cover {days} days"
        base = records[0]
        stored, removed = Usage(), Usage()
        metadata = self._file(base.tables[name])
        found = removable(stored.counting(self._files(name)), needed, base.at, metadata)
        bucket = metadata.path.split("/", 1)[0]
        # As they are listed: a bucket may have millions.
        self.platform_hook.remove_objects(bucket, self._keys(removed.counting(found)))
        self.log.info(
            "%s: %d of %d files were needed by no state since %s%s",
            name, removed.number, stored.number, base.at.isoformat(timespec="seconds"),
            table(["kind", "files", "bytes"], removed.rows()) if removed.number else "",
        )  # fmt: skip
        if removed.number:
            self._checked(name, reader, set())
        return removed.number

    def _checked(self, name: str, reader: ReferencedFiles, recorded: set[str]) -> Container[str]:
        """The paths that the current metadata and that of the ``recorded`` locations name, of which none that
        a branch of theirs reaches may be missing."""
        # The metadata first: files that are written meanwhile are stored and not yet named.
        reached, others = dict[str, int | None](), set[str]()
        for location in {self.platform_hook.lake.table(name).metadata_location, *recorded}:
            of_branches, of_others = reader.of(location)
            reached |= of_branches
            others |= of_others
        problems = missing(reached, self._files(name), self._folders(name))
        for problem in problems[:NAMED]:
            self.log.error("%s", problem)
        if problems:
            raise failed(
                ErrorCode.LAKE_FILE_MISSING,
                f"{name}: {len(problems)} files that its current metadata, or its state within the restore "
                f"horizon, names are not as written: {summarize(problems)}. Fix: {MISSING_FIX}",
            )
        reached.update(dict.fromkeys(others))
        return reached

    def _keys(self, files: Iterable[StoredFile]) -> Iterator[str]:
        for number, file in enumerate(files):
            if number < NAMED:
                self.log.info("deleting %s", file.path)
            yield file.path.split("/", 1)[1]

    def _files(self, name: str) -> Iterator[StoredFile]:
        """Of the table's folders, in the order of a listing."""
        for folder in self._folders(name):
            bucket, prefix = folder.split("/", 1)
            yield from self.platform_hook.bucket(bucket).files(prefix)

    def _file(self, location: str) -> StoredFile:
        bucket, key = path_of(location).split("/", 1)
        found = next(self.platform_hook.bucket(bucket).files(key), None)
        if found is None:
            raise failed(ErrorCode.LAKE_FILE_MISSING, missing_message(location))
        return found

    def _folders(self, name: str) -> list[str]:
        folder = path_of(self.platform_hook.lake.table(name).location()).rstrip("/")
        return [f"{folder}/{part}/" for part in FOLDERS]


def unverified_message(table: str, rewrite: str, ledger: Ledger) -> str:
    task = "verify_change of the change" if is_of_change(rewrite) else "verify_compaction of this run"
    return (
        f"{table}: {ledger.uri(rewrite_key(rewrite))} is missing. Fix: clear {task}; if it fails: "
        "docs/operating.md, Compaction verification failed"
    )


class RecordMaintenanceOperator(StreamOperator):
    """Record that a run of maintenance was complete, for supervision; it fails with any step of the run."""

    does = "records that this run was complete; supervision reports a stream without one for three intervals"
    fails_if = "the ledger does not answer"

    checked = None

    def work(self, context: Context) -> None:
        history = self.platform_hook.history(self.stream)
        history.record_maintenance(datetime.now(UTC), context["run_id"])
