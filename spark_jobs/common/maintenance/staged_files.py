"""Data files that are staged, verified and then exchanged on ``main`` in one commit.

A branch would not do: a running stream moves ``main`` every few seconds, so a branch could not be
fast-forwarded, and Iceberg 1.10.2 cannot rewrite on one (apache/iceberg#14813).

Instead a table of this process alone commits to a transaction that is never committed: files are in the
bucket, and the snapshots are in memory. The publish is one commit on ``main`` as it is by then, which keeps
later appends and is refused if a removed file is missing. An attempt that ends before it leaves orphan files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast

from pyspark.sql import DataFrame, SparkSession

from sluice.config.platform_sections.lake import CATALOG
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.rewrites import REWRITES, Rewrites
from spark_jobs.common.lake.clock import committing, now_ms, outdated_by
from spark_jobs.common.lake.data_files.schema import column_ids
from spark_jobs.common.lake.expected_refs import commit
from spark_jobs.common.lake.followed.documents import followed_digest
from spark_jobs.common.lake.iceberg import with_properties


class CommitConflict(RuntimeError):
    """``main`` was changed so that the staged files no longer match it."""

    code = ErrorCode.CONCURRENT_COMMIT


class StagedFiles:
    """Files of one table to exchange, for one thread. In its context rows can be read and staged.

    ``base``: the snapshot of ``main`` that it began with, or None. ``schema``: the digest of the schema that
    the table followed then; empty for the declared one. ``columns``: those that it had, by their ids.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark, self._name = spark, table
        self._jvm = cast("Any", spark._jvm)
        self._session = spark._jsparkSession
        self._table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._session, f"{CATALOG}.{table}"
        )
        operations = self._table.newTransaction().table().operations()
        self._stage = self._jvm.org.apache.iceberg.BaseTable(operations, self._table.name())
        self._key = str(uuid.uuid4())
        self._began = now_ms()
        self._cache = self._static_get("org.apache.iceberg.spark.SparkTableCache")
        self._task_sets = self._static_get("org.apache.iceberg.spark.ScanTaskSetManager")
        self.base = self._head()
        self.schema = followed_digest(self._stage.properties())
        self.columns = self._columns_of(self._stage)

    def __enter__(self) -> Self:
        self._cache.add(self._key, self._stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._task_sets.fetchSetIds(self._stage):
            if str(name).startswith(self._key):
                self._task_sets.removeTasks(self._stage, name)
        self._cache.remove(self._key)

    def _static_get(self, name: str) -> Any:
        # Iceberg's actions read tables and files from such singletons. By reflection: Py4J confuses a static
        # ``get()`` with another ``get``.
        new_array, lang = cast("Any", self._spark.sparkContext._gateway).new_array, self._jvm.java.lang
        kind = self._stage.getClass().getClassLoader().loadClass(name)
        return kind.getMethod("get", new_array(lang.Class, 0)).invoke(None, new_array(lang.Object, 0))

    def _columns_of(self, table: Any) -> dict[int, str]:
        return column_ids(json.loads(self._jvm.org.apache.iceberg.SchemaParser.toJson(table.schema())))

    def _head(self) -> int | None:
        snapshot = self._stage.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def append(self, rows: DataFrame) -> list[Any]:
        """Write rows to files of the table, which only this process knows; return these."""
        before = self._head()
        with committing(self._spark, self._name):
            rows.write.format("iceberg").mode("append").save(self._key)
        # Without rows there may be no commit.
        if self._head() == before:
            return []
        return list(self._stage.currentSnapshot().addedDataFiles(self._stage.io()))

    def rows(self, files: Sequence[Any]) -> DataFrame:
        """The rows of these data files, and of no other."""
        iceberg, tasks = self._jvm.org.apache.iceberg, self._jvm.java.util.ArrayList()
        no_deletes = cast("Any", self._spark.sparkContext._gateway).new_array(iceberg.DeleteFile, 0)
        every = iceberg.expressions.ResidualEvaluator.unpartitioned(
            iceberg.expressions.Expressions.alwaysTrue()
        )
        schema, specs = iceberg.SchemaParser.toJson(self._stage.schema()), self._stage.specs()
        texts = {int(number): iceberg.PartitionSpecParser.toJson(specs[number]) for number in specs}
        for file in files:
            tasks.add(iceberg.BaseFileScanTask(file, no_deletes, schema, texts[file.specId()], every))
        name = f"{self._key}-{uuid.uuid4()}"
        self._task_sets.stageTasks(self._stage, name, tasks)
        return self._spark.read.format("iceberg").option("scan-task-set-id", name).load(self._key)

    def check_age(self) -> None:
        """Raise CommitConflict if what was staged may not be published any more."""
        if age := outdated_by(self._began):
            raise CommitConflict(
                f"{self._table.name()}: written {age} ago, so its files may have been removed; nothing was "
                "published. Fix: run it again"
            )

    def _swap(self, transaction: Any) -> None:
        """Commit once, on top of the metadata that the transaction began with. ``commitTransaction()``
        would try again, find a rewrite of manifests whose answer was lost among the snapshots, and set
        ``main`` back to it, over what was published meanwhile."""
        base = transaction.startMetadata()
        refs = {str(name): int(base.ref(name).snapshotId()) for name in base.refs()}
        operations = transaction.underlyingOps()
        if commit(self._spark, self._name, operations, base, transaction.currentMetadata(), refs):
            operations.refresh()

    def _name_rewrite(self, transaction: Any, rewrite: str) -> None:
        """Name the rewrite in the same commit: what deletes files needs its verification, whenever it is
        published, and also when its snapshots have expired."""
        before = Rewrites.of(transaction.table().properties())
        after = before.more(rewrite).to_json()
        transaction.updateProperties().set(REWRITES, after).commit()

    def _rewrite_manifests(self, transaction: Any, properties: Mapping[str, str]) -> bool:
        head, listing = transaction.table().currentSnapshot(), self._jvm.java.util.HashSet()
        if head is None:
            return False
        for manifest in head.dataManifests(transaction.table().io()):
            if manifest.hasDeletedFiles():
                listing.add(manifest)
        if not len(listing):
            return False
        guava = self._jvm.com.google.common.base
        manifests = transaction.rewriteManifests().clusterBy(guava.Functions.constant(""))
        rewrite = manifests.rewriteIf(getattr(guava.Predicates, "in")(listing))
        with_properties(rewrite, properties).commit()
        return True
