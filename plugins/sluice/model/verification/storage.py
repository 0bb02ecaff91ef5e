"""Object counts, budgets, and changes that a compaction may make."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrefixUsage:
    """Current objects, all their versions, delete markers, and bytes of all versions."""

    objects: int = 0
    versions: int = 0
    delete_markers: int = 0
    bytes: int = 0

    def __sub__(self, other: PrefixUsage) -> PrefixUsage:
        return PrefixUsage(
            self.objects - other.objects,
            self.versions - other.versions,
            self.delete_markers - other.delete_markers,
            self.bytes - other.bytes,
        )


@dataclass(frozen=True)
class BudgetCheck:
    """A declared limit and the measured value; None (unknown) is over the limit."""

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
    """``records``: rows read from the ``files``; ``digest``: of their offsets, independent of their order."""

    files: int
    records: int
    digest: int


@dataclass(frozen=True)
class Rewrite:
    """A snapshot of ``main`` that no writer of the stream made. ``total_before``, ``total_after``: rows of
    the table by its parent's and its own summary, None if missing; ``has_deletes``: it has delete files."""

    snapshot_id: int
    operation: str
    total_before: int | None
    total_after: int | None
    removed: FileSetDigest
    added: FileSetDigest
    has_deletes: bool = False

    def problems(self) -> list[str]:
        """Every reason why rows may have changed."""
        name = f"snapshot {self.snapshot_id}"
        if self.operation != REPLACE:
            return [f"{name} is neither a compaction nor a batch: its operation is {self.operation}"]
        problems = []
        if self.has_deletes:
            problems.append(f"{name} has files of deleted rows, which no stream writes")
        if self.total_before is None or self.total_after is None:
            problems.append(f"{name}: its summary or its parent's has no total number of rows")
        elif self.total_before != self.total_after:
            problems.append(f"{name}: the table had {self.total_before} rows and has {self.total_after}")
        old, new = self.removed, self.added
        if old.records != new.records:
            problems.append(
                f"{name} replaced {old.files} files with {old.records} rows by {new.files} files with "
                f"{new.records} rows"
            )
        elif old.digest != new.digest:
            problems.append(
                f"{name}: the offsets in its {new.files} new files differ from those in the {old.files} old"
            )
        return problems
