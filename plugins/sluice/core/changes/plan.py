"""The plan of a change: which rows of a stream's table go, and which records come (again).

Made and shown before anything is done, pinned in the ledger, and read by the Spark job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sluice.core.changes.published import Changes
from sluice.core.offsets.ranges import OffsetRanges

# Offsets that one change may remove singly: its result names each.
MAX_RECORDS = 10_000


class Action(StrEnum):
    """What a change is asked for."""

    REPLAY = "replay"
    RETRY = "retry_quarantine"
    REVERT = "revert"
    REDO = "redo"
    REPLACE = "replace"
    REMOVE = "remove"
    FILL = "fill_columns"


def change_id(run_id: str) -> str:
    """16 hex digits: the same for every attempt of a run."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ChangePlan:
    """Which rows of a stream's table go, and which records come."""

    id: str
    """The :func:`change_id` of the run that planned it."""
    action: Action
    """Param `action` of the change DAG's run."""
    topic: str
    """Name of the stream's, whose offsets these are."""
    rows_out: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets of rows that go; of REMOVE also out of the quarantine."""
    sources_out: tuple[str, ...] = ()
    """Ids of sources all of whose rows go."""
    rows_in: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets of records that are read from the topic, else the quarantine, decoded and loaded; of FILL those
    of ``rows_out``, among which are the rows to fill, and nothing is read."""
    reverts: tuple[str, ...] = ()
    """Ids of the sources that count as reverted afterwards."""
    redoes: tuple[str, ...] = ()
    """Ids of the changes that reverted what comes back."""
    closes: tuple[str, ...] = ()
    """Those of ``sources_out`` of which rows may still come: the stream publishes none of them."""
    withheld: bool = False
    """Publish also records sent to be withheld; else only those of sources with rows in the table."""
    changes: int = 0
    """Number of published changes that it was planned with; with others it is not made."""
    newest: str | None = None
    """Id of the last of these, "" without any; None: 0.1.0 made the plan, without that id."""

    def outdated_by(self, published: Changes) -> str | None:
        """Why it is not made any more; None if the changes are those that it was planned with."""
        if published.count != self.changes:
            return f"{published.count} changes are published, and this one was planned after {self.changes}"
        if self.newest not in (None, published.last):
            # The catalog was restored since, and as many others were made.
            return f"{published.last} is the newest change, and this one was planned after {self.newest}"
        return None

    def unknown_among(self, published: Changes) -> str:
        """What is said if nothing tells whether it is published, with the fix: reconciliation passes both
        with it and without."""
        return (
            f"{published.count - self.changes} changes were published since {self.id} was planned, and "
            "nothing tells any more whether it is one of them, or was never made. Fix: if it is still "
            "wanted, trigger a new run with the same values: its plan is refused if nothing is left to do"
        )

    @property
    def reads_records(self) -> bool:
        """Whether what comes is decoded again; else it is what goes, with further fields in their columns."""
        return self.action is not Action.FILL

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to fill, which is no error."""
        return self.action is Action.FILL and not self.rows_out

    @property
    def quarantined_out(self) -> OffsetRanges:
        """Offsets of records that go out of the quarantine, too."""
        return self.rows_out if self.action is Action.REMOVE else OffsetRanges()

    def to_document(self) -> dict[str, Any]:
        return {
            "change_id": self.id,
            "action": self.action.value,
            "topic": self.topic,
            "rows_out": self.rows_out.to_json(),
            "sources_out": list(self.sources_out),
            "rows_in": self.rows_in.to_json(),
            "reverts": list(self.reverts),
            "redoes": list(self.redoes),
            "closes": list(self.closes),
            "withheld": self.withheld,
            "changes": self.changes,
            "newest": self.newest,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ChangePlan:
        return cls(
            document["change_id"],
            Action(document["action"]),
            document["topic"],
            OffsetRanges.from_json(document["rows_out"]),
            tuple(document["sources_out"]),
            OffsetRanges.from_json(document["rows_in"]),
            tuple(document["reverts"]),
            tuple(document["redoes"]),
            tuple(document["closes"]),
            document["withheld"],
            document["changes"],
            document.get("newest"),
        )
