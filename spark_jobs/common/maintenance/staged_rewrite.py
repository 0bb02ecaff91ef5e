"""A rewrite of data files that is staged, verified and then published.

Iceberg 1.10.2 cannot rewrite on a branch (apache/iceberg#14813), and a branch would not do: a running stream
moves ``main`` every few seconds, so it could not be fast-forwarded.

Instead the action's table commits to a transaction that is never committed: files are in the bucket, and the
snapshot is in this process alone. The publish is one commit of ``RewriteFiles`` on the current
``main``, which keeps later appends and is refused if a removed file is missing. An attempt that ends before
it leaves orphan files.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import takewhile
from types import TracebackType
from typing import Any, Self, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import CATALOG
from spark_jobs.common.lake.clock import committing
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable

log = logging.getLogger(__name__)

# In the summary of a published rewrite: an id of its own.
REWRITE_ID = "rewrite-id"
# Sizes are Iceberg's defaults, or the table's.
OPTIONS = {"min-input-files": "2"}
_EPOCH = date(1970, 1, 1)
# Iceberg's exceptions: a removed file is missing or has deleted rows; every attempt of a commit raced.
_CONFLICTS = ("ValidationException", "CommitFailedException")


class CommitConflict(RuntimeError):
    """``main`` was changed so that the rewritten files no longer match it."""

    code = ErrorCode.CONCURRENT_COMMIT


@dataclass(frozen=True)
class Group:
    """Files of one partition to rewrite together: their number, and the expected one after it."""

    date: date
    files: int
    expected: int


@dataclass(frozen=True)
class RewriteResult:
    """The staged snapshot, with its numbers of removed and added files."""

    snapshot_id: int
    removed: int
    added: int


class StagedRewrite:
    """A rewrite of one table whose first partition field is the DATE ``column``, for one thread.

    ``base``: the snapshot of ``main`` that it reads, or None. In its context the staged table can be read.
    """

    def __init__(self, spark: SparkSession, table: str, column: str) -> None:
        self._spark, self._name, self._column = spark, table, column
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
        # Iceberg's actions read tables without a catalog from it. By reflection: Py4J confuses its static
        # ``get()`` with its other ``get``.
        new_array, lang = cast("Any", self._spark.sparkContext._gateway).new_array, self._jvm.java.lang
        loader = self._stage.getClass().getClassLoader()
        kind = loader.loadClass("org.apache.iceberg.spark.SparkTableCache")
        return kind.getMethod("get", new_array(lang.Class, 0)).invoke(None, new_array(lang.Object, 0))

    def _head(self) -> int | None:
        snapshot = self._stage.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def groups(self, before: date) -> Iterator[Group]:
        """What Iceberg would rewrite of the dates before ``before``. Reads manifests only."""
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
        """Rewrite the files of these dates; None if there are none to rewrite."""
        texts = self._jvm.java.util.ArrayList()
        for day in dates:
            texts.add(day.isoformat())
        chosen = getattr(self._jvm.org.apache.iceberg.expressions.Expressions, "in")(self._column, texts)
        actions = self._jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._session)
        with committing(self._spark, self._name):
            actions.rewriteDataFiles(self._stage).filter(chosen).options(OPTIONS).execute()
        head = self._head()
        if head is None or head == self.base:
            return None
        removed, added = self._removed_and_added()
        return RewriteResult(head, len(removed), len(added))

    def rows(self, snapshot_id: int, dates: Sequence[date]) -> DataFrame:
        """The rows of these dates in a snapshot, the base or the staged one."""
        table = self._spark.read.format("iceberg").option("snapshot-id", snapshot_id).load(self._key)
        return table.where(F.col(self._column).isin(*dates))

    def publish(self, properties: Mapping[str, str]) -> None:
        """Replace the files on ``main``, in a snapshot with ``properties``. Raises CommitConflict; then
        ``main`` is unchanged."""
        base = self._stage.snapshot(self.base)
        removed, added = self._removed_and_added()
        commit = self._table.newRewrite()
        commit = commit.validateFromSnapshot(base.snapshotId()).dataSequenceNumber(base.sequenceNumber())
        for file in removed:
            commit = commit.deleteFile(file)
        for file in added:
            commit = commit.addFile(file)
        for key, value in {**properties, REWRITE_ID: self._key}.items():
            commit = commit.set(key, value)
        try:
            with committing(self._spark, self._name):
                commit.commit()
        except Py4JJavaError as error:
            reason = str(error.java_exception)
            if any(name in reason for name in _CONFLICTS):
                # Iceberg repeats an update of the catalog whose answer was lost, which then finds its own.
                if self._is_published():
                    log.warning("rewrite published; the commit's answer was lost: %s", reason)
                    return
                raise CommitConflict(
                    f"{self._table.name()}: main was changed during the rewrite ({reason}), nothing was "
                    "published. Fix: run it again"
                ) from error
            raise

    def _is_published(self) -> bool:
        snapshots = IcebergTable(self._spark, self._name).snapshots(MAIN)
        since = takewhile(lambda snapshot: snapshot.id != self.base, snapshots)
        return any(snapshot.summary.get(REWRITE_ID) == self._key for snapshot in since)

    def _removed_and_added(self) -> tuple[list[Any], list[Any]]:
        snapshot, io = self._stage.currentSnapshot(), self._stage.io()
        return list(snapshot.removedDataFiles(io)), list(snapshot.addedDataFiles(io))
