"""Files of a stream's tables that may be deleted: those that no state of the restore horizon names.

Before anything is deleted, every rewrite of a table must be verified: what it replaced may be the only copy.
Each file that the current metadata or a recorded state within the horizon names must be there, also if
nothing can be deleted yet, and after it those of the current metadata. A removal may run again at any time:
what is left is removed then.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.config.tables import compacted_tables, lake_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused
from sluice.core.json_record import Document
from sluice.core.messages import aligned, summarize
from sluice.core.schema_versions import documents
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
from sluice.core.tables.for_each import for_each_table
from sluice.core.tables.rewrites import MAX_NAMED, Rewrites, is_of_change
from sluice.core.tables.storage import documents_place
from sluice.ledger.keys import METADATA, history_key, rewrite_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.maintenance.held import Held
from sluice.maintenance.horizon import longest_gap

if TYPE_CHECKING:
    from sluice.clients.lake.referenced import ReferencedFiles
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.ledger.known_tables import KnownTables
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# The folders of a table that Iceberg writes, and those of the documents that its properties name. Its others
# are not looked at.
FOLDERS = ("data", "metadata")
NAMED = 10


class NotVerifiedYet(ClientError):
    """A rewrite of a change is not verified, and its own run may still verify it."""

    code = ErrorCode.COMPACTION_NOT_VERIFIED


def record_metadata(systems: Systems, spec: StreamSpec, tables: KnownTables, run_id: str) -> Document:
    """Record the metadata file of each of the stream's tables that the catalog has now; return them, what
    each table holds, and a line for each that grows where the catalog maintains it.

    The record says which files a catalog needs that is restored to a later state: before this run's own
    changes, so that these can be undone.
    """
    names = lake_tables(spec)
    tables.note(*names)
    there = {name: found for name in names if (found := systems.lake.found(name))}
    locations = {name: found.location for name, found in there.items()}
    # One that never published, an empty quarantine, may be gone or made again.
    uuids = {name: found.uuid for name, found in there.items() if found.is_published}
    # Later than the locations: the states from this time on come from them.
    systems.history(spec.name).record_metadata(locations, datetime.now(UTC), run_id, uuids)
    held = {name: Held.of(systems.lake.table(name)) for name in there}
    for name, one in held.items():
        log.info("%s: %s", name, one.message())
    result: Document = {**locations, "held": {name: one.to_document() for name, one in held.items()}}
    if not systems.platform.lake.is_maintained_by_catalog:
        return result
    notes = [f"{name}: {note}" for name, one in held.items() for note in one.growth(datetime.now(UTC))]
    for note in notes:
        log.warning("%s", note)
    return {**result, "notes": notes} if notes else result


def check_rewrites(systems: Systems, spec: StreamSpec, ledger: Ledger) -> None:
    """Raise Refused if a rewrite of a table is not verified, NotVerifiedYet if its own run may still verify
    it."""
    verified, problems, may_be_soon = VerifiedRewrites(ledger), list[str](), True
    for name in systems.lake.heads(*compacted_tables(spec)):
        found = verified.unverified(Rewrites.of(systems.lake.table(name).properties))
        problems += [_unverified_message(name, one, ledger) for one in found.ids]
        may_be_soon &= all(map(is_of_change, found.ids)) and not found.unnamed
        if found.unnamed:
            problems.append(
                f"{name}: of {found.unnamed} rewrites before its newest {MAX_NAMED} it is not known "
                "whether they were verified. Fix: docs/operating.md, Compaction verification failed"
            )
    for problem in problems:
        log.error("%s", problem)
    if problems:
        message = f"a rewrite is not verified, so nothing is deleted: {summarize(problems)}"
        raise (NotVerifiedYet if may_be_soon else Refused)(message, ErrorCode.COMPACTION_NOT_VERIFIED)


def _unverified_message(table: str, rewrite: str, ledger: Ledger) -> str:
    task = "verify_change of the change" if is_of_change(rewrite) else "verify_compaction of this run"
    return (
        f"{table}: {ledger.uri(rewrite_key(rewrite))} is missing. Fix: clear {task}; if it fails: "
        "docs/operating.md, Compaction verification failed"
    )


class FileRemoval:
    """The removal of files of a stream's tables. Raises Refused if a file that a state needs is gone, and
    once the files were checked for a record from the future."""

    def __init__(self, systems: Systems, spec: StreamSpec) -> None:
        self.spec, self._systems, self._lake = spec, systems, systems.lake

    def remove(self, now: datetime) -> dict[str, Any]:
        """As if it was ``now``. Returns table -> number of deleted files, or why none was looked for."""
        maintenance, history = self.spec.maintenance, self._systems.history(self.spec.name)
        horizon = timedelta(days=maintenance.restore_horizon_days)
        recorded = history.metadata()
        records, future = list[MetadataRecord](), None
        try:
            records = needed_records(recorded, now, horizon, longest_gap(maintenance))
        except FutureRecord as error:
            # Which records there are says nothing of the files, so these are checked before the step fails.
            future = error
            log.error("nothing is removed: %s", error)

        def remove_of(name: str) -> int | str:
            try:
                found = self._remove_of(name, records)
            except ClockChanged as error:
                found = f"nothing removed: {error}"
            log.info("%s: %s", name, found)
            return found

        done = for_each_table(lake_tables(self.spec), remove_of, log.exception)
        if future:
            key = history.uri(history_key(METADATA, future.at, "tables"))
            raise Refused(
                f"the files of the tables are there, but none was removed: {future}: {key}. Fix: correct the "
                "clock, or if it was ahead then: docs/operating.md, Clock is behind the table",
                ErrorCode.CLOCK_SET_BACK,
            )
        return done

    def _remove_of(self, name: str, records: list[MetadataRecord]) -> int | str:
        if self._lake.location(name) is None:
            return "nothing removed: the catalog does not have the table"
        from sluice.clients.lake.referenced import ReferencedFiles

        reader = ReferencedFiles(self._lake.table(name).io, name)
        # Before anything is asked of the records: no other step finds that an old file is gone.
        needed = self._checked(name, reader, {r.tables[name] for r in records if name in r.tables})
        if not records or name not in records[0].tables:
            days = self.spec.maintenance.restore_horizon_days
            return f"nothing removed: the records of its metadata do not cover {days} days"
        base = records[0]
        stored, removed = Usage(), Usage()
        metadata = self._file(base.tables[name])
        files = self._files(name, *FOLDERS, *documents.FOLDERS)
        found = removable(stored.counting(files), needed, base.at, metadata)
        bucket = metadata.path.split("/", 1)[0]
        # As they are listed: a bucket may have millions.
        self._systems.remove_objects(bucket, _keys(removed.counting(found)))
        log.info(
            "%s: %d of %d files were needed by no state since %s%s",
            name, removed.number, stored.number, base.at.isoformat(timespec="seconds"),
            aligned(["kind", "files", "bytes"], removed.rows()) if removed.number else "",
        )  # fmt: skip
        if removed.number:
            self._checked(name, reader, set())
        return removed.number

    def _checked(self, name: str, reader: ReferencedFiles, recorded: set[str]) -> Container[str]:
        """The paths that the current metadata and that of the ``recorded`` locations name, of which none that
        a branch of theirs reaches may be missing."""
        # The metadata first: files that are written meanwhile are stored and not yet named.
        reached, others = dict[str, int | None](), set[str]()
        for location in {self._lake.table(name).metadata_location, *recorded}:
            of_branches, of_others = reader.of(location)
            reached |= of_branches
            others |= of_others
        problems = missing(reached, self._files(name, *FOLDERS), self._folders(name, FOLDERS))
        found, lost = documents.stored(reader.documents, self._files(name, *documents.FOLDERS))
        problems += lost
        for problem in problems[:NAMED]:
            log.error("%s", problem)
        if problems:
            raise Refused(
                f"{name}: {len(problems)} files that its current metadata, or its state within the restore "
                f"horizon, names are not as written: {summarize(problems)}. Fix: {MISSING_FIX}",
                ErrorCode.LAKE_FILE_MISSING,
            )
        reached.update(dict.fromkeys([*others, *found]))
        return reached

    def _files(self, name: str, *folders: str) -> Iterator[StoredFile]:
        """Yield the files in these of the table's folders, in the order of a listing."""
        for folder in self._folders(name, folders):
            bucket, prefix = folder.split("/", 1)
            yield from self._systems.bucket(bucket).files(prefix)

    def _file(self, location: str) -> StoredFile:
        bucket, key = path_of(location).split("/", 1)
        found = next(self._systems.bucket(bucket).files(key), None)
        if found is None:
            raise Refused(missing_message(location), ErrorCode.LAKE_FILE_MISSING)
        return found

    def _folders(self, name: str, folders: Iterable[str]) -> list[str]:
        table = self._lake.table(name)
        place = documents_place(table.location(), table.properties)
        found = {part: place if part in documents.FOLDERS else table.location() for part in folders}
        return [f"{path_of(folder).rstrip('/')}/{part}/" for part, folder in found.items()]


def _keys(files: Iterable[StoredFile]) -> Iterator[str]:
    for number, file in enumerate(files):
        if number < NAMED:
            log.info("deleting %s", file.path)
        yield file.path.split("/", 1)[1]
