"""Whether a table is new, or one that the ledger knows of earlier: what is missing may be lost.

The ledger has a document per table that was seen with published contents, by its name and Iceberg's UUID. A
restored catalog keeps the UUID; another table of the name has another one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from sluice.core.error_codes import ErrorCode

# When the stream's table was created, in ms since 1970: a property of the table.
CREATED_AT = "sluice.created-at"
# A table that publishes is recorded within minutes, by supervision or by the load that started its writer.
RECORDED_WITHIN_MS = 3_600_000


@dataclass(frozen=True)
class FoundTable:
    """A table that the catalog has. ``is_published``: a snapshot is on ``main``; ``created_at``: in ms since
    1970, None if the table does not say or its stream has published no record yet."""

    uuid: str
    is_published: bool
    location: str = ""
    created_at: int | None = None


class TableState(Enum):
    # Neither catalog nor ledger know contents of it.
    NEW = auto()
    KNOWN = auto()
    # The ledger is to be told of it.
    UNRECORDED = auto()
    # The ledger knows its contents, and the catalog has none of the name.
    LOST = auto()
    # It is there, and its catalog was restored to before its first commit.
    EMPTIED = auto()
    # The ledger knows another table of the name.
    REPLACED = auto()
    # It has contents, was created long ago, and the ledger does not know it.
    FORGOTTEN = auto()


_PROBLEMS = {
    TableState.LOST: ErrorCode.TABLE_LOST,
    TableState.EMPTIED: ErrorCode.TABLE_LOST,
    TableState.REPLACED: ErrorCode.TABLE_REPLACED,
    TableState.FORGOTTEN: ErrorCode.DOCUMENT_NOT_FOUND,
}


@dataclass(frozen=True)
class ComparedTable:
    """``found``: None if the catalog does not have it; ``known``: UUIDs of the tables of this name that the
    ledger has seen published."""

    name: str
    found: FoundTable | None
    known: Collection[str]
    state: TableState

    @property
    def is_problem(self) -> bool:
        """Whether a step must fail because of the table, instead of taking it for one that never existed."""
        return self.state in _PROBLEMS

    @property
    def code(self) -> ErrorCode:
        """The error code of a table that is a problem."""
        return _PROBLEMS[self.state]

    @property
    def problem(self) -> str | None:
        """Why this is no new table and none as it was, with the fix; None if it is."""
        known, uuid = ", ".join(sorted(self.known)), self.found.uuid if self.found else ""
        earlier = f"{self.name} (UUID {known}), which the ledger has seen with published contents,"
        lost = "Fix: docs/operating.md, Table lost by the catalog"
        match self.state:
            case TableState.LOST:
                return f"{earlier} is not in the catalog: it was dropped, or the catalog was restored. {lost}"
            case TableState.EMPTIED:
                return (
                    f"{earlier} has no snapshot: the catalog was restored to before its first commit. {lost}"
                )
            case TableState.REPLACED:
                return (
                    f"{earlier} was replaced by another table of this name (UUID {uuid}). Fix: "
                    "docs/operating.md, Table replaced by another one"
                )
            case TableState.FORGOTTEN:
                return (
                    f"{self.name} (UUID {uuid}) has published contents and was created over an hour ago, and "
                    "the ledger does not know it: the ledger was emptied or restored. Fix: "
                    "docs/operating.md, Ledger lost"
                )
        return None


def compare(
    name: str, found: FoundTable | None, known: Collection[str], now_ms: int | None = None
) -> ComparedTable:
    """``now_ms``: None of a writer, to whom a ledger that forgot its table is no matter: Airflow's tasks
    fail."""
    return ComparedTable(name, found, known, _state(found, known, now_ms))


def _state(found: FoundTable | None, known: Collection[str], now_ms: int | None) -> TableState:
    if not known:
        if found is None or not found.is_published:
            return TableState.NEW
        at = found.created_at
        is_old = now_ms is not None and at is not None and now_ms - at > RECORDED_WITHIN_MS
        return TableState.FORGOTTEN if is_old else TableState.UNRECORDED
    if found is None:
        return TableState.LOST
    if found.uuid not in known:
        return TableState.REPLACED
    return TableState.KNOWN if found.is_published else TableState.EMPTIED
