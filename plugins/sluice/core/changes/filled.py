"""What action fill_columns did: which further fields went into columns, and which stay, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# Reasons and fields that a message has; the document of the change has all.
_SHOWN = 20


@dataclass(frozen=True)
class KeptValues:
    """Values that stay in the column of further fields though the table has a column for them."""

    path: str
    """Path of the field, by its writer's names: ``lines[].price``; empty for all of a row."""
    reason: str
    """Why they stay."""
    count: int
    """Number of rows with one."""
    partition: int
    """Kafka partition of the first of these rows."""
    offset: int
    """Its offset there."""

    def __str__(self) -> str:
        return (
            f"{self.path or 'all'}: {self.reason} ({self.count} rows, the first at partition "
            f"{self.partition} offset {self.offset})"
        )


@dataclass(frozen=True)
class FilledFields:
    """``rows``: number of rows that were filled; ``fields``: path -> number of rows whose value went into its
    column; ``columns``: those that changed; ``kept``: what stays."""

    rows: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    columns: Sequence[str] = ()
    kept: Sequence[KeptValues] = ()

    def to_document(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "fields": dict(sorted(self.fields.items())),
            "columns": sorted(self.columns),
            "kept": [[one.path, one.reason, one.count, one.partition, one.offset] for one in self.kept],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> FilledFields:
        return cls(
            document["rows"],
            document["fields"],
            tuple(document["columns"]),
            tuple(KeptValues(*one) for one in document["kept"]),
        )

    def message(self) -> str:
        named = ", ".join(f"{path} {count}" for path, count in [*sorted(self.fields.items())][:_SHOWN])
        of = f" ({named})" if named else ""
        stays = "; ".join(map(str, self.kept[:_SHOWN]))
        more = len(self.kept) - _SHOWN
        rest = f"; and {more} more in its document" if more > 0 else ""
        return f"{self.rows} rows filled{of}; " + (f"stays: {stays}{rest}" if stays else "nothing stays")
