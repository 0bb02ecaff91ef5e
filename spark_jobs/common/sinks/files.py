"""Rows of a query as plain parquet files, for readers that know no table format."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from sluice.io.s3 import connect
from sluice.model.spec import query as queries
from sluice.model.spec.platform import S3
from sluice.model.spec.query import Query
from spark_jobs.common.kafka.keys import key_part
from spark_jobs.common.sinks.base import SinkWriteFailed
from spark_jobs.common.sinks.parquet_folders import COUNTS_SCHEMA, FOLDER, HASH, FolderWriter, MarkerStore
from spark_jobs.common.spark.process import Fenced

# Readers of folders pass over what begins with an underscore.
_OWN = "_sluice/"
_OWNERS, _BEGUN, _WHOLE = "owners", "begun", "whole"


class FilesSink:
    """Parquet files below the bucket's ``prefix``, in folders of the columns of ``Query.group_by``, as Hive
    has them (``zipcode=10115/day=2026-01-31/b000000000007.parquet``); these columns are not in the files, a
    null and an empty text in them are the same, and what Hive cannot have in a name is escaped. Append only.

    **Each row of a batch once**, as long as a batch that is begun is finished with the same rows: a folder's
    file has the batch's number for its name and is made only where it is not there, so what runs again
    changes nothing, whoever runs it. A file that holds other rows than it should is noticed (its metadata
    have their number and the sum of their hashes), and ends the query; map columns are not in the hashes.

    **No more than that.** S3 knows no transaction: a reader sees a part of a batch while it is written, and
    after a crash until the next owner has completed it. Whoever must know reads ``_sluice/whole/``: an object
    per batch, written last, with its files and rows. S3 fences nobody: an owner looks for a later one before
    it begins a batch, once it said that it began, and after its last file. So a zombie completes, at most,
    the batch that it had begun, and its successor, who is told of that batch, writes the same.

    **What it costs**: one PUT per folder and batch, and three small objects and lists per batch. Thousands of
    zipcodes are thousands of small files with every batch, which nobody puts together: take a long trigger,
    or the table. The rows are shuffled and sorted by their folder.
    """

    def __init__(
        self, stream: str, query_name: str, query: Query, sink: queries.Sink, s3: S3, root: str
    ) -> None:
        """``root``: an address in the lake's bucket (``s3://bucket``); what is behind the bucket does not
        count. The S3 user's keys go to Spark's tasks with the work, as part of it."""
        self.name = sink.name
        self._what = f"{stream} {query_name}: sink {sink.name}"
        self._query = query
        self._s3 = s3
        self._bucket = root.removeprefix("s3://").partition("/")[0]
        self._prefix = sink.prefix
        self._places = MarkerStore(connect(s3), self._bucket, f"{sink.prefix}{_OWN}")
        self._epoch = 0
        self._whole = -1

    def open(self, epoch: int) -> int | None:
        """See base.Sink; what it returns may be there in part only. Raises Fenced, and SinkWriteFailed where
        S3 does not answer or refuses."""
        try:
            self._refuse_later(epoch)
            self._places.put(_OWNERS, epoch, {"epoch": epoch})
            # Two may have entered at once. And from here on nobody with a lower epoch begins a batch unseen.
            self._refuse_later(epoch)
            begun, whole = self._places.newest(_BEGUN), self._places.newest(_WHOLE)
        except (ClientError, BotoCoreError) as error:
            raise self._unwritten(error) from error
        self._epoch = epoch
        self._whole = -1 if whole is None else whole
        return begun

    def write(self, batch: int, rows: DataFrame) -> bool:
        """See base.Sink, and :meth:`enter` for what it raises. Where it fails half way, the same rows under
        the same number complete it. ``rows`` may have columns besides the query's: they are written."""
        if not self._epoch:
            raise LookupError(f"{self._what}: nobody has entered; enter before writing")
        if batch <= self._whole:
            return False
        try:
            self._refuse_later(self._epoch)
            self._places.put(_BEGUN, batch, {"batch": batch, "epoch": self._epoch})
            self._refuse_later(self._epoch)
            counts = self._write_files(batch, rows)
            self._refuse_later(self._epoch)
            self._complete(batch, counts)
        except (ClientError, BotoCoreError, PySparkException) as error:
            raise self._unwritten(error) from error
        self._whole = batch
        return True

    def close(self) -> None:
        """Nothing is open between two batches."""

    def _write_files(self, batch: int, rows: DataFrame) -> dict[str, int]:
        by = tuple(self._query.group_by)
        folders = [FOLDER.format(number) for number in range(len(by))]
        values = [field.name for field in rows.schema if field.name not in by]
        texts = [
            # An empty text is no folder's name; Hive takes it for null.
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

    def _complete(self, batch: int, counts: dict[str, int]) -> None:
        if self._places.put(_WHOLE, batch, {"batch": batch, "epoch": self._epoch, **counts}):
            return
        there = self._places.get(_WHOLE, batch) or {}
        if {name: there.get(name) for name in counts} != counts:
            raise SinkWriteFailed(
                f"{self._what}: owner {there.get('epoch')} completed batch {batch} with other rows ({there}, "
                f"not {counts}); look who wrote, remove the batch's files and objects, then start the query "
                "again"
            )

    def _refuse_later(self, epoch: int) -> None:
        there = self._places.newest(_OWNERS)
        if there is not None and there > epoch:
            raise Fenced(
                f"{self._what}: owner {epoch} may not write: owner {there} has taken over "
                f"(s3://{self._bucket}/{self._prefix}{_OWN}{_OWNERS}/)"
            )

    def _unwritten(self, error: Exception) -> SinkWriteFailed:
        # Of a task's error Spark tells the whole story; its last line is what happened.
        said = str(error).strip().splitlines() or [type(error).__name__]
        python = [line for line in said if line.strip() and not line.startswith(("\t", " ", "JVM", "Caused"))]
        reason = (python[-1] if isinstance(error, PySparkException) and python else said[0]).strip()
        return SinkWriteFailed(
            f"{self._what}: {reason}; see that S3 is up, and that the role may list the bucket "
            f"{self._bucket!r}, and get and put below {self._prefix!r}, then start the query again"
        )


def _has_map(kind: DataType) -> bool:
    """Whether Spark refuses to hash it."""
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))
