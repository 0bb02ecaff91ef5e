"""What the ledger must have: keys of its newest documents of some kinds, kept outside of it.

A ledger that was restored to an earlier state says nothing of it. So who writes a document that later steps
rest on leaves its key in another store: Airflow's Variables. A marked document that the ledger does not
have was lost, and others of that time with it. If ledger and database were restored together,
nothing tells of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger

# Kind of the mark of a component's newest suspension or resumption. Others are kinds of the history.
REQUESTS = "requests"


class MarkStore(Protocol):
    """Texts by key. Each method raises what the store raises if it does not answer; ``get`` may take that for
    a missing key."""

    def keys(self, prefix: str) -> Iterable[str]: ...

    def get(self, key: str) -> Any: ...

    def set(self, key: str, value: str) -> None: ...

    def delete(self, key: str) -> None: ...


class LedgerMarks:
    """Marks of the documents of ``ledger``, one per kind, in ``store``."""

    def __init__(self, ledger: Ledger, store: MarkStore) -> None:
        self.ledger = ledger
        self.store = store

    def leave(self, kind: str, key: str) -> None:
        """Mark the newest document. A mark whose document is lost stays, until that was told."""
        if self.lost(kind) is None:
            self.replace(kind, key)

    def replace(self, kind: str, key: str) -> None:
        """Mark the newest document, whatever became of the one before."""
        self.store.set(self._name(kind), key)

    def lost(self, kind: str) -> str | None:
        """Address of the marked document if the ledger does not have it; None also without a mark."""
        key = self.marked(kind)
        return self.ledger.uri(key) if key and self.ledger.get(key) is None else None

    def marked(self, kind: str) -> str | None:
        """The key that is marked; None without a mark."""
        name = self._name(kind)
        # Airflow's `get` takes an Airflow that does not answer for one without the Variable; `keys` raises.
        if name not in list(self.store.keys(prefix=name)):
            return None
        return str(self.store.get(name))

    def forget(self, kind: str) -> None:
        """Remove the mark."""
        self.store.delete(self._name(kind))

    def _name(self, kind: str) -> str:
        return f"sluice_ledger_{self.ledger.stream}_{kind}"
