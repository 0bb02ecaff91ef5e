"""What pages show of a consumer's work: its loads with their audits, its batches, and how many there were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.core.json_record import Document
from sluice.ledger.keys import NOT_VERIFIED, PROOF, run_key
from sluice.supervision.observer.live import Live, LoadResult

if TYPE_CHECKING:
    from sluice.core.tables.batches import Batch
    from sluice.ledger.history import History

# Shown.
BATCHES, LOADS = 20, 5


@dataclass(frozen=True)
class KnownLoads:
    """``counted``: up to when loads were counted, None before the first reading. ``documents``: key ->
    document of the newest reading, which never changes."""

    counted: float | None = None
    documents: Mapping[str, Document] = field(default_factory=dict)

    def read(self, history: History, live: Live, at: float) -> tuple[KnownLoads, Live]:
        """What is known at ``at``, and ``live`` with the loads and their counts."""
        loads, documents = self._newest(history)
        counted = at if self.counted is None else self.counted
        live = replace(live, loads=loads, counts=live.counts.with_loads(counted, loads))
        return KnownLoads(max([counted, *(load.at for load in loads)]), documents), live

    def _newest(self, history: History) -> tuple[list[LoadResult], dict[str, Document]]:
        """The newest of both kinds, and all since the last count, newest first: two LISTs, and a GET for each
        new document."""
        kept = dict[str, Document]()

        def get(key: str) -> Document | None:
            document = self.documents.get(key) or history.get(key)
            if document is not None:
                kept[key] = document
            return document

        loads = []
        for kind in (PROOF, NOT_VERIFIED):
            keys = history.newest_keys(kind, LOADS)
            if self.counted is not None and keys and keys[-1][1].timestamp() > self.counted:
                keys = history.keys_since(kind, datetime.fromtimestamp(self.counted, UTC))
            for position, (key, at) in enumerate(keys):
                record = get(key)
                if record is not None:
                    # The load that is shown first is shown with its budget.
                    audit = kind == PROOF and not position and get(run_key(record["run_id"], "audit"))
                    loads.append(LoadResult.of(record, at.timestamp(), kind == PROOF, audit or None))
        return sorted(loads, key=lambda load: -load.at), kept


def with_batches(live: Live, found: Sequence[Batch]) -> Live:
    """``live`` with the table's newest batches, newest first, and their counts."""
    return replace(live, batches=found, counts=live.counts.with_batches(live.batches, found))
