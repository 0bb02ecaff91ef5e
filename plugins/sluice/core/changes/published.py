"""The changes of a stream's table that are published: rows replayed, replaced, reverted.

Each snapshot of the stream says so, as it says its end offsets: what is needed to tell whether a change is
published is on ``main``, however many snapshots came after it or have expired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.summary import CHANGES, NEWEST_CHANGES, REMOVED_OFFSETS, ROW_CHANGES

# Kind of the snapshot of a change; its other one, which exchanges the files, has its id only.
CHANGE = "change"
# Ids of changes that a snapshot names: a change that was killed after its publish is tried again soon.
KEEP_IDS = 8


@dataclass(frozen=True)
class Changes:
    """The published changes of a table, as its ``main`` says."""

    count: int = 0
    """Number of all of them."""
    newest: tuple[str, ...] = ()
    """Ids of the newest KEEP_IDS, the oldest first."""
    removed_address: str = ""
    """Address of the list of offsets that changes removed and no later one brought back; "" if none are."""
    of_rows: int = 0
    """How many moved rows of the table; the others are of records in quarantine alone."""
    rewrites: Rewrites = field(default=Rewrites(), compare=False)
    """The table's, if they were asked for: they name more changes, and are restored with it."""

    @property
    def last(self) -> str:
        """The id of the newest; "" without any."""
        return self.newest[-1] if self.newest else ""

    def names(self, change_id: str) -> bool:
        """Whether a change with this id was published, whatever it was planned after."""
        return change_id in self.newest or self.rewrites.names_change(change_id)

    def more(self, change_id: str, removed_address: str, *, moves_rows: bool = True) -> Changes:
        """After this change; ``removed_address``: the one after it."""
        newest = (*self.newest, change_id)[-KEEP_IDS:]
        return Changes(self.count + 1, newest, removed_address, self.of_rows + moves_rows)

    def after(self, place: int) -> str | None:
        """The id of the change that was published after ``place`` others; None if none was, "" if so many
        came later that it is not named any more."""
        if self.count <= place:
            return None
        back = self.count - place
        return self.newest[-back] if back <= len(self.newest) else ""

    def has(self, change_id: str, place: int) -> bool | None:
        """Whether the change that was planned after ``place`` others is published. None if so many came later
        that neither these nor the rewrites name it any more: if it is not published, another one is in its
        place, and it is never made."""
        # Also before its place: of a run whose plan the ledger lost, a new one has the same id.
        if change_id in self.newest:
            return True
        if self.after(place) != "":
            return False
        return True if self.rewrites.names_change(change_id) else None

    def properties(self) -> dict[str, str]:
        """For a snapshot's summary; none before the first change."""
        if not self.count:
            return {}
        return {
            CHANGES: str(self.count),
            NEWEST_CHANGES: ",".join(self.newest),
            REMOVED_OFFSETS: self.removed_address,
            ROW_CHANGES: str(self.of_rows),
        }


NO_CHANGES = Changes()


def changes_in(summary: Mapping[str, str]) -> Changes:
    """What the summary of a stream's snapshot says."""
    newest = summary.get(NEWEST_CHANGES, "")
    ids = tuple(newest.split(",")) if newest else ()
    of_rows = int(summary.get(ROW_CHANGES, 0))
    return Changes(int(summary.get(CHANGES, 0)), ids, summary.get(REMOVED_OFFSETS, ""), of_rows)
