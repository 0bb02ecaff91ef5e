"""The model's catalog: tables as immutable metadata, commits as Iceberg's, restores as of its database.

A commit is accepted only on top of the metadata that it was made from, as a catalog compares metadata files.
Where Iceberg refreshes and applies an operation again, its commit is one step here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pyspark.errors import PySparkException

from sluice.core.tables.batches import Snapshot
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused


class AnswerLost(PySparkException):
    """To a call that was made."""


class Record(NamedTuple):
    """A record of the topic, and as it is in a table. ``kind``: see :mod:`tests.protocol.kafka`; ``columns``:
    the version of the schema that it was decoded as."""

    topic_id: str
    partition: int
    offset: int
    kind: str
    reason: str | None = None
    stage: str = ""
    columns: int = 0

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class File(NamedTuple):
    path: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class Commit:
    """A snapshot: ``added`` and ``removed`` in it, and all ``files`` that a reader of it sees."""

    id: int
    parent: int | None
    summary: Mapping[str, str]
    added: tuple[File, ...]
    removed: tuple[File, ...]
    files: tuple[File, ...]


@dataclass(frozen=True, eq=False)
class Metadata:
    """A table's metadata file; two are equal only if they are the same file. ``schema``: the version that its
    columns follow, as text; empty for the declared one; ``offsets``: of its schemas' records, as text."""

    commits: Mapping[int, Commit] = field(default_factory=dict)
    refs: Mapping[str, int] = field(default_factory=dict)
    schema: str = ""
    offsets: str = ""

    def latest(self, ref: str) -> Commit | None:
        """The head of ``ref``; without such a branch that of main (``SnapshotUtil.latestSnapshot``)."""
        head = self.refs.get(ref, self.refs.get(MAIN))
        return None if head is None else self.commits[head]

    def ancestors(self, ref: str) -> Iterator[Snapshot]:
        head = self.refs.get(ref)
        while head is not None and (found := self.commits.get(head)):
            yield Snapshot(found.id, found.id, found.summary)
            head = found.parent

    def records(self, ref: str) -> list[Record]:
        head = self.refs.get(ref)
        return [] if head is None else [r for file in self.commits[head].files for r in file.records]


class Catalog:
    """``committed(table, what)`` is called after each change; ``moments``: all that a backup may hold."""

    def __init__(self, tables: Iterable[str], committed: Callable[[str, str], None]) -> None:
        self.tables = {name: Metadata() for name in tables}
        self.moments: list[Mapping[str, Metadata]] = [dict(self.tables)]
        # Also of timelines that a restore ended: what a suspended process may still know.
        self.files: dict[str, File] = {}
        self._committed = committed
        self._last_id = 0

    def swap(self, name: str, base: Metadata, new: Metadata, what: str) -> None:
        """Raises CommitRefused if the table's metadata is not ``base`` by now."""
        if self.tables[name] is not base:
            raise CommitRefused(f"{name}: stale table metadata")
        self._set({name: new}, name, what)

    def restore(self, tables: Mapping[str, Metadata], what: str) -> None:
        """The rows of these tables in the catalog's database as they were."""
        self._set(tables, ",".join(tables), what)

    def _set(self, tables: Mapping[str, Metadata], name: str, what: str) -> None:
        self.tables.update(tables)
        self.moments.append(dict(self.tables))
        self._committed(name, what)

    def new_file(self, records: Sequence[Record]) -> File:
        file = File(f"s3://lake/{len(self.files)}", tuple(records))
        self.files[file.path] = file
        return file

    def commit(
        self,
        name: str,
        branch: str,
        summary: Mapping[str, str],
        added: Sequence[File] = (),
        kept: Callable[[tuple[File, ...]], tuple[File, ...]] = lambda files: files,
        what: str = "append",
    ) -> int:
        """A snapshot on top of ``branch`` as it is by now. ``kept``: which of the parent's files it keeps."""
        base = self.tables[name]
        made = self.snapshot(base, branch, summary, added, kept)
        new = replace(base, commits={**base.commits, made.id: made}, refs={**base.refs, branch: made.id})
        self.swap(name, base, new, f"{what} {made.id} on {branch}")
        return made.id

    def snapshot(
        self,
        base: Metadata,
        branch: str,
        summary: Mapping[str, str],
        added: Sequence[File],
        kept: Callable[[tuple[File, ...]], tuple[File, ...]] = lambda files: files,
    ) -> Commit:
        """One on top of ``branch`` in ``base``, not committed."""
        parent = base.latest(branch)
        self._last_id += 1
        records = sum(len(file.records) for file in added)
        before = () if parent is None else parent.files
        files = kept(before) + tuple(added)
        return Commit(
            self._last_id,
            None if parent is None else parent.id,
            {**summary, **({"added-records": str(records)} if records else {})},
            tuple(file for file in files if file not in before),
            tuple(file for file in before if file not in files),
            files,
        )

    def repeat(self, name: str, branch: str, number: int) -> None:
        """As Iceberg does after a lost answer: it refreshes, finds its snapshot, and sets the branch to it,
        wherever the branch is by now. After a restore it does not find it."""
        base = self.tables[name]
        if number not in base.commits:
            raise AnswerLost("no answer")
        if base.refs.get(branch) != number:
            new = replace(base, refs={**base.refs, branch: number})
            self.swap(name, base, new, f"{branch} again at {number}")

    def expire(self, name: str, keep: int) -> None:
        """All snapshots but the newest ``keep`` of each branch, also those to which no ref points."""
        base = self.tables[name]
        kept = {s.id for ref in base.refs for s in list(base.ancestors(ref))[:keep]}
        commits = {number: commit for number, commit in base.commits.items() if number in kept}
        if len(commits) < len(base.commits):
            self.swap(name, base, replace(base, commits=commits), f"expire, keeping {keep}")
