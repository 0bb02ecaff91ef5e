"""A rewrite of data files by Iceberg's own action, staged and then published.

If another commit comes first, the publish is made again on top of that. It makes two snapshots: one exchanges
the files, the other rewrites the manifests that list removed files, which Iceberg's streaming source would
read (see :meth:`IcebergTable.streamable_files`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.core.tables.storage import REWRITE_ID
from spark_jobs.common.lake.clock import committing
from spark_jobs.common.lake.expected_refs import CommitRefused
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable, with_properties
from spark_jobs.common.maintenance.staged_files import CommitConflict, StagedFiles

log = logging.getLogger(__name__)

# Files of one partition that are worth a rewrite: a closed date gets no more files; other partitions do, and
# what is small after a rewrite is read again by the next one. Sizes are Iceberg's defaults, or the table's.
MIN_FILES_CLOSED, MIN_FILES = 2, 5
# Files of one rewrite, whose rows and paths have to fit into the job's memory.
MAX_FILES = 100_000
_EPOCH = date(1970, 1, 1)
# Iceberg's exceptions: a removed file is missing or has deleted rows; another commit came first.
_CONFLICTS = ("ValidationException",)
# A running stream moves main every few seconds.
MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class Group:
    """Files of one partition to rewrite together: their number, and the expected one after it. ``date``: of
    the partition, None in a table without closed dates."""

    date: date | None
    files: int
    expected: int


class StagedRewrite(StagedFiles):
    """A rewrite of one table, for one thread: of the dates before ``before`` if its first partition field is
    a DATE, else of all its small files.

    ``column``: that DATE, or None. ``removed``, ``added``: the data files that the rewrite exchanges.
    """

    def __init__(self, spark: SparkSession, table: str, before: date) -> None:
        super().__init__(spark, table)
        self._before = before
        self.column = self._date_column()
        self._options = {"min-input-files": str(MIN_FILES_CLOSED if self.column else MIN_FILES)}
        self.removed: list[Any] = []
        self.added: list[Any] = []

    def _date_column(self) -> str | None:
        fields, schema = self._stage.spec().fields(), self._stage.schema()
        if not fields or str(fields[0].transform().toString()) != "identity":
            return None
        column = schema.findField(fields[0].sourceId())
        return str(column.name()) if str(column.type().toString()) == "date" else None

    def groups(self) -> Iterator[Group]:
        """What Iceberg would rewrite. Reads manifests only."""
        if self.base is None:
            return
        expressions = self._jvm.org.apache.iceberg.expressions.Expressions
        chosen = (
            expressions.lessThan(self.column, self._before.isoformat())
            if self.column
            else expressions.alwaysTrue()
        )
        planner = self._jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(self._stage, chosen)
        planner.init(self._options)
        days = self._jvm.java.lang.Class.forName("java.lang.Integer")
        groups = planner.plan().groups().iterator()
        while groups.hasNext():
            group = groups.next()
            day = int(group.info().partition().get(0, days)) if self.column else None
            yield Group(
                None if day is None else _EPOCH + timedelta(days=day),
                int(group.inputFileNum()),
                int(group.expectedOutputFiles()),
            )

    def rewrite(self, dates: Sequence[date]) -> None:
        """Rewrite small files of these dates, or of the whole table if it has no DATE: at most MAX_FILES."""
        actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._session)
        options = {**self._options, "max-files-to-rewrite": str(MAX_FILES)}
        action = actions.rewriteDataFiles(self._stage).options(options)
        if self.column:
            texts = self._jvm.java.util.ArrayList()
            for day in dates:
                texts.add(day.isoformat())
            expressions = self._jvm.org.apache.iceberg.expressions.Expressions
            action = action.filter(getattr(expressions, "in")(self.column, texts))
        with committing(self._spark, self._name):
            action.execute()
        if self._head() != self.base:
            self.removed, self.added = self._removed_and_added()

    def _removed_and_added(self) -> tuple[list[Any], list[Any]]:
        snapshot, io = self._stage.currentSnapshot(), self._stage.io()
        return list(snapshot.removedDataFiles(io)), list(snapshot.addedDataFiles(io))

    def publish(self, properties: Mapping[str, str]) -> None:
        """Replace the files on ``main``, and rewrite the manifests that list removed files, in snapshots with
        ``properties``. Raises CommitConflict; then ``main`` is unchanged."""
        self.check_age()
        self._commit(properties, with_files=True)

    def publish_manifests(self, properties: Mapping[str, str]) -> bool:
        """As :meth:`publish`, the manifests alone. Returns whether there were any."""
        return self._commit(properties, with_files=False)

    def _commit(self, properties: Mapping[str, str], *, with_files: bool) -> bool:
        properties, reason = {**properties, REWRITE_ID: self._key}, ""
        for _ in range(MAX_ATTEMPTS):
            try:
                with committing(self._spark, self._name):
                    transaction = self._table.newTransaction()
                    if with_files:
                        self._exchange_files(transaction, properties)
                    if not self._rewrite_manifests(transaction, properties) and not with_files:
                        return False
                    self._name_rewrite(transaction, self._key)
                    self._swap(transaction)
                return True
            except (Py4JJavaError, CommitRefused) as error:
                is_race = isinstance(error, CommitRefused)
                reason = str(error) if isinstance(error, CommitRefused) else str(error.java_exception)
                if not is_race and not any(name in reason for name in _CONFLICTS):
                    raise
                # The catalog's client repeats an update whose answer was lost, and is refused by its own.
                if self._is_published():
                    log.warning("rewrite published; the commit's answer was lost: %s", reason)
                    return True
                if not is_race:
                    raise self._conflict(reason) from error
        raise self._conflict(f"{MAX_ATTEMPTS} times: {reason}")

    def _conflict(self, reason: str) -> CommitConflict:
        return CommitConflict(
            f"{self._table.name()}: main was changed during the rewrite ({reason}), nothing was published. "
            "Fix: run it again"
        )

    def _exchange_files(self, transaction: Any, properties: Mapping[str, str]) -> None:
        head = transaction.table().currentSnapshot()
        if head is None or len(head.deleteManifests(transaction.table().io())):
            raise CommitConflict(
                f"{self._table.name()}: main has {'row-level deletes' if head else 'no snapshot'}, which no "
                "stream makes; nothing was published. Fix: end the program that commits them"
            )
        self._check_nothing_staged(transaction)
        # From main's head, not from the base: a writer lets that expire after some batches, and Iceberg then
        # finds no history to look for row-level deletes in.
        rewrite = transaction.newRewrite().validateFromSnapshot(head.snapshotId())
        rewrite = rewrite.dataSequenceNumber(self._stage.snapshot(self.base).sequenceNumber())
        for file in self.removed:
            rewrite = rewrite.deleteFile(file)
        for file in self.added:
            rewrite = rewrite.addFile(file)
        with_properties(rewrite, properties).commit()

    def _check_nothing_staged(self, transaction: Any) -> None:
        """Raise CommitConflict if a branch removes files: what a change staged in the quarantine could not be
        published any more."""
        table = transaction.table()
        is_ancestor = self._jvm.org.apache.iceberg.util.SnapshotUtil.isAncestorOf
        head = table.currentSnapshot().snapshotId()
        for name in table.refs():
            snapshot = table.snapshot(table.refs().get(name).snapshotId())
            if str(snapshot.operation()) in ("overwrite", "delete") and not is_ancestor(
                table, head, snapshot.snapshotId()
            ):
                raise CommitConflict(
                    f"{self._table.name()}: branch {name} exchanges files, of a change that is not published "
                    "yet; nothing was published. Fix: run it again; if the branch stays, restart the consumer"
                )

    def _is_published(self) -> bool:
        snapshots = IcebergTable(self._spark, self._name).snapshots(MAIN)
        return any(snapshot.summary.get(REWRITE_ID) == self._key for snapshot in snapshots)
