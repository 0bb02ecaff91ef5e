"""A stream whose own function decodes, in PySpark: the reader feeds it a DataFrame, and what it returns goes
into the same files.

The accounts of the tasks' ranges come by an accumulator, beside the rows: the function sees records of the
topic and no others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType

from sluice.config.schema import Partition
from sluice.core.offsets.deduplication import Runs
from sluice.core.tables.records import IDENTITY, KAFKA_COLUMNS
from spark_jobs.common.consumer.decoded_rows import Decode, assessed, decoded, decoded_rows
from spark_jobs.common.consumer.direct import task as tasks
from spark_jobs.common.consumer.direct.rejected import RejectedPart, RejectedRows
from spark_jobs.common.consumer.direct.task import Job, Result, Task
from spark_jobs.common.kafka.read_ranges import as_spark_does
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.data_files.partitioned import Files
from spark_jobs.common.lake.quarantine import REJECTED_COLUMNS
from spark_jobs.common.lake.written.written_batch import runs_of
from spark_jobs.common.spark.session import KAFKA_RECORD

_RESULT = "result binary"


class _Said(AccumulatorParam[list[bytes]]):
    """Joins what tasks say."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802
        return value1 + value2


class OwnDecode:
    """Batches that a stream's function decodes. For one thread at a time."""

    def __init__(self, spark: SparkSession, decode: Decode) -> None:
        self._spark, self._decode = spark, decode
        # One for all batches: Spark keeps all that there ever were.
        self._said: Accumulator[list[bytes]] = spark.sparkContext.accumulator([], _Said())

    def run(self, job: Job, those: Sequence[Task], *, is_small: bool) -> list[Result]:
        """As ``DirectBatches.run``; the last result has the accounts of all. Raises Spark's errors."""
        self._said.value = []
        duplicates = those[0].duplicates
        numbers = self._spark.range(0, len(those), 1, 1 if is_small else len(those))
        records = numbers.mapInArrow(_reading(job, those, self._said), KAFKA_RECORD)
        if duplicates is None:
            rows = decoded(records, self._decode)
        else:
            rows = decoded_rows(records, self._decode)
            rows = deduplicate.flag_duplicates(rows, duplicates.loaded, set(duplicates.sources))
        if job.table.partitions and not is_small:
            rows = _by_partition(rows, job.table.partitions)
        results = rows.mapInArrow(_writing(job), _RESULT).collect()
        # Written by our own tasks. A task that ran again has said the same again.
        accounts = [pickle.loads(one) for one in sorted(set(self._said.value))]  # noqa: S301
        written = [pickle.loads(row["result"]) for row in results]  # noqa: S301
        return [*written, Result((), RejectedPart(), (), tuple(accounts))]


Batches = Iterable[pa.RecordBatch]


def _reading(
    job: Job, those: Sequence[Task], said: Accumulator[list[bytes]]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow`` over the tasks' numbers."""

    def read(numbers: Batches) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _records(job, those[number], said)

    return read


def _records(job: Job, task: Task, said: Accumulator[list[bytes]]) -> Iterator[pa.RecordBatch]:
    for part in task.parts:
        pieces = tasks.reader(job).read(part.partition, part.offsets, part.epochs)
        for piece in pieces:
            yield as_spark_does(piece, job.topic, part.partition, _times(piece))
        said.add([pickle.dumps((part.partition, pieces.account))])


def _times(piece: pa.RecordBatch) -> pa.Array:
    """In microseconds; one that these cannot hold stays beyond what can be read, which rejects it."""
    most = ((1 << 63) - 1) // 1000
    ms = np.clip(piece.column("timestamp").cast(pa.int64()).to_numpy(), -most, most)
    return pa.array(ms * 1000).view(pa.timestamp("us", tz="UTC"))


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
        runs = Runs()
        client = tasks.client(job)
        with Files(job.table, name) as files, RejectedRows(job.quarantine, client, name) as rejected:
            for batch in batches:
                rows = batch if "_source_id" in batch.schema.names else assessed(batch)
                runs.add(runs_of(pa.Table.from_batches([rows])))
                is_good = pc.is_null(rows.column("reason"))
                files.add(_as_table(rows.filter(is_good)))
                rejected.add(rows.filter(pc.invert(is_good)).select(list(REJECTED_COLUMNS)))
            result = Result(tuple(files.upload(client)), rejected.upload(), runs.joined(), ())
        yield pa.RecordBatch.from_pydict({"result": pa.array([pickle.dumps(result)])})

    return write


def _as_table(rows: pa.RecordBatch) -> pa.RecordBatch:
    record = rows.column("record")
    columns = dict(zip(record.type.names, record.flatten(), strict=True))
    return pa.RecordBatch.from_pydict(
        columns | {name: rows.column(name) for name in (*KAFKA_COLUMNS, *IDENTITY)}
    )
