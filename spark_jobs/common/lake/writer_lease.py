"""The writer lease of a table: one writer at a time can publish.

The writer writes to its branch ``w<epoch>`` and publishes by moving ``main`` forward. Acquiring the lease
puts a snapshot with a higher epoch on ``main``: no earlier branch descends from it, so none can be published.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import CATALOG
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable, Refused
from spark_jobs.common.spark.process import Fenced, first_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 5
# Publishes per cleanup, which takes two commits.
CLEANUP_INTERVAL = 50
# Failovers in a row without a publish, because maintenance moved main before it.
MAX_MOVES = 5

Position = TypeVar("Position")


class ConcurrentCommit(RuntimeError):
    """Maintenance moved ``main``; the writer acquires the lease again and continues from there."""

    code = ErrorCode.CONCURRENT_COMMIT


class WriterLease:
    """The writer of ``table`` from :meth:`_acquire` on; ``name`` is for messages. For one thread."""

    def __init__(self, spark: SparkSession, table: str, name: str) -> None:
        self.name = name
        self.table = IcebergTable(spark, table)
        self.epoch = 0
        self.branch = ""
        # Since the lease was acquired.
        self.has_published = False
        # The branch's head. No other writer moves it, so it is not read again with every commit.
        self.head = 0
        self._until_cleanup = CLEANUP_INTERVAL

    def _acquire(
        self,
        read: Callable[[], None],
        summary: Callable[[str], Mapping[str, str]],
        epoch: int | None = None,
    ) -> None:
        """Acquire the lease with the next epoch, on a branch that begins at ``main``.

        ``read`` reads the state on ``main``, in every attempt; ``summary`` returns the properties of a
        snapshot of a kind (init, epoch-start). Of two concurrent writers the catalog refuses one, which tries
        again with a higher epoch. ``epoch``: from another table, instead of the next one. Raises Fenced after
        MAX_ATTEMPTS refusals, and if ``main`` has a higher epoch.
        """
        self.has_published = False
        for _ in range(MAX_ATTEMPTS):
            self.table.refresh()
            read()
            branches = self.table.branches()
            self.epoch = epoch or 1 + max([self.published_epoch(), *map(_epoch, branches)])
            self._check_epoch()
            self.branch = f"w{self.epoch}"
            try:
                if self.table.head(MAIN) is None:
                    self.table.commit_empty(MAIN, summary("init"))
                head = self.table.head(MAIN)
                assert head is not None
                if epoch is not None and self.branch in branches:
                    self.table.reset_branch(self.branch, head)
                else:
                    self.table.create_branch(self.branch, head)
                self.table.commit_empty(self.branch, summary("epoch-start"))
                self.table.fast_forward(MAIN, self.branch)
                self.head = self._branch_head()
            except Refused as refusal:
                log.info("lease refused writer=%s epoch=%d: %s", self.name, self.epoch, refusal)
                continue
            log.info("lease acquired writer=%s epoch=%d branch=%s", self.name, self.epoch, self.branch)
            return
        raise Fenced(f"{self.name}: lease refused {MAX_ATTEMPTS} times; another writer is starting")

    def write_branch(self, frame: DataFrame, summary: Mapping[str, str], *, overwrite: bool = False) -> None:
        """Commit rows to the branch; ``overwrite`` replaces the partitions that they are in."""
        writer = frame.writeTo(f"{CATALOG}.{self.table.name}.branch_{self.branch}")
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        if overwrite:
            writer.overwritePartitions()
        else:
            writer.append()
        self.table.refresh()
        self.head = self._branch_head()

    def _publish(self) -> None:
        """Move ``main`` to the branch. Raises Fenced, or ConcurrentCommit if maintenance moved ``main``.

        The catalog also refuses if another writer has just created its branch; this is tried again.
        """
        base = self.table.head(MAIN)
        for attempt in range(MAX_ATTEMPTS):
            try:
                self.table.fast_forward(MAIN, self.branch)
                break
            except Refused as refusal:
                try:
                    self.raise_if_fenced()
                except Fenced as fenced:
                    raise fenced from refusal
                if self.table.head(MAIN) != base or attempt == MAX_ATTEMPTS - 1:
                    raise ConcurrentCommit(
                        f"{self.table.name}: main was moved by a commit of no writer ({refusal})"
                    ) from refusal
        self.has_published = True

    def raise_if_fenced(self) -> None:
        """Raise Fenced if a later writer holds the lease, Java's error if the table cannot be read."""
        self.table.refresh()
        self._check_epoch()

    def _check_epoch(self) -> None:
        published = self.published_epoch()
        if published > self.epoch:
            raise Fenced(f"{self.name}: fenced: writer epoch {self.epoch}, newer epoch {published}")

    def _cleanup(self, keep: int) -> None:
        """Remove earlier writers' branches, which keep snapshots, and expire all but the newest ``keep``
        snapshots; once in CLEANUP_INTERVAL calls."""
        self._until_cleanup -= 1
        if self._until_cleanup > 0:
            return
        self._until_cleanup = CLEANUP_INTERVAL
        try:
            self.table.remove_branches([n for n in self.table.branches() if n not in (MAIN, self.branch)])
            self.table.expire(keep)
        except Refused as refusal:
            # Another writer may be acquiring the lease; then the next commit raises Fenced.
            log.info("cleanup refused table=%s: %s", self.table.name, refusal)

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

    def published_epoch(self) -> int:
        """The newest epoch on ``main``, 0 without one."""
        summaries = (summary for _, summary in self.table.ancestors(MAIN))
        return next((int(s["sluice.epoch"]) for s in summaries if "sluice.epoch" in s), 0)

    def _branch_head(self) -> int:
        head = self.table.head(self.branch)
        assert head is not None, f"branch {self.branch} of {self.table.name} is missing"
        return head


class LeasedWriter(WriterLease, ABC, Generic[Position]):
    """A writer that :func:`run_with_lease` runs."""

    @abstractmethod
    def acquire(self) -> Position:
        """Acquire the lease, also again after ConcurrentCommit; return the position to continue from."""


def run_with_lease(writer: LeasedWriter[Position], work: Callable[[Position], Any]) -> None:
    """Acquire the lease and ``work`` until that ends; acquire it again if maintenance moved ``main``.

    Raises the errors of ``work``, and ConcurrentCommit after MAX_MOVES failovers in a row without a publish.
    """
    moves = 0
    while True:
        position = writer.acquire()
        try:
            work(position)
            return
        except ConcurrentCommit as error:
            moves = 1 if writer.has_published else moves + 1
            if moves > MAX_MOVES:
                raise
            log.warning("acquiring the lease again: %s", error)


def _epoch(branch: str) -> int:
    match = re.fullmatch(r"w(\d+)", branch)
    return int(match[1]) if match else 0
