"""The stream's tables as the catalog has them, against what the ledger knows of them.

A document per table and UUID says that it was seen with published contents; it is written by the first step
that sees it so. Before a table counts as new, the newest proof, verified state and record of metadata are
asked too: each names its table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from sluice.core.errors import Refused
from sluice.core.tables.known_tables import ComparedTable, FoundTable, TableState, compare
from sluice.ledger.keys import METADATA, PROOF, TABLES, VERIFIED_TABLE, table_key, table_of

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.core.json_record import Document
    from sluice.ledger.history import History

# UUIDs by the tables' names.
Known: TypeAlias = Mapping[str, frozenset[str]]
# What the ledger knows is asked again after this: samples are taken every few seconds.
ASK_SECONDS = 60.0


class KnownTables:
    """Tables of one stream. Not to be shared between threads. ``clock``: seconds since 1970."""

    def __init__(self, lake: Lake, history: History, clock: Callable[[], float] = time.time) -> None:
        self.lake, self.history, self._clock = lake, history, clock
        self._asked: dict[str, tuple[float, Known]] = {}

    def known(self, name: str) -> frozenset[str]:
        """The UUIDs of the tables of this name that were seen published. In ASK_SECONDS it costs one LIST for
        all names that have a document; for the others three LISTs and up to three GETs more."""
        recorded = self._known("documents of tables", self._recorded).get(name)
        return recorded or self._known("other documents", self._documented).get(name, frozenset())

    def _known(self, what: str, ask: Callable[[], Iterable[tuple[str, str]]]) -> Known:
        now, asked = self._clock(), self._asked.get(what)
        # A clock that was set back asks again, too.
        if asked is None or abs(now - asked[0]) >= ASK_SECONDS:
            found: dict[str, set[str]] = {}
            for name, uuid in ask():
                found.setdefault(name, set()).add(uuid)
            asked = now, {name: frozenset(uuids) for name, uuids in found.items()}
            self._asked[what] = asked
        return asked[1]

    def compared(self, name: str) -> ComparedTable:
        return compare(name, self.lake.found(name), self.known(name), round(self._clock() * 1000))

    def state(self, name: str) -> TableState:
        return self.compared(name).state

    def problem(self, name: str) -> str | None:
        """Why the table is no new one and none as the ledger knows it; None if it is."""
        return self.compared(name).problem

    def check(self, *names: str) -> list[ComparedTable]:
        """The tables. Raises Refused for the first one that is lost, emptied, replaced or forgotten."""
        tables = []
        for name in names:
            table = self.compared(name)
            if table.is_problem:
                raise Refused(table.problem, table.code)
            tables.append(table)
        return tables

    def note(self, *names: str) -> None:
        """Check the tables, and record those that the ledger does not know yet."""
        self._record(self.check(*names), TableState.UNRECORDED)

    def accept(self, *names: str) -> None:
        """Record the tables, also those that the ledger has forgotten: all of them was verified."""
        self._record(map(self.compared, names), TableState.UNRECORDED, TableState.FORGOTTEN)

    def _record(self, tables: Iterable[ComparedTable], *states: TableState) -> None:
        for table in tables:
            if table.found is not None and table.state in states:
                self._put(table.name, table.found)

    def _put(self, name: str, found: FoundTable) -> None:
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat()
        document = {"table": name, "table_uuid": found.uuid, "metadata": found.location, "at": at}
        self.history.put(table_key(name, found.uuid), document)
        self._asked.clear()

    def _recorded(self) -> Iterable[tuple[str, str]]:
        return (table for key in self.history.keys(TABLES) if (table := table_of(key)))

    def _documented(self) -> Iterable[tuple[str, str]]:
        for kind in (PROOF, VERIFIED_TABLE, METADATA):
            document = self.history.latest(kind)
            if document is not None:
                yield from tables_in(document)


def tables_in(document: Document) -> Iterable[tuple[str, str]]:
    """Name and UUID of each table of a proof, a verified state or a record of metadata."""
    of_tables = document.get("uuids", {document.get("table"): document.get("table_uuid")})
    return [(name, uuid) for name, uuid in of_tables.items() if name and uuid]
