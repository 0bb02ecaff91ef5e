"""One writer per table: how it becomes the owner, and how what it wrote becomes visible.

The owner writes to its branch ``w<epoch>`` and publishes by moving ``main`` forward. Taking over puts a
snapshot with a higher epoch on ``main``: from then on no earlier owner's branch descends from it, so whatever
an earlier owner still writes, it cannot publish.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluice.model.error_codes import ErrorCode
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable, Refused
from spark_jobs.common.spark.process import Fenced, first_line

log = logging.getLogger(__name__)

TRIES = 5
# Two commits, so not with every batch.
TIDY_EVERY = 50
# Take-overs in a row that published nothing, because maintenance moved main before they could.
MAX_MOVES = 5

Position = TypeVar("Position", covariant=True)


class ConcurrentCommit(RuntimeError):
    """``main`` was moved by somebody who owns nothing (maintenance); a new take-over goes on from there."""

    code = ErrorCode.CONCURRENT_COMMIT


class LeaseHolder(Protocol[Position]):
    """What :func:`run_with_lease` needs of an owner."""

    @property
    def has_published(self) -> bool: ...

    def acquire(self) -> Position: ...


class WriterLease:
    """Owns ``table`` from :meth:`_acquire` on, for whoever ``name`` is in messages. Not for several threads
    at once."""

    def __init__(self, spark: SparkSession, table: str, name: str) -> None:
        self.name = name
        self.table = IcebergTable(spark, table)
        # Of this ownership: after the take-over they are its own.
        self.epoch = 0
        self.branch = ""
        self.has_published = False
        # The branch's head: nobody else moves it, so it is remembered instead of read with every commit.
        self.head = 0
        self._until_tidy = TIDY_EVERY

    def _acquire(
        self,
        read: Callable[[], None],
        summary: Callable[[str], Mapping[str, str]],
        epoch: int | None = None,
    ) -> None:
        """Become the owner, with the next epoch and its branch, from where ``main`` is then.

        ``read`` looks at ``main``, with every try anew; ``summary`` says what a snapshot of a kind
        (``init_snapshot``, ``epoch_start``) says. Of two that take over at once the catalog lets one through,
        the other tries again behind it. ``epoch``: in place of the next one, where another table has given it
        out. Raises Fenced after TRIES refusals, and where ``main`` has a higher epoch.
        """
        self.has_published = False
        for _ in range(TRIES):
            self.table.refresh()
            read()
            branches = self.table.branches()
            self.epoch = epoch or 1 + max([self.published_epoch(), *map(_epoch, branches)])
            self._refuse_if_later(self.published_epoch())
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
                log.info("take-over with epoch %d was refused (%s); trying behind it", self.epoch, refusal)
                continue
            log.info("owner of %s with epoch %d, branch %s", self.name, self.epoch, self.branch)
            return
        raise Fenced(f"{self.name}: {TRIES} take-overs were refused; another owner is starting")

    def _publish(self) -> None:
        """Move ``main`` to the branch. Raises Fenced, or ConcurrentCommit where maintenance moved it.

        The catalog also refuses what raced with a commit to another branch (somebody takes over, and has not
        yet): that is tried again.
        """
        base = self.table.head(MAIN)
        for attempt in range(TRIES):
            try:
                self.table.fast_forward(MAIN, self.branch)
                break
            except Refused as refusal:
                self.table.refresh()
                owner = self.published_epoch()
                if owner > self.epoch:
                    raise Fenced(
                        f"{self.name}: owner {self.epoch} may not publish: owner {owner} has "
                        f"taken over ({refusal})"
                    ) from refusal
                if self.table.head(MAIN) != base or attempt == TRIES - 1:
                    raise ConcurrentCommit(
                        f"{self.table.name}: main was moved by a commit that is no owner's ({refusal})"
                    ) from refusal
        self.has_published = True

    def raise_if_fenced(self) -> None:
        """Raises Fenced when a later owner has taken over, and Java's error where that cannot be seen."""
        self.table.refresh()
        self._refuse_if_later(self.published_epoch())

    def _refuse_if_later(self, owner: int) -> None:
        if owner > self.epoch:
            raise Fenced(f"{self.name}: owner {self.epoch} is over: owner {owner} has taken over")

    def _cleanup(self, keep: int) -> None:
        """Once in TIDY_EVERY calls: remove earlier owners' branches, which would keep snapshots, and forget
        all but the newest ``keep`` snapshots."""
        self._until_tidy -= 1
        if self._until_tidy > 0:
            return
        self._until_tidy = TIDY_EVERY
        try:
            self.table.remove_branches([n for n in self.table.branches() if n not in (MAIN, self.branch)])
            self.table.expire(keep)
        except Refused as refusal:
            # Somebody takes over just now; if so, the next commit says it.
            log.info("tidying up %s was refused (%s); next time", self.table.name, refusal)

    def raise_fenced_from(self, failure: Exception) -> None:
        """Raises Fenced where there is a later owner: it removes what its predecessor works with, so that
        one may fail for want of that before it meets the later owner in the table."""
        try:
            self.raise_if_fenced()
        except (Py4JJavaError, PySparkException) as unseen:
            log.warning("whether there is a later owner could not be seen: %s", first_line(unseen))
        except Fenced as notice:
            raise notice from failure

    def published_epoch(self) -> int:
        """The newest owner's, as ``main`` says; 0 where there was none."""
        summaries = (summary for _, summary in self.table.ancestors(MAIN))
        return next((int(s["sluice.epoch"]) for s in summaries if "sluice.epoch" in s), 0)

    def _branch_head(self) -> int:
        head = self.table.head(self.branch)
        assert head is not None, f"branch {self.branch} of {self.table.name} is gone"
        return head


def run_with_lease(owner: LeaseHolder[Position], work: Callable[[Position], None]) -> None:
    """Take over and ``work`` from there until that ends well; where maintenance moved ``main``, take over
    again.

    Raises what ``work`` raises, and ConcurrentCommit after MOST_MOVES take-overs in a row that published
    nothing.
    """
    moves = 0
    while True:
        position = owner.acquire()
        try:
            return work(position)
        except ConcurrentCommit as notice:
            moves = 1 if owner.has_published else moves + 1
            if moves > MAX_MOVES:
                raise
            log.warning("%s; taking over again", notice)


def _epoch(branch: str) -> int:
    match = re.fullmatch(r"w(\d+)", branch)
    return int(match[1]) if match else 0
