"""Rows of a source object against what became of them: published once, or quarantined, or the load is red."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from sluice.model.verification.ranges import Ranges


@dataclass(frozen=True)
class RowProof:
    """One object's rows (0-based numbers). ``missing``: nowhere; ``twice``: more than once, or in both."""

    source_rows: int
    published: int
    quarantined: int
    missing: Ranges
    twice: Ranges
    unknown: Ranges

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.twice or self.unknown)

    @property
    def lacking(self) -> int:
        """How many rows are nowhere."""
        return self.missing.count

    @property
    def repeated(self) -> int:
        """How many rows are there more than once, or in both."""
        return self.twice.count

    def sentence(self) -> str:
        """One line for a task state."""
        if self.is_exact:
            kept = f"{self.published} published + {self.quarantined} quarantined"
            return f"exact: {self.source_rows} rows = {kept}"
        parts = [
            f"{bad.count} {name} (rows {str(bad)[:160]})"
            for name, bad in (
                ("missing", self.missing),
                ("more than once", self.twice),
                ("that the object does not have", self.unknown),
            )
            if bad
        ]
        return f"not exact: {', '.join(parts)} of {self.source_rows} rows"


def reconcile(source_rows: int, published: Iterable[int], quarantined: Iterable[int]) -> RowProof:
    """Hold an object's ``source_rows`` data rows against the row numbers found in table and quarantine.

    A row number in ``published`` counts as often as it is given; quarantine entries of one row count once
    (a producer that was killed between two attempts may name a row again, which loses nothing).
    """
    rows = sorted(published)
    aside = Ranges.of_values(quarantined)
    seen = Ranges.of_values(rows)
    repeated = Ranges.of_values(b for a, b in pairwise(rows) if a == b)
    every = Ranges.of([(0, source_rows)])
    return RowProof(
        source_rows=source_rows,
        published=len(rows),
        quarantined=aside.count,
        missing=every.minus(seen).minus(aside),
        twice=repeated.union(seen.intersect(aside)),
        unknown=seen.union(aside).minus(every),
    )
