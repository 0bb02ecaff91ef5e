"""Whether anything changed on which a step of reconciliation rests, since its last run that passed.

A run records when it begins, and what it is about to look at once it has passed. The newest record decides: a
run that failed, or was ended, leaves the one of its begin, and the next run looks at everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.core.messages import summarize
from sluice.ledger.keys import VERIFIED_TABLE, passed_kind
from sluice.maintenance.reconciliation.contents import MARKED
from sluice.maintenance.reconciliation.report import kept, table_findings

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec
    from sluice.core.json_record import Document
    from sluice.ledger.history import History
    from sluice.ledger.known_tables import KnownTables
    from sluice.ledger.marks import LedgerMarks
    from sluice.systems import Systems


def seen(systems: Systems, spec: StreamSpec) -> Document:
    """On what the result of a step rests that may change: the metadata file of each table, by the catalog,
    which is another one after each commit; and what is declared. To be read before anything is looked at."""
    names = (spec.table, spec.quarantine_table)
    return {
        "tables": {name: systems.lake.location(name) for name in names},
        "max_rejected_percent": spec.supervision.max_rejected_percent,
        "by_catalog": systems.platform.lake.is_maintained_by_catalog,
    }


def begin(history: History, step: str, now: datetime) -> None:
    """From now on the step has not passed. ``step``: as ``table``, ``files``."""
    _record(history, step, {"seen": None}, now)


def passed(history: History, step: str, before: Document, now: datetime, notes: Sequence[str] = ()) -> None:
    """The step has passed; ``before``: what was :func:`seen` when it began; ``notes``: what it could not look
    at, which its result says, and that of each run that it stands for."""
    _record(history, step, {"seen": before, "notes": list(notes)}, now)


def _record(history: History, step: str, document: Document, now: datetime) -> None:
    kind = passed_kind(step)
    newest = history.newest_keys(kind, 1)
    # The newest record counts, also after one of a clock that was ahead.
    at = max(now, newest[0][1] + timedelta(microseconds=1)) if newest else now
    history.record_run(kind, document, at)


class Unchanged:
    """A look at a stream, for a step that need not run. ``marks``: what the ledger must have; ``again``: how
    long a run that looked at everything stands for others."""

    def __init__(
        self, systems: Systems, spec: StreamSpec, tables: KnownTables, marks: LedgerMarks, again: timedelta
    ) -> None:
        self._systems, self._spec, self._tables, self._marks = systems, spec, tables, marks
        self._history, self._again = systems.history(spec.name), again

    def reason(self, step: str, now: datetime) -> tuple[str, dict[str, Any]]:
        """Why the step has to run, or "" and its return value. Whatever cannot be looked at raises."""
        newest = self._history.latest(passed_kind(step))
        before = newest["seen"] if newest else None
        if newest is None or before is None:
            return "no run has passed yet" if newest is None else "the newest run has not passed", {}
        at = datetime.fromisoformat(newest["at"])
        if not timedelta() <= now - at < self._again:
            hours = self._again.total_seconds() / 3600
            return f"the newest run that looked at everything passed at {at}: one does every {hours:g} h", {}
        if changed := self._changed(before):
            return changed, {}
        text = f"nothing changed since {at.isoformat(timespec='seconds')}, when a run that looked passed"
        # A record of an earlier version has none.
        notes = {"notes": newest["notes"]} if newest.get("notes") else {}
        return "", {"result": text, "tables": before["tables"], **notes}

    def _changed(self, before: Document) -> str:
        now = seen(self._systems, self._spec)
        if now != before:
            return f"changed since the newest run that passed: {_different(before, now)}"
        found = table_findings(self._tables, *now["tables"])
        if found:
            return summarize([str(one) for one in found])
        if lost := [uri for kind in MARKED if (uri := self._marks.lost(kind))]:
            return f"the ledger does not have {summarize(lost)}"
        gone = [name for name in now["tables"] if not _is_stored(self._systems.lake, name)]
        if gone:
            return f"the manifest list of {summarize(gone)} is gone"
        # Versions that wait too long are found by the time alone.
        state = self._history.latest(VERIFIED_TABLE)
        withheld = state is not None and state["on_purpose"]["withheld"]
        return "records are withheld" if withheld else ""


def _different(before: Document, now: Document) -> str:
    tables = [name for name, at in now["tables"].items() if before["tables"].get(name) != at]
    return summarize([*tables, *(key for key in now if key != "tables" and before.get(key) != now[key])])


def _is_stored(lake: Lake, name: str) -> bool:
    """Whether the metadata of a table can be read, which raises if not, and its manifest list is there."""
    from sluice.clients.lake.commits import MAIN

    if lake.location(name) is None:
        return True
    table = lake.table(name)
    snapshot = table.snapshot_by_name(MAIN)
    return snapshot is None or kept(table, snapshot.manifest_list) is not None
