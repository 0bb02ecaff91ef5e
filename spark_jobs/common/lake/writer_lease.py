"""The writer lease of a table: one writer at a time can publish.

The writer stages a snapshot on top of the one that it published last: it is written, and in no metadata.
Spark commits by itself, so its rows are staged by a commit to the writer's branch ``w<epoch>_<random>``.
The writer publishes by moving ``main`` and the branch to what is staged, in one atomic step. If either is
not where it left it, nothing is published: a later writer has the lease, maintenance moved ``main``, or the
catalog was restored. Acquiring the lease moves ``main`` to a snapshot with a higher epoch in the same way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sluice.core.error_codes import ErrorCode
from sluice.core.messages import summarize
from sluice.core.tables.summary import EPOCH, WRITER
from sluice.core.tables.writers import epoch_of, next_epoch, writer_name
from spark_jobs.common.lake.clock import now_ms, outdated_by
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.data_files.schema import column_ids, other_columns
from spark_jobs.common.lake.followed.documents import followed_digest
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable, StagedSnapshot
from spark_jobs.common.lake.write import Write, write_rows
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.spark.failures import Fenced, check_epoch, first_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
# Publishes between two of which snapshots expire, in the publish's own commit.
EXPIRY_INTERVAL = 10
# Failovers in a row without a publish, because maintenance moved main before it.
MAX_MOVES = 5
QUIET_SECONDS = 60.0

# Iceberg's ids are positive.
NO_SNAPSHOT = -1


class ConcurrentCommit(RuntimeError):
    """``main`` was moved by no writer; this one acquires the lease again and continues from there."""

    code = ErrorCode.CONCURRENT_COMMIT


def check_age(table: str, began_ms: int) -> None:
    """Raise ConcurrentCommit if what was written since then may not be published: its files may be gone."""
    if age := outdated_by(began_ms):
        raise ConcurrentCommit(f"{table}: written {age} ago; maintenance may have removed files")


class WriterLease:
    """The writer of ``table`` from :meth:`_acquire` on; ``name`` is for messages. For one thread."""

    def __init__(self, spark: SparkSession, table: str, name: str) -> None:
        self.name = name
        self.table = IcebergTable(spark, table)
        self.epoch = 0
        # The next epoch is not below it.
        self.at_least = 1
        # Also the writer's name in its snapshots: a catalog that was restored may issue an epoch again.
        self.branch = ""
        # Since the lease was acquired.
        self.has_published = False
        # The snapshot that this writer published last, which is the head of ``main``.
        self.published = NO_SNAPSHOT
        # The head of the branch: ``published``, or on top of it and not yet verified.
        self.head = NO_SNAPSHOT
        # On top of ``published``, in place of a commit to the branch; and how it is staged again.
        self._staged: StagedSnapshot | None = None
        self._stage: Callable[[], StagedSnapshot] | None = None
        # When the newest write to the branch began, in ms since 1970.
        self._began = 0
        self._until_expiry = EXPIRY_INTERVAL
        # The digest of the schema that what is written has the columns of, and these by their ids; None if
        # it is written with none of its own.
        self._schema = ""
        self._columns: Mapping[int, str] | None = None

    def _acquire(
        self,
        read: Callable[[], None],
        summary: Callable[[], Mapping[str, str]],
        epoch: int | None = None,
    ) -> None:
        """Acquire the lease with the next epoch, on a branch that begins at ``main``; remove all others.

        ``read`` reads the state on ``main``, in every attempt; ``summary`` returns the properties of the
        epoch-start snapshot. If two writers are concurrent, the catalog refuses one, which tries
        again with a higher epoch. ``epoch``: from another table, instead of the next one. Raises Fenced after
        MAX_ATTEMPTS refusals, and if ``main`` has this epoch or a higher one.
        """
        self.has_published = False
        for _ in range(MAX_ATTEMPTS):
            self.table.refresh()
            read()
            main, branches = self.table.head(MAIN), [name for name in self.table.branches() if epoch_of(name)]
            published, _writer = self.published_by()
            self.epoch = epoch or next_epoch(published, branches, self.at_least)
            self.branch = writer_name(self.epoch)
            check_epoch(self.name, self.epoch, published, self.table.name, opening=True)
            try:
                start = self.table.stage(self._signed(summary()))
                refs = dict.fromkeys(branches) | {MAIN: start, self.branch: start}
                self.table.change_refs({MAIN: main}, refs)
            except CommitRefused as refusal:
                log.info("lease refused writer=%s epoch=%d: %s", self.name, self.epoch, refusal)
                continue
            self.published = self.head = start.id
            self._staged = None
            log.info("lease acquired writer=%s epoch=%d branch=%s", self.name, self.epoch, self.branch)
            return
        raise Fenced(f"{self.name}: lease refused {MAX_ATTEMPTS} times; another writer is starting")

    def write_branch(self, frame: DataFrame, summary: Mapping[str, str], how: Write = Write.APPEND) -> None:
        """Commit rows to the branch.

        Rows that are there and not published are dropped. Raises Fenced or ConcurrentCommit if the branch is
        not where this writer left it, ClockSetBack.
        """
        self._drop_unpublished()
        self._began = now_ms()
        try:
            write_rows(self.table, self.branch, frame, self._signed(summary), how)
        except CommitRefused as refusal:
            self._raise_moved(refusal)
        except (Py4JJavaError, PySparkException) as error:
            self.table.refresh()
            if self.table.head(self.branch) != self.head:
                self._raise_moved(error)
            raise
        self._follow_branch()

    def stage_files(
        self, files: Sequence[DataFile], summary: Mapping[str, str], began: int
    ) -> Sequence[AddedFile]:
        """Stage a snapshot that adds ``files``, which were begun after ``began`` (ms since 1970); return what
        Iceberg says of them. What was written before and is not published is dropped. Raises Fenced or
        ConcurrentCommit if ``main`` is not where this writer left it, SnapshotDiffers."""
        self._drop_unpublished()
        self._began = began
        signed = self._signed(summary)
        self._stage = lambda: self.table.stage(signed, files=files)
        return self._stage_again().added

    def commit_staged(self) -> None:
        """Commit what is staged to the branch, before something in another table follows from it: a catalog
        that is restored meanwhile lacks it then, also if its ``main`` is where it was. Raises Fenced or
        ConcurrentCommit."""
        assert self._staged is not None
        staged, expected = self._staged, {MAIN: self.published, self.branch: self.head}
        for attempt in range(MAX_ATTEMPTS):
            try:
                self.table.change_refs(expected, {self.branch: staged})
                break
            except CommitRefused as refusal:
                self._check_not_moved(expected, attempt, refusal)
                staged = self._stage_again()
        self.head, self._staged = staged.id, None

    def written_schema(self) -> str:
        """The digest of the schema that the table follows, which what is staged from now on has the columns
        of; empty for the declared one."""
        self._schema = followed_digest(self.table.properties())
        self._columns = column_ids(self.table.schema())
        return self._schema

    def change_schema(
        self, before: str, columns: pa.Schema, properties: Mapping[str, str], ids: Sequence[int] = ()
    ) -> None:
        """Commit columns and properties, as ``IcebergTable.change_schema`` has them, unless another writer
        has the lease. What was written before and is not published is dropped. Raises Fenced or
        ConcurrentCommit, also if the table follows another schema than ``before``."""
        self._drop_unpublished()
        expected = {MAIN: self.published, self.branch: self.head}
        for attempt in range(MAX_ATTEMPTS):
            try:
                self.table.change_schema(expected, before, columns, properties, ids)
                break
            except CommitRefused as refusal:
                self._check_not_moved(expected, attempt, refusal)
                if (found := followed_digest(self.table.properties())) != before:
                    raise ConcurrentCommit(
                        f"{self.table.name}: follows schema {found!r}, and this writer knew {before!r}: the "
                        "catalog was restored"
                    ) from refusal
        self.table.refresh()

    def stage_summary(self, summary: Mapping[str, str]) -> None:
        """As :meth:`stage_files`, of none."""
        self.stage_files([], summary, now_ms())

    def _stage_again(self) -> StagedSnapshot:
        assert self._stage is not None
        # Also in the middle of a publish: files that no branch names are removed at some time.
        check_age(self.table.name, self._began)
        staged = self._stage()
        if staged.parent != self.published:
            self._raise_moved(None)
        self._check_schema()
        self._staged = staged
        return staged

    def _check_schema(self) -> None:
        """Raise ConcurrentCommit if the table has other columns than what was written: readers would not see
        those that it lacks."""
        if (found := followed_digest(self.table.properties())) != self._schema:
            raise ConcurrentCommit(
                f"{self.table.name}: follows schema {found!r}, and what was written has {self._schema!r}: "
                "the catalog was restored"
            )
        if self._columns is None:
            return
        # A table that was made again from the same versions in other batches has other ids.
        if other := other_columns(self._columns, column_ids(self.table.schema())):
            raise ConcurrentCommit(
                f"{self.table.name}: has not the columns of what was written: {summarize(other)}: the "
                "catalog was restored"
            )

    def _check_not_moved(self, expected: Mapping[str, int], attempt: int, refusal: CommitRefused) -> None:
        """After a refused commit: raise Fenced or ConcurrentCommit unless it may be tried again."""
        # Another writer's attempt to acquire the lease is a commit too, and moves neither.
        self.table.refresh()
        found = {name: self.table.head(name) for name in expected}
        if found != expected or attempt == MAX_ATTEMPTS - 1:
            self._raise_moved(refusal)

    def _drop_unpublished(self) -> None:
        self._staged = None
        if self.head == self.published:
            return
        try:
            self.table.change_refs({self.branch: self.head}, {self.branch: self.published})
        except CommitRefused as refusal:
            self._raise_moved(refusal)
        self.head = self.published

    def _follow_branch(self) -> None:
        # Iceberg makes a branch that is missing, from main as it is by now.
        self.table.refresh()
        head = self.table.head(self.branch)
        if head is None or self.table.parent(head) != self.published:
            self._raise_moved(None)
        self.head = head

    def _publish(
        self,
        keep: int,
        needed_from: Callable[[], int] = now_ms,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Move ``main`` to what is staged, or to the head of the branch, and set ``properties`` of the table.

        Every EXPIRY_INTERVAL times, snapshots behind the newest ``keep`` expire in the same commit, but none
        from ``needed_from`` on (ms since 1970). Raises Fenced if another writer has the lease,
        ConcurrentCommit if maintenance moved ``main``, the catalog was restored, or this writer was suspended
        for so long that its files may be gone, ClockSetBack; then ``main`` is unchanged.
        """
        check_age(self.table.name, self._began)
        expected = {MAIN: self.published, self.branch: self.head}
        self._until_expiry -= 1
        expired = [] if self._until_expiry > 0 else self.table.expirable(keep, needed_from())
        for attempt in range(MAX_ATTEMPTS):
            try:
                target = self._staged or self.head
                moved = {MAIN: target, self.branch: target}
                self.table.change_refs(expected, moved, expired, properties)
                break
            except CommitRefused as refusal:
                self._check_not_moved(expected, attempt, refusal)
                if self._staged:
                    self._stage_again()
        self.published = self.head = self._staged.id if self._staged else self.head
        self._staged = None
        self.has_published = True
        if self._until_expiry <= 0:
            self._until_expiry = EXPIRY_INTERVAL

    def check_lease(self) -> None:
        """Raise Fenced if another writer has the lease, ConcurrentCommit if ``main`` was moved otherwise,
        Java's error if the table cannot be read."""
        self.table.refresh()
        if self.table.head(MAIN) != self.published:
            self._raise_moved(None)

    def raise_if_fenced(self) -> None:
        """Raise Fenced if another writer has the lease, Java's error if the table cannot be read."""
        self.table.refresh()
        epoch, writer = self.published_by()
        if writer != self.branch and epoch >= self.epoch:
            raise self._fenced(epoch)

    def _raise_moved(self, cause: Exception | None) -> NoReturn:
        try:
            self.raise_if_fenced()
        except Fenced as fenced:
            raise fenced from cause
        raise ConcurrentCommit(
            f"{self.table.name}: main is {self.table.head(MAIN)} and {self.branch} is "
            f"{self.table.head(self.branch)}; this writer left them at {self.published} and {self.head}: "
            "maintenance moved main, or the catalog was restored"
        ) from cause

    def _fenced(self, published: int) -> Fenced:
        return Fenced(f"{self.name}: fenced: writer epoch {self.epoch}, newer epoch {published}", published)

    def _signed(self, summary: Mapping[str, str]) -> dict[str, str]:
        return {**summary, WRITER: self.branch}

    def raise_failure(self, errors: Sequence[Exception], *, stopping: bool) -> None:
        """Raise the error that ended the queries: Fenced first, then ConcurrentCommit (none if ``stopping``),
        then the first other one, or Fenced from it."""
        errors = [error for error in errors if not (stopping and isinstance(error, ConcurrentCommit))]
        for kind in (Fenced, ConcurrentCommit):
            for error in errors:
                if isinstance(error, kind):
                    raise error
        if errors:
            self.raise_fenced_from(errors[0])
            raise errors[0]

    def raise_fenced_from(self, failure: Exception) -> None:
        """Raise Fenced if there is a later writer: it removes its predecessor's checkpoint, which may fail by
        that before it reads the table."""
        try:
            self.raise_if_fenced()
        except (Py4JJavaError, PySparkException) as error:
            log.warning("writer epoch not read table=%s: %s", self.table.name, first_line(error))
        except Fenced as fenced:
            raise fenced from failure

    def published_by(self) -> tuple[int, str]:
        """The newest epoch on ``main`` and its writer's branch; 0 and "" without one."""
        summaries = (snapshot.summary for snapshot in self.table.line())
        newest = next((s for s in summaries if EPOCH in s), {})
        return int(newest.get(EPOCH, 0)), newest.get(WRITER, "")


def run_with_lease(writer: WriterLease, work: Callable[[], None]) -> None:
    """Run ``work``, which acquires the lease first, until that ends; again if maintenance moved ``main``.

    Raises the errors of ``work``, and ConcurrentCommit after MAX_MOVES failovers in a row without a publish,
    each within QUIET_SECONDS: an idle stream may be maintained and changed as often as wanted.
    """
    moves = 0
    while True:
        began = time.monotonic()
        try:
            work()
            return
        except ConcurrentCommit as error:
            is_quiet = time.monotonic() - began > QUIET_SECONDS
            moves = 1 if writer.has_published or is_quiet else moves + 1
            if moves > MAX_MOVES:
                raise
            log.warning("acquiring the lease again: %s", error)
