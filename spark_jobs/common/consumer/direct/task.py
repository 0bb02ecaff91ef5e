"""What a task does: read its ranges, and write the files of their rows. In a Spark task, or in the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import PATIENCE_SECONDS
from sluice.clients.kafka.log.range_reader import Epochs, RangeReader
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.s3 import S3
from sluice.core.decoding.decoder import Decoder
from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.account import Account
from spark_jobs.common.consumer.direct.piece import rows_of
from spark_jobs.common.consumer.direct.rejected import RejectedPart, RejectedRows
from spark_jobs.common.lake.data_files.parquet_file import DataFile, ParquetFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class Job:
    """What all tasks of a batch have in common.

    ``topic``, ``topic_id``: where the records are; ``decoder``: of their values; ``table`` and
    ``quarantine``: the columns of both tables' files, with field ids.
    """

    kafka: Kafka
    s3: S3
    topic: str
    topic_id: str
    decoder: Decoder
    table: pa.Schema
    quarantine: pa.Schema


@dataclass(frozen=True)
class Part:
    """Offsets of one partition, and what is known of their leader epochs."""

    partition: int
    offsets: IntervalSet
    epochs: Epochs


@dataclass(frozen=True)
class Duplicates:
    """Rows to reject: those of ``sources`` that are in ``loaded`` or, by its sequence number, at an earlier
    offset of the part."""

    loaded: LoadedRows
    sources: frozenset[str]


@dataclass(frozen=True)
class Task:
    """Parts whose rows are one file, at ``uri``; ``rejected_uri``: for many rejected records."""

    parts: tuple[Part, ...]
    uri: str
    rejected_uri: str


@dataclass(frozen=True)
class Result:
    """What a task wrote and saw. ``file``: None without a row; ``accounts``: of the parts, in their order."""

    file: DataFile | None
    rejected: RejectedPart
    runs: tuple[Run, ...]
    accounts: tuple[tuple[int, Account], ...]


def run(job: Job, task: Task) -> Result:
    """Raises what the range reader raises, DecodersDiffer, and botocore's errors: then no commit names what
    was written."""
    s3, records = client(job.s3), reader(job)
    accounts: list[tuple[int, Account]] = []
    runs: list[Run] = []
    rejected = RejectedRows(job.quarantine, s3, task.rejected_uri)
    with ParquetFile(job.table) as file:
        for part in task.parts:
            pieces = records.read(part.partition, part.offsets, part.epochs)
            for piece in pieces:
                rows = rows_of(piece, part.partition, job.decoder)
                file.add(rows.good)
                rejected.add(rows.bad)
                runs += rows.runs
            accounts.append((part.partition, pieces.account))
        written = file.upload(s3, task.uri) if file.records else None
    return Result(written, rejected.close(), tuple(joined(runs)), tuple(accounts))


@cache
def client(s3: S3) -> S3Client:
    """One in each process."""
    return connect(s3)


def reader(job: Job) -> RangeReader:
    """One set of connections in each process, which runs one task after the other."""
    return _reader(job.kafka, job.topic, job.topic_id)


@cache
def _reader(kafka: Kafka, topic: str, topic_id: str) -> RangeReader:
    return RangeReader(Brokers(kafka, PATIENCE_SECONDS), topic, topic_id)


def joined(runs: Iterable[Run]) -> list[Run]:
    """Runs with those joined that follow each other: as many as there are gaps, whatever the pieces were."""
    found: list[Run] = []
    for (source, partition), these in groupby(sorted(runs), lambda run: (run.source_id, run.partition)):
        last: Run | None = None
        for one in these:
            if last is not None and one.start == last.until:
                last = Run(source, partition, last.start, one.until, last.records + one.records)
                found[-1] = last
            else:
                last = one
                found.append(one)
    return found
