"""Objects of a table, where its documents are, budgets, and changes that a compaction may make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sluice.core.tables.file_removal import size_problem

# A property of a table whose own folder is not for others' documents, as of a managed catalog: the address
# below which they are, set when it is created.
PLACE = "sluice.documents"


def documents_place(location: str, properties: Mapping[str, str]) -> str:
    """The address of the folder that has a table's documents: batch log, loaded rows, results of changes,
    schemas, offsets. ``location``: the table's folder; ``properties``: its own."""
    return properties.get(PLACE) or location


@dataclass(frozen=True)
class BudgetCheck:
    """A declared limit and the measured value."""

    name: str
    value: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    def message(self) -> str:
        return f"{self.name} is {self.value:g}, the limit is {self.limit:g}"


@dataclass(frozen=True)
class WrittenObject:
    """An object that a commit wrote; ``size`` in bytes if the metadata says it."""

    uri: str
    size: int | None = None


@dataclass(frozen=True)
class ObjectCheck:
    """An object as the bucket has it; ``problem`` is None if it is as it was written."""

    uri: str
    size: int
    delete_markers: int
    problem: str | None

    def message(self) -> str:
        return f"{self.uri} {self.problem or 'is as it was written'}"


def check_object(
    written: WrittenObject, versions: Sequence[tuple[str, int, bool]], delete_markers: int
) -> ObjectCheck:
    """Compare with the object's ``versions``: (ETag, size, whether it is the current one).

    A repeated put of the same content makes a version with the same ETag, which is no problem.
    """
    current = next((size for _, size, is_latest in versions if is_latest), None)
    problem = None
    if current is None:
        problem = "is missing"
    elif len({etag for etag, _, _ in versions}) > 1:
        problem = "was overwritten with other content"
    else:
        problem = size_problem(current, written.size)
    return ObjectCheck(written.uri, current or 0, delete_markers, problem)


def metadata_files(written_at_ms: Sequence[int], at_ms: int, until_ms: int | None) -> int | None:
    """Number of metadata files of the commit at ``at_ms``: those until the next commit (``until_ms``).

    None if the log (``written_at_ms``, oldest first) no longer reaches back to it.
    """
    if not written_at_ms or written_at_ms[0] > at_ms:
        return None
    return sum(at_ms <= written < (until_ms or written + 1) for written in written_at_ms)


REPLACE = "replace"
# In the summary of a snapshot that maintenance published: an id of its own.
REWRITE_ID = "rewrite-id"
# Writers keep these snapshots for so long: their check runs after the rewrite, or, of one that publishes when
# its run has ended, in the next run.
KEEP_REWRITES = timedelta(days=3)


@dataclass(frozen=True)
class FileSetDigest:
    """``records``: rows read from the ``files``; ``digest``: of their compared columns, in any order."""

    files: int
    records: int
    digest: int


@dataclass(frozen=True)
class Rewrite:
    """A snapshot of ``main`` that no writer of the stream made; ``id``: of its rewrite, "" of another
    program's. ``total_before``, ``total_after``: rows of the table by its parent's (None if that has expired)
    and its own summary (None if missing); ``has_deletes``: it has delete files. ``operation``: Iceberg's,
    of ``snapshot_id``; ``removed``, ``added``: the rows of its files; ``offsets``: what differs between the
    offsets of both, one by one, with the files; None if digests alone were compared. ``names``: digest of the
    names of all these files."""

    snapshot_id: int
    operation: str
    total_before: int | None
    total_after: int | None
    removed: FileSetDigest
    added: FileSetDigest
    has_deletes: bool = False
    id: str = ""
    offsets: tuple[str, ...] | None = None
    names: str = ""

    def problems(self) -> list[str]:
        """Every reason why rows may have changed."""
        name = f"snapshot {self.snapshot_id}"
        if self.operation != REPLACE:
            return [f"{name} is neither a compaction nor a batch: its operation is {self.operation}"]
        problems = []
        if self.has_deletes:
            problems.append(f"{name} has files of deleted rows, which no stream writes")
        if self.total_after is None and self.offsets is None:
            problems.append(f"{name}: its summary has no total number of rows")
        elif None not in (self.total_before, self.total_after) and self.total_before != self.total_after:
            problems.append(f"{name}: the table had {self.total_before} rows and has {self.total_after}")
        old, new = self.removed, self.added
        if self.offsets is not None:
            return [*problems, *(f"{name} {text}" for text in self.offsets)]
        if old.records != new.records:
            problems.append(
                f"{name} replaced {old.files} files with {old.records} rows by {new.files} files with "
                f"{new.records} rows"
            )
        elif old.digest != new.digest:
            problems.append(
                f"{name}: the rows in its {new.files} new files differ from those in the {old.files} old"
            )
        return problems
