"""Object counts, budgets, what a rewrite may change.

What lies under a prefix of a versioned bucket, and whether it stays within its budget.

Is a commit that rewrote files one that changed nothing else? What is known of it, and what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrefixUsage:
    """Current objects, all versions of them, delete markers, and bytes of all versions."""

    objects: int = 0
    versions: int = 0
    delete_markers: int = 0
    bytes: int = 0

    def __add__(self, other: PrefixUsage) -> PrefixUsage:
        return self._each(other, 1)

    def __sub__(self, other: PrefixUsage) -> PrefixUsage:
        return self._each(other, -1)

    def _each(self, other: PrefixUsage, sign: int) -> PrefixUsage:
        return PrefixUsage(
            self.objects + sign * other.objects,
            self.versions + sign * other.versions,
            self.delete_markers + sign * other.delete_markers,
            self.bytes + sign * other.bytes,
        )


@dataclass(frozen=True)
class BudgetCheck:
    """One declared limit against what was measured; a value that could not be observed is None, so over."""

    name: str
    value: float | None
    limit: float

    @property
    def ok(self) -> bool:
        return self.value is not None and self.value <= self.limit

    def message(self) -> str:
        shown = "unknown" if self.value is None else f"{self.value:g}"
        return f"{self.name} is {shown}, the limit is {self.limit:g}"


REPLACE = "replace"


@dataclass(frozen=True)
class FileSetDigest:
    """What a set of data files holds. ``records``: rows that were read from them; ``digest``: of their
    coordinates, however they are ordered and spread: another row, or one more often, makes it another."""

    files: int
    records: int
    digest: int


@dataclass(frozen=True)
class Rewrite:
    """A snapshot of ``main`` that is no owner's. ``total_before`` and ``total_after``: rows of the whole
    table, as its parent's and its own summary say, None where they do not. ``has_deletes``: whether it knows
    files of deleted rows."""

    snapshot_id: int
    operation: str
    total_before: int | None
    total_after: int | None
    removed: FileSetDigest
    added: FileSetDigest
    has_deletes: bool = False

    def problems(self) -> list[str]:
        """Every reason why rows may have changed; empty where the same rows are there, in other files."""
        name = f"snapshot {self.snapshot_id}"
        if self.operation != REPLACE:
            return [
                f"{name} is no rewriting of files and no owner's batch: its operation is {self.operation}"
            ]
        found = []
        if self.has_deletes:
            found.append(f"{name}: there are files of deleted rows, which no stream writes")
        if self.total_before is None or self.total_after is None:
            found.append(f"{name}: its summary, or its parent's, does not say how many rows there are")
        elif self.total_before != self.total_after:
            found.append(f"{name}: the table had {self.total_before} rows and has {self.total_after}")
        if self.removed.records != self.added.records:
            found.append(
                f"{name}: {self.removed.records} rows were in the {self.removed.files} files that it took "
                f"away, and {self.added.records} are in the {self.added.files} that it brought"
            )
        elif self.removed.digest != self.added.digest:
            found.append(
                f"{name}: the {self.added.files} files that it brought hold other coordinates than the "
                f"{self.removed.files} that it took away"
            )
        return found
