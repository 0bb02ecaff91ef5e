"""A stream whose own function decodes, in PySpark: the reader feeds it a DataFrame, and what it returns goes
into the same files.

The account of a task's range comes behind its records, as a record of its own, so that it is there only if
all of these are: in the same DataFrame, whatever the function and a shuffle make of the rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType

from sluice.config.schema import Partition
from sluice.core.record_batches.account import Account
from sluice.core.tables.records import IDENTITY, KAFKA_COLUMNS
from spark_jobs.common.consumer.batch_rows import Decode, decoded_rows, without_withheld
from spark_jobs.common.consumer.direct import task as tasks
from spark_jobs.common.consumer.direct.rejected import RejectedRows
from spark_jobs.common.consumer.direct.task import Job, Result, Runs, Task
from spark_jobs.common.kafka.read_ranges import HEADERS, as_spark_does
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.data_files.partitioned import Files
from spark_jobs.common.lake.quarantine import REJECTED_COLUMNS
from spark_jobs.common.lake.written.written_batch import runs_of
from spark_jobs.common.spark.session import KAFKA_RECORD
from spark_jobs.common.spark.texts import printable

# In place of Kafka's 0 and 1 (and -1, of records before there were times): the record is an account.
_ACCOUNT = -2
_RESULT = "result binary"


def run(
    spark: SparkSession, job: Job, those: Sequence[Task], decode: Decode, *, is_small: bool
) -> list[Result]:
    """As ``DirectBatches.run``, with records decoded by ``decode``. Raises Spark's errors."""
    duplicates = those[0].duplicates
    numbers = spark.range(0, len(those), 1, 1 if is_small else len(those))
    records = numbers.mapInArrow(_reading(job, those), KAFKA_RECORD)
    rows = without_withheld(decoded_rows(records, decode))
    if duplicates is not None:
        rows = deduplicate.flag_duplicates(rows, duplicates.loaded, set(duplicates.sources))
    # A reason may quote what is no UTF-8, which Python could not read.
    rejected = rows.withColumn("reason", printable(F.col("reason")))
    laid = rejected.select(*REJECTED_COLUMNS, F.struct("record.*").alias("record"))
    if job.table.partitions and not is_small:
        laid = _by_partition(laid, job.table.partitions)
    results = laid.mapInArrow(_writing(job), _RESULT).collect()
    # Written by our own tasks.
    return [pickle.loads(row["result"]) for row in results]  # noqa: S301


Batches = Iterable[pa.RecordBatch]


def _reading(job: Job, those: Sequence[Task]) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over the tasks' numbers."""

    def read(numbers: Batches) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _records(job, those[number])

    return read


def _records(job: Job, task: Task) -> Iterator[pa.RecordBatch]:
    for part in task.parts:
        pieces = tasks.reader(job).read(part.partition, part.offsets, part.epochs)
        for piece in pieces:
            yield as_spark_does(piece, job.topic, part.partition, _times(piece))
        yield _account_record(job.topic, part.partition, pieces.account)


def _times(piece: pa.RecordBatch) -> pa.Array:
    """In microseconds; one that these cannot hold stays beyond what can be read, which rejects it."""
    most = ((1 << 63) - 1) // 1000
    ms = np.clip(piece.column("timestamp").cast(pa.int64()).to_numpy(), -most, most)
    return pa.array(ms * 1000).view(pa.timestamp("us", tz="UTC"))


def _account_record(topic: str, partition: int, account: Account) -> pa.RecordBatch:
    columns = {
        "key": pa.array([pickle.dumps((partition, account))]),
        # For the stream's function a tombstone, as others may be.
        "value": pa.nulls(1, pa.binary()),
        "topic": pa.array([topic]),
        "partition": pa.array([partition], pa.int32()),
        "offset": pa.array([-1]),
        "timestamp": pa.array([0], pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([_ACCOUNT], pa.int32()),
        "headers": pa.nulls(1, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def _by_partition(rows: DataFrame, partitions: Sequence[Partition]) -> DataFrame:
    """The rows of a partition in one task: a value that is equal has an equal hash."""
    columns = [_transformed(rows, one) for one in partitions]
    return rows.repartition(rows.sparkSession.sparkContext.defaultParallelism, *columns)


def _transformed(rows: DataFrame, partition: Partition) -> Column:
    value, width = F.col(f"record.{partition.column}"), partition.width
    if width is None:
        return value
    kind = rows.select(value).schema[0].dataType
    if isinstance(kind, StringType):
        return F.substring(value, 1, width)
    # Values of other types are not cut: of these a file per task and value at most.
    return F.floor(value / width) if isinstance(kind, IntegerType | LongType) else value


def _writing(job: Job) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over decoded rows, of which each task writes the files."""

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        name = tasks.file_name()
        accounts: list[tuple[int, Account]] = []
        runs = Runs()
        client = tasks.client(job.s3)
        with Files(job.table, name) as files, RejectedRows(job.quarantine, client, name) as rejected:
            for batch in batches:
                is_account = pc.equal(batch.column("_kafka_timestamp_type"), _ACCOUNT)
                for said in batch.filter(is_account).column("key").to_pylist():
                    accounts.append(pickle.loads(said))  # noqa: S301
                rows = batch.filter(pc.invert(is_account))
                runs.add(runs_of(pa.Table.from_batches([rows])))
                is_good = pc.is_null(rows.column("reason"))
                files.add(_as_table(rows.filter(is_good)))
                rejected.add(rows.filter(pc.invert(is_good)).drop_columns(["record"]))
            result = Result(tuple(files.upload(client)), rejected.upload(), runs.joined(), tuple(accounts))
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)])})

    return write


def _as_table(rows: pa.RecordBatch) -> pa.RecordBatch:
    record = rows.column("record")
    columns = dict(zip(record.type.names, record.flatten(), strict=True))
    return pa.RecordBatch.from_pydict(
        columns | {name: rows.column(name) for name in (*KAFKA_COLUMNS, *IDENTITY)}
    )
