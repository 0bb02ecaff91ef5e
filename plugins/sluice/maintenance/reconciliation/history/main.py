"""Whether ``main`` goes on from the state that the last run verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import time_of
from sluice.core.tables.continuity import covers
from sluice.maintenance.reconciliation.report import kept

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.clients.lake.snapshots.table_diff import TableDiff
    from sluice.core.tables.position import Position
    from sluice.ledger.batches import BatchLog
    from sluice.maintenance.reconciliation.verified_table import Verified

_GONE = "which the last run verified, is no ancestor of main"
# The history of ``main`` is not the one that the last run verified.
ANOTHER = frozenset({FindingName.TABLE_RESTORED, FindingName.MAIN_MOVED})


def history_findings(
    table: Table, earlier: Verified | None, at: Position, batch_log: Callable[[], BatchLog]
) -> list[Finding]:
    """``at``: the position now. ``batch_log``: the table's, of which a LIST is asked if the snapshot of the
    ``earlier`` state has expired."""
    from sluice.clients.lake.snapshots import table_diff

    if earlier is None:
        return []
    if not covers(at.ends, earlier.ends):
        message = f"{earlier.table} ends at {at.ends}, and the last run verified it to {earlier.ends}"
        return [Finding(FindingName.TABLE_RESTORED, message)]
    is_on_main = table_diff.is_on_main(table, earlier.snapshot_id, earlier.sequence_number)
    named = f"snapshot {earlier.snapshot_id} of {earlier.table}, {_GONE}"
    if is_on_main is False and table.snapshot_by_id(earlier.snapshot_id):
        return [Finding(FindingName.MAIN_MOVED, named)]
    if is_on_main is False or (is_on_main is None and batch_log().has_lost(time_of(earlier.committed_at))):
        return [
            Finding(FindingName.TABLE_RESTORED, f"{named}, which was restored to before it and has gone on")
        ]
    if lost := earlier.published.minus(OffsetSet.of(OffsetRanges.from_ends(at.starts, at.ends))):
        message = (
            f"{earlier.table}: main says it starts at {at.starts}, and the last run verified {lost.count} "
            f"offsets before that: {lost.shown()}"
        )
        return [Finding(FindingName.RANGE_WRONG, message, str(lost))]
    return []


def quarantine_findings(table: Table, earlier: Verified) -> list[Finding]:
    """Whether the quarantine ``table`` goes on from the state: what producers rejected has no offsets, so
    nothing else tells that a restored catalog lost it."""
    from sluice.clients.lake.snapshots import table_diff

    number, sequence_number = earlier.quarantine_snapshot_id, earlier.quarantine_sequence_number
    if number is None or table_diff.is_on_main(table, number, sequence_number) is not False:
        return []
    named = f"snapshot {number} of {'.'.join(table.name())}, {_GONE}"
    if table.snapshot_by_id(number):
        return [Finding(FindingName.MAIN_MOVED, named)]
    return [Finding(FindingName.TABLE_RESTORED, f"{named}, which was restored to before it")]


def foreign_since(table: Table, diff: TableDiff, earlier: Verified) -> tuple[TableDiff, Verified]:
    """Where to look for foreign files on another history, and since when: all files that the ``earlier``
    state had not. By numbers they are not known: a restored catalog gives them out again."""
    from sluice.clients.lake.snapshots import table_diff

    try:
        base = kept(table, earlier.manifest_list)
        since = table_diff.diff(table, base) if base else None
    except Refused as error:
        if error.code is not ErrorCode.LAKE_FILE_MISSING:
            raise
        since = None
    # Without the earlier state's files those with a higher number are all that is known to be new.
    return (since, replace(earlier, sequence_number=-1, rewrites=0)) if since else (diff, earlier)
