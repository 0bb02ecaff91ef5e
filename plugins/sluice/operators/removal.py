"""Steps of maintenance that delete files late: record the current metadata, remove what no record needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Refused
from sluice.hooks.failures import failed, table
from sluice.hooks.removal import remove_objects_by
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.maintenance import lake_tables
from sluice.model.verification.file_removal import (
    MISSING_FIX,
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
        self.platform_hook.history(self.stream).record_metadata(found, datetime.now(UTC))
        return found


class RemoveFilesOperator(StreamOperator):
    """Delete the files of the stream's tables that no state of the last ``restore_horizon_days`` names.

    Each table is checked before and after: its current metadata must name no file that is gone. Fails without
    retries otherwise. May run again at any time: what is left is removed then.
    """

    does = "deletes files that no state of the last `restore_horizon_days` names; checks the others"
    fails_if = "a file that a table needs is gone, or S3 denies the deletion"

    def work(self, context: Context) -> dict[str, Any]:
        return self.remove(datetime.now(UTC))

    def remove(self, now: datetime) -> dict[str, Any]:
        """As if it was ``now``. Returns table -> number of deleted files, or why none was looked for."""
        horizon = timedelta(days=self.spec.maintenance.restore_horizon_days)
        documents = self.platform_hook.history(self.stream).metadata_since(now - horizon)
        done: dict[str, Any] = {}
        for name in lake_tables(self.spec):
            recorded = [
                MetadataRecord(datetime.fromisoformat(document["at"]), document["tables"][name])
                for document in documents
                if name in document["tables"]
            ]
            done[name] = self._remove_of(name, needed_records(recorded, now, horizon))
            self.log.info("%s: %s", name, done[name])
        return done

    def _remove_of(self, name: str, records: list[MetadataRecord]) -> int | str:
        lake = self.platform_hook.lake
        if lake.location(name) is None:
            return "nothing removed: the catalog does not have the table"
        if not records:
            days = self.spec.maintenance.restore_horizon_days
            return f"nothing removed: no record of its metadata is {days} days old"
        from sluice.clients.lake.referenced import ReferencedFiles

        reader = ReferencedFiles(lake.table(name).io, name)
        try:
            needed = {path for location in {r.location for r in records} for path in reader.of(location)}
        except Refused as error:
            # The horizon was shorter before, or the file was deleted by hand.
            return f"nothing removed: a recorded state cannot be read: {error}"
        current, files = self._checked(name, reader)
        found = removable(files.values(), needed | current, records)
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
            self._checked(name, reader)
        return len(found)

    def _checked(self, name: str, reader: ReferencedFiles) -> tuple[set[str], dict[str, StoredFile]]:
        """The paths that the current metadata names, and the stored files, of which none may be missing."""
        # The metadata first: files that are written meanwhile are stored and not yet named.
        named = reader.of(self.platform_hook.lake.table(name).metadata_location)
        folder = self._folder(name)
        bucket, prefix = folder.split("/", 1)
        folders = [f"{folder}/{part}/" for part in FOLDERS]
        stored = (self.platform_hook.bucket(bucket).files(f"{prefix}/{part}/") for part in FOLDERS)
        files = {file.path: file for part in stored for file in part}
        problems = missing(named, files, folders)
        for problem in problems[:NAMED]:
            self.log.error("%s", problem)
        if problems:
            raise failed(
                ErrorCode.LAKE_FILE_MISSING,
                f"{name}: {len(problems)} files that its current metadata names are not as written: "
                f"{'; '.join(problems[:3])}. Fix: {MISSING_FIX}",
            )
        return set(named), files

    def _folder(self, name: str) -> str:
        return path_of(self.platform_hook.lake.table(name).location()).rstrip("/")
