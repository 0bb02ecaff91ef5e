"""Rows of a query as plain parquet files, for readers that know no table format."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from sluice.clients.s3.requests import connect, split
from sluice.config.platform_sections.s3 import S3
from spark_jobs.common.kafka.keys import key_part
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.parquet_folders import COUNTS_SCHEMA, FOLDER, HASH, FolderWriter, MarkerStore
from spark_jobs.common.spark.failures import check_epoch

# Readers of Hive folders ignore names with an underscore in front.
_MARKERS = "_sluice/"
_WRITERS, _STARTED, _COMMITTED = "writers", "started", "committed"


class FilesSink:
    """Parquet files below the bucket's ``prefix`` in Hive folders of ``Query.group_by``. Append only.

    Guarantees and costs: docs/architecture.md. S3 has no transactions and no fencing: a writer checks for a
    later one before it starts a batch, after the marker of the start, and after the last file. So a zombie
    completes at most the batch that it started; its successor resumes with that one, and writes the same.
    """

    def __init__(self, target: Target, s3: S3, root: str) -> None:
        """``root``: the lake's address, for its bucket (``s3://bucket/…``). Spark's tasks get the S3 keys."""
        self.name = target.sink.name
        self._label = f"{target.stream} {target.query_name}: sink {target.sink.name}"
        self._query = target.query
        self._s3 = s3
        self._bucket, _ = split(root)
        self._prefix = target.sink.prefix
        self._markers = MarkerStore(connect(s3), self._bucket, f"{self._prefix}{_MARKERS}")
        self._writers_uri = f"s3://{self._bucket}/{self._prefix}{_MARKERS}{_WRITERS}/"
        self._epoch = 0
        self._committed = -1

    def open(self, epoch: int) -> int | None:
        """See base.Sink; the returned batch may be incomplete. Raises SinkWriteFailed for S3's errors."""
        try:
            self._check_fenced(epoch, opening=True)
            if not self._markers.put(_WRITERS, epoch, {"epoch": epoch}):
                check_epoch(self._label, epoch, epoch, self._writers_uri, opening=True)
            # Again: two writers may open at once. From here on, lower epochs find this marker.
            self._check_fenced(epoch)
            started, committed = self._markers.newest(_STARTED), self._markers.newest(_COMMITTED)
        except (ClientError, BotoCoreError) as error:
            raise self._failed(error) from error
        self._epoch = epoch
        self._committed = -1 if committed is None else committed
        return started

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        """See base.Sink, and :meth:`open` for errors. After a failure, the same rows under the same number
        complete the batch. All columns of ``rows`` are written, but of a batch that was begun those with
        which it was: the stream's table may have more by now, or wider ones."""
        if is_whole:
            raise ValueError(f"{self._label}: append only, it cannot remove rows of earlier batches")
        if not self._epoch:
            raise LookupError(f"{self._label}: no epoch set; call open() before write()")
        if batch <= self._committed:
            return False
        try:
            self._check_fenced(self._epoch)
            begun = self._begin(batch, rows)
            self._check_fenced(self._epoch)
            counts = self._write_files(batch, begun)
            self._check_fenced(self._epoch)
            self._commit(batch, counts)
        except (ClientError, BotoCoreError, PySparkException) as error:
            raise self._failed(error) from error
        self._committed = batch
        return True

    def close(self) -> None:
        """No open resources."""

    def _begin(self, batch: int, rows: DataFrame) -> DataFrame:
        """The rows with the columns that the batch was begun with."""
        columns = _nullable(rows.schema).jsonValue()
        begun: dict[str, Any] = {"batch": batch, "epoch": self._epoch, "columns": columns}
        if not self._markers.put(_STARTED, batch, begun):
            begun = self._markers.get(_STARTED, batch) or begun
        # A marker of 0.1.0 has none.
        if (kept := begun.get("columns", columns)) == columns:
            return rows
        return rows.to(StructType.fromJson(kept))

    def _write_files(self, batch: int, rows: DataFrame) -> dict[str, int]:
        by = tuple(self._query.group_by)
        folders = [FOLDER.format(number) for number in range(len(by))]
        values = [field.name for field in rows.schema if field.name not in by]
        texts = [
            # Hive reads an empty text as null.
            F.nullif(key_part(rows.schema, column), F.lit("")).alias(name)
            for column, name in zip(by, folders, strict=True)
        ]
        hashed = [F.col(name) for name in values if not _has_map(rows.schema[name].dataType)]
        ready = rows.select(*texts, *values, F.xxhash64(*hashed).alias(HASH))
        writer = FolderWriter(self._s3, self._bucket, self._prefix, f"b{batch:012d}.parquet", by)
        written = (
            ready.repartition(*folders)
            .sortWithinPartitions(*folders)
            .mapInArrow(writer, COUNTS_SCHEMA)
            .collect()
        )
        return {
            "files": sum(row["files"] for row in written),
            "rows": sum(row["rows"] for row in written),
            "hash": int(sum(row["hash"] for row in written)) % 2**64,
        }

    def _commit(self, batch: int, counts: dict[str, int]) -> None:
        if self._markers.put(_COMMITTED, batch, {"batch": batch, "epoch": self._epoch, **counts}):
            return
        existing = self._markers.get(_COMMITTED, batch) or {}
        if {name: existing.get(name) for name in counts} != counts:
            raise SinkWriteFailed(
                f"{self._label}: writer {existing.get('epoch')} committed batch {batch} with other rows "
                f"({existing}, expected {counts}); find that writer, remove the batch's files and markers, "
                "then restart the query"
            )

    def _check_fenced(self, epoch: int, *, opening: bool = False) -> None:
        check_epoch(self._label, epoch, self._markers.newest(_WRITERS), self._writers_uri, opening=opening)

    def _failed(self, error: Exception) -> SinkWriteFailed:
        # Spark's text of a task's error is a long stack trace; Python's last line is the cause.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        python = [
            line for line in lines if line.strip() and not line.startswith(("\t", " ", "JVM", "Caused"))
        ]
        reason = (python[-1] if isinstance(error, PySparkException) and python else lines[0]).strip()
        return SinkWriteFailed(
            f"{self._label}: {reason}; see that S3 is up, and that the role may list the bucket "
            f"{self._bucket!r}, and get and put below {self._prefix!r}, then start the query again"
        )


def _has_map(kind: DataType) -> bool:
    """Whether Spark cannot hash it."""
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))


def _nullable(kind: DataType) -> DataType:
    """The type with parts that may all be null, and without comments."""
    if isinstance(kind, StructType):
        return StructType([StructField(one.name, _nullable(one.dataType)) for one in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
