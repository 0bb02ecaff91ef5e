"""How many snapshots and data files a table holds: whether who maintains it by itself does so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sluice.core.json_record import Document

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Catalogs keep snapshots for hours or days; a few of a quiet table may be older.
OLD, MANY_SNAPSHOTS = timedelta(days=30), 100
# Those of a batch are small, and of a compaction some hundred MB.
SMALL_BYTES, MANY_FILES = 1_000_000, 10_000


@dataclass(frozen=True)
class Held:
    """``snapshots``: number of those that are kept, the oldest of which was made at ``oldest``;
    ``data_files``, ``size`` (their bytes): of ``main``, by its newest snapshot; None if it does not say."""

    snapshots: int
    oldest: datetime | None
    data_files: int | None
    size: int | None

    @classmethod
    def of(cls, table: Table) -> Held:
        from sluice.clients.lake.commits import MAIN, summary_of

        kept, head = table.metadata.snapshots, table.snapshot_by_name(MAIN)
        said = summary_of(head) if head else {}
        oldest = min((one.timestamp_ms for one in kept), default=None)

        def total(name: str) -> int | None:
            return int(said[name]) if name in said else None

        return cls(
            len(kept),
            None if oldest is None else datetime.fromtimestamp(oldest / 1000, UTC),
            total("total-data-files"),
            total("total-files-size"),
        )

    def message(self) -> str:
        files = "an unknown number of" if self.data_files is None else self.data_files
        return f"{self.snapshots} snapshots are kept, main has {files} data files"

    def to_document(self) -> Document:
        return {"snapshots": self.snapshots, "data_files": self.data_files}

    def growth(self, now: datetime) -> list[str]:
        """Why the catalog seems not to expire snapshots, or not to compact: a line each."""
        found = []
        if self.oldest and self.snapshots > MANY_SNAPSHOTS and now - self.oldest > OLD:
            found.append(
                f"{self.snapshots} snapshots are kept, the oldest since {self.oldest:%Y-%m-%d}: the catalog "
                "may expire none, and then no file is ever deleted; look at its maintenance"
            )
        if self.data_files and self.size is not None:
            average = self.size // self.data_files
            if self.data_files > MANY_FILES and average < SMALL_BYTES:
                found.append(
                    f"main has {self.data_files} data files of {average} bytes on average: the catalog may "
                    "compact none, and queries slow down; look at its maintenance"
                )
        return found
