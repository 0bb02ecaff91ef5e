"""What lies under a prefix of a versioned bucket, and whether it stays within its budget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PrefixCount:
    """Current objects, all versions of them, delete markers, and bytes of all versions."""

    objects: int = 0
    versions: int = 0
    delete_markers: int = 0
    bytes: int = 0

    def __add__(self, other: PrefixCount) -> PrefixCount:
        return self._each(other, 1)

    def __sub__(self, other: PrefixCount) -> PrefixCount:
        return self._each(other, -1)

    def _each(self, other: PrefixCount, sign: int) -> PrefixCount:
        return PrefixCount(
            self.objects + sign * other.objects,
            self.versions + sign * other.versions,
            self.delete_markers + sign * other.delete_markers,
            self.bytes + sign * other.bytes,
        )


@dataclass(frozen=True)
class BudgetLine:
    """One declared limit against what was measured; a value that could not be observed is None, so over."""

    name: str
    value: float | None
    limit: float

    @property
    def ok(self) -> bool:
        return self.value is not None and self.value <= self.limit

    def sentence(self) -> str:
        shown = "unobservable" if self.value is None else f"{self.value:g}"
        return f"{self.name} is {shown}, the limit is {self.limit:g}"
