"""Check that each data file since the last run that passed is in the bucket as it was written, and each
document that the table's properties name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.s3.documents import read_named
from sluice.clients.s3.errors import asking
from sluice.clients.s3.requests import split
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.schema_versions import documents
from sluice.core.tables.for_each import for_each_table
from sluice.core.tables.storage import WrittenObject
from sluice.ledger.keys import CHECKED
from sluice.loads.written.inventory import check_objects, not_shown_of_files
from sluice.maintenance.reconciliation.report import (
    DAMAGED,
    NOTHING,
    ONCE,
    check_findings,
    kept,
    on_top_of,
    table_findings,
)

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.s3.objects import Entry
    from sluice.config.stream import StreamSpec
    from sluice.ledger.known_tables import KnownTables
    from sluice.systems import Systems

log = logging.getLogger(__name__)


def reconcile_files(
    systems: Systems,
    spec: StreamSpec,
    tables: KnownTables,
    entries: Callable[[str], list[Entry]],
    *,
    is_full: bool,
) -> dict[str, Any]:
    """Check the data files and documents of table and quarantine. ``entries``: versions and delete markers of
    an object; ``is_full``: all files, and not only those since the last run that passed. Raises Refused with
    the findings."""
    names, history = (spec.table, spec.quarantine_table), systems.history(spec.name)
    found = [one for one in table_findings(tables, *names) if one.name not in ONCE]
    newest = None if is_full else history.latest(CHECKED)
    lists: dict[str, str] = dict((newest or {}).get("manifest_lists", {}))
    done: dict[str, int] = {}

    def check(name: str) -> None:
        if systems.lake.location(name) is None:
            # New, or a finding.
            return
        problems, checked, location = _check(systems.lake, name, lists.get(name), entries)
        found.extend(problems)
        done[name] = checked
        if location and not problems:
            lists[name] = location
        # Whatever was checked before: they are two at most, and nothing says that one was damaged.
        found.extend(document_findings(systems, name))

    for_each_table(names, check, log.exception)
    # A table with findings keeps the list of the check before.
    history.record_run(CHECKED, {"manifest_lists": lists}, datetime.now(UTC))
    check_findings(log, found, "stored files")
    if not done:
        return {"result": NOTHING}
    # Beside the result, which would be green as if all had been looked at.
    notes = not_shown_of_files(systems.platform.lake)
    for note in notes:
        log.info("%s", note)
    return {"checked": done, "notes": notes} if notes else {"checked": done}


def document_findings(systems: Systems, name: str) -> list[Finding]:
    """Findings of the documents that the table names."""
    table, found = systems.lake.table(name), list[Finding]()
    for address, digest in documents.named(table.location(), table.properties).items():
        bucket, prefix = split(address)
        keys = [file.path.split("/", 1)[1] for file in systems.bucket(bucket).files(f"{prefix}.")]
        problems = [] if keys else [f"{address}.* is missing, and the table names it"]
        for key in keys:
            uri = f"s3://{bucket}/{key}"
            try:
                with asking(uri):
                    read_named(systems.s3, uri, digest)
            except Refused as error:
                if error.code is not ErrorCode.LAKE_FILE_MISSING:
                    raise
                problems.append(str(error).partition(". Fix: ")[0])
        found += [Finding(FindingName.FILE_DAMAGED, one) for one in problems]
    return found


def _check(
    lake: Lake, name: str, since: str | None, entries: Callable[[str], list[Entry]]
) -> tuple[list[Finding], int, str | None]:
    """Findings, number of files, and the manifest list up to which they were checked."""
    from sluice.clients.lake.snapshots import table_diff

    table = lake.table(name)
    base = kept(table, since)
    try:
        diff = on_top_of(base, lambda one: table_diff.diff(table, one), f"{name}: all files are checked")
    except Refused as error:
        if error.code not in DAMAGED:
            raise
        return [Finding(FindingName.METADATA_DAMAGED, f"{name}: {error}")], 0, None
    if diff is None:
        return [], 0, None
    written = [WrittenObject(one.file.file_path, one.file.file_size_in_bytes) for one in diff.added]
    checked = check_objects(written, entries)
    problems = [Finding(FindingName.FILE_DAMAGED, one.message()) for one in checked if one.problem]
    return problems, len(written), diff.manifest_list
