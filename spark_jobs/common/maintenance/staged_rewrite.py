"""Iceberg's rewriting of files, done and looked at before anybody else sees it.

Write, audit, publish, without a branch. In Iceberg 1.10.2 neither the procedure ``rewrite_data_files`` nor
``RewriteDataFilesSparkAction`` can be pointed at one: they read and commit to ``main`` even when a branch is
named (apache/iceberg#14813; mended after 1.10.2). Nor would a branch do: a running stream moves ``main``
every few seconds, and then it cannot be fast-forwarded to a branch that began before that.

So the action is given a table whose commits go into a transaction that nobody ever commits. It writes the new
files to the bucket, and its snapshot exists in this process alone, where it is read and proved. Publishing is
one commit of ``RewriteFiles`` on ``main`` as it is by then: what was appended meanwhile stays, and Iceberg
refuses it where one of the files to go is not there any more. An attempt that ends before that leaves files
that no table knows; nobody here may delete them.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from types import TracebackType
from typing import Any, Self, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import CATALOG

log = logging.getLogger(__name__)

# A partition is left alone when it has one file; sizes are Iceberg's defaults, or the table's own.
OPTIONS = {"min-input-files": "2"}
_EPOCH = date(1970, 1, 1)
# Iceberg's exceptions: a file to go is gone already, or rows of it were deleted; every try of a commit raced.
_OUTDATED = ("ValidationException", "CommitFailedException")


class CommitConflict(RuntimeError):
    """``main`` was changed meanwhile such that the rewritten files no longer stand for what is there."""

    code = ErrorCode.CONCURRENT_COMMIT


@dataclass(frozen=True)
class Group:
    """Files of one partition that would be rewritten together: how many there are, and would be after."""

    date: date
    files: int
    expected: int


@dataclass(frozen=True)
class RewriteResult:
    """What a rehearsal made: its snapshot, and how many files that takes away and brings."""

    snapshot_id: int
    removed: int
    added: int


class StagedRewrite:
    """The rewriting of one table, whose first partition field is the DATE ``column`` as it is.

    ``base`` is the snapshot of ``main`` that it begins from, None where there is none. A context manager: in
    it, the rehearsed table can be read. Not for several threads at once.
    """

    def __init__(self, spark: SparkSession, table: str, column: str) -> None:
        self._spark, self._column = spark, column
        self._jvm = cast("Any", spark._jvm)
        self._session = spark._jsparkSession
        self._table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._session, f"{CATALOG}.{table}"
        )
        operations = self._table.newTransaction().table().operations()
        self._stage = self._jvm.org.apache.iceberg.BaseTable(operations, self._table.name())
        self._key = str(uuid.uuid4())
        self._cache = self._table_cache()
        self.base = self._head()

    def __enter__(self) -> Self:
        self._cache.add(self._key, self._stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cache.remove(self._key)

    def _table_cache(self) -> Any:
        """Through which Iceberg's actions read tables that are in no catalog. By reflection: Py4J takes its
        static ``get()`` for its other ``get``."""
        new_array, lang = cast("Any", self._spark.sparkContext._gateway).new_array, self._jvm.java.lang
        loader = self._stage.getClass().getClassLoader()
        kind = loader.loadClass("org.apache.iceberg.spark.SparkTableCache")
        return kind.getMethod("get", new_array(lang.Class, 0)).invoke(None, new_array(lang.Object, 0))

    def _head(self) -> int | None:
        snapshot = self._stage.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def groups(self, before: date) -> Iterator[Group]:
        """What Iceberg would rewrite of the dates before that. Reads manifests only."""
        if self.base is None:
            return
        earlier = self._jvm.org.apache.iceberg.expressions.Expressions.lessThan(
            self._column, before.isoformat()
        )
        planner = self._jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(self._stage, earlier)
        planner.init(OPTIONS)
        days = self._jvm.java.lang.Class.forName("java.lang.Integer")
        groups = planner.plan().groups().iterator()
        while groups.hasNext():
            group = groups.next()
            day = _EPOCH + timedelta(days=int(group.info().partition().get(0, days)))
            yield Group(day, int(group.inputFileNum()), int(group.expectedOutputFiles()))

    def rewrite(self, dates: Sequence[date]) -> RewriteResult | None:
        """Rewrite the files of these dates; None where there is nothing to rewrite."""
        texts = self._jvm.java.util.ArrayList()
        for day in dates:
            texts.add(day.isoformat())
        chosen = getattr(self._jvm.org.apache.iceberg.expressions.Expressions, "in")(self._column, texts)
        actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._session)
        actions.rewriteDataFiles(self._stage).filter(chosen).options(OPTIONS).execute()
        head = self._head()
        if head is None or head == self.base:
            return None
        removed, added = self._exchanged()
        return RewriteResult(head, len(removed), len(added))

    def rows(self, snapshot_id: int, dates: Sequence[date]) -> DataFrame:
        """What a snapshot, the base or a rehearsed one, holds of these dates."""
        table = self._spark.read.format("iceberg").option("snapshot-id", snapshot_id).load(self._key)
        return table.where(F.col(self._column).isin(*dates))

    def publish(self, properties: Mapping[str, str]) -> None:
        """Exchange the same files on ``main``, in a snapshot that says ``properties``. Raises CommitConflict;
        then ``main`` is as it was."""
        base = self._stage.snapshot(self.base)
        removed, added = self._exchanged()
        commit = self._table.newRewrite()
        commit = commit.validateFromSnapshot(base.snapshotId()).dataSequenceNumber(base.sequenceNumber())
        for file in removed:
            commit = commit.deleteFile(file)
        for file in added:
            commit = commit.addFile(file)
        for key, value in properties.items():
            commit = commit.set(key, value)
        try:
            commit.commit()
        except Py4JJavaError as error:
            reason = str(error.java_exception)
            if any(name in reason for name in _OUTDATED):
                raise CommitConflict(
                    f"{self._table.name()}: main was changed while its files were rewritten ({reason}); "
                    "nothing was published, try again"
                ) from error
            raise

    def _exchanged(self) -> tuple[list[Any], list[Any]]:
        """The data files that the rehearsed snapshot takes away, and those that it brings."""
        snapshot, io = self._stage.currentSnapshot(), self._stage.io()
        return list(snapshot.removedDataFiles(io)), list(snapshot.addedDataFiles(io))
