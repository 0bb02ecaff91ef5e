"""What all reconciliations share: findings of tables that the ledger knows otherwise, and the failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, check_no_problems
from sluice.core.findings import Finding, FindingName, named
from sluice.core.tables.known_tables import TableState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.ledger.known_tables import KnownTables

log = logging.getLogger(__name__)
B = TypeVar("B")
T = TypeVar("T")

FIX = ". Fix: docs/operating.md, Reconciliation findings"
NOTHING = "nothing was loaded yet, and the ledger knows of no earlier table: there is nothing to compare"
# Found once: the state that is there is verified as a whole, and the next run starts from it.
ONCE = frozenset(
    {
        FindingName.TABLE_RESTORED,
        FindingName.MAIN_MOVED,
        FindingName.FOREIGN_COMMIT,
        FindingName.RECORDS_REJECTED,
        FindingName.LEDGER_LOST,
    }
)
DAMAGED = frozenset({ErrorCode.CORRUPT_OBJECT, ErrorCode.LAKE_FILE_MISSING})
_TABLE_FINDINGS = {
    TableState.LOST: FindingName.TABLE_LOST,
    TableState.EMPTIED: FindingName.TABLE_LOST,
    TableState.REPLACED: FindingName.TABLE_REPLACED,
    TableState.FORGOTTEN: FindingName.LEDGER_LOST,
}


def table_findings(tables: KnownTables, *names: str) -> list[Finding]:
    """Return findings about tables that are lost, replaced or unknown to the ledger."""
    states = {name: tables.state(name) for name in names}
    return [
        Finding(_TABLE_FINDINGS[state], tables.problem(name) or state.name)
        for name, state in states.items()
        if state in _TABLE_FINDINGS
    ]


def kept(table: Table, manifest_list: str | None) -> str | None:
    """The manifest list, if the bucket still has it: once it is deleted it is no base."""
    if manifest_list is None or not table.io.new_input(manifest_list).exists():
        return None
    return manifest_list


def on_top_of(base: B | None, look: Callable[[B | None], T], instead: str) -> T:
    """What ``look`` finds from ``base`` or, if a file is gone, without it, which the log says as ``instead``:
    who maintains the table deletes one by one the files that the base has and the table has not."""
    try:
        return look(base)
    except Refused as error:
        if base is None or error.code is not ErrorCode.LAKE_FILE_MISSING:
            raise
        log.warning("%s, since a file is gone: %s", instead, error)
        return look(None)


def no_position(table: str) -> Finding:
    return Finding(
        FindingName.MAIN_MOVED, f"{table}: no snapshot of main that is kept says what it has published"
    )


def check_findings(log: logging.Logger, found: Sequence[Finding], what: str) -> None:
    """Log each finding as a whole. Raises Refused with the first of them, if any."""
    for finding in found:
        if finding.whole not in finding.message:
            log.error("%s: %s", finding.name, finding.whole)
    problems = [str(finding) for finding in found]
    check_no_problems(log, ErrorCode.RECONCILIATION_FINDING, problems, f"{what}: {named(found)}", FIX)
