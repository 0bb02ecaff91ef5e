"""What the ledger must have: keys of its newest documents of some kinds, as Variables of Airflow.

A ledger that was restored to an earlier state says nothing of it. So who writes a document that later steps
rest on leaves its key in Airflow's database. A marked document that the ledger does not have was lost, and
others of that time with it. Of a ledger and a database that were restored together nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable

if TYPE_CHECKING:
    from sluice.clients.ledger import Ledger

# Kind of the mark of a component's newest suspension or resumption. Others are kinds of the history.
REQUESTS = "requests"


class LedgerMarks:
    """Of the documents of ``ledger``, one mark per kind."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def leave(self, kind: str, key: str) -> None:
        """Mark the newest document. A mark whose document is lost stays, until that was told."""
        if self.lost(kind) is None:
            self.replace(kind, key)

    def replace(self, kind: str, key: str) -> None:
        """Mark the newest document, whatever became of the one before."""
        Variable.set(self._name(kind), key)

    def lost(self, kind: str) -> str | None:
        """Address of the marked document if the ledger does not have it; None also without a mark."""
        key = self._marked(kind)
        return self.ledger.uri(key) if key and self.ledger.get(key) is None else None

    def _marked(self, kind: str) -> str | None:
        name = self._name(kind)
        # `get` takes an Airflow that does not answer for one without the Variable; `keys` raises.
        if name not in list(Variable.keys(prefix=name)):
            return None
        return str(Variable.get(name))

    def forget(self, kind: str) -> None:
        """Remove the mark."""
        Variable.delete(self._name(kind))

    def _name(self, kind: str) -> str:
        return f"sluice_ledger_{self.ledger.stream}_{kind}"
