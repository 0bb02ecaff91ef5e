"""What a task does: read its ranges, and write the files of their rows. In a Spark task, or in the driver."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle

from sluice.clients.catalogs.vended import Vended, client_with
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import PATIENCE_SECONDS
from sluice.clients.kafka.log.range_reader import Epochs, RangeRead, RangeReader
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.s3 import S3
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.decoding.duplicates import Deduplication
from sluice.core.offsets.deduplication import LoadedRows, Run, Runs
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges, Pair
from sluice.core.record_batches.account import Account
from sluice.core.schema_versions.offsets import Bounds, joined
from spark_jobs.common.consumer.direct.piece import rows_of, undecoded
from spark_jobs.common.consumer.direct.rejected import RejectedPart, RejectedRows
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.data_files.partitioned import Files, Layout

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True)
class Job:
    """What all tasks of a batch have in common.

    ``kafka``, ``s3``: how both are reached; ``topic``, ``topic_id``: where the records are; ``table`` and
    ``quarantine``: the layout of both tables; ``decoder``: of records, None for a stream that decodes them by
    its own function; ``keys``: of both tables, if the catalog gives them.
    """

    kafka: Kafka
    s3: S3
    topic: str
    topic_id: str
    table: Layout
    quarantine: Layout
    decoder: RecordDecoder | None = None
    keys: Vended | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        return _job, (given | {"decoder": cloudpickle.dumps(self.decoder)},)


def _job(given: Mapping[str, Any]) -> Job:
    return Job(**{**given, "decoder": _decoder(given["decoder"])})


@lru_cache(maxsize=1)
def _decoder(pickled: bytes) -> Any:
    """One in each process, as long as a stream's tasks have the same: what it has made of the schemas that
    records name is there for the next task, and so are its bounds."""
    return pickle.loads(pickled)  # noqa: S301  (the driver's own)


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
    """Parts that one process reads. ``reason``: why all of their records are rejected without being decoded;
    empty for records that are decoded."""

    parts: tuple[Part, ...]
    duplicates: Duplicates | None = None
    reason: str = ""


@dataclass(frozen=True)
class Result:
    """What a task wrote and saw. ``files``: none without a row; ``rejected``: the rejected records; ``runs``:
    rows of sources, rejected ones too; ``accounts``: of the parts, in their order; ``skipped``: the offsets
    of records that the stream's declaration leaves out; ``unfollowed``: ids of schemas that are more than the
    table's, or others, and have a record in the parts; ``schemas``: id of a registry's schema -> the bounds
    of its records."""

    files: tuple[DataFile, ...]
    rejected: RejectedPart
    runs: tuple[Run, ...]
    accounts: tuple[tuple[int, Account], ...]
    skipped: OffsetRanges = field(default_factory=OffsetRanges)
    unfollowed: frozenset[int] = frozenset()
    schemas: Mapping[int, Bounds] = field(default_factory=dict)


def run(job: Job, task: Task) -> Result:
    """Read the parts and write the files of their rows.

    Raises what the range reader raises, DecodersDiffer, and botocore's errors: then no commit names what was
    written.
    """
    reading = Reading(job, task)
    with Files(job.table, file_name()) as files:
        for rows in reading:
            files.add(rows)
        return replace(reading.result, files=tuple(files.upload(client(job))))


class Reading:
    """The good rows of a task while they are read: iterate once, then ask for the result, which has no
    files. Raises as :func:`run`."""

    def __init__(self, job: Job, task: Task) -> None:
        self._job, self._task = job, task
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """Raises ValueError before all was read."""
        if self._result is None:
            raise ValueError("the task's parts were not read to their end")
        return self._result

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        job, reason = self._job, self._task.reason
        accounts: list[tuple[int, Account]] = []
        runs = Runs()
        skipped: dict[int, list[Pair]] = {}
        unfollowed, schemas = set[int](), dict[int, Bounds]()
        with RejectedRows(job.quarantine, client(job), file_name()) as rejected:
            for part, pieces in self._reads():
                duplicates = self._task.duplicates
                known = Deduplication(part.partition, duplicates.loaded) if duplicates else None
                for piece in pieces:
                    if reason:
                        rows = undecoded(piece, part.partition, reason, job.decoder)
                    else:
                        assert job.decoder is not None
                        rows = rows_of(piece, part.partition, job.decoder, known)
                    if rows.bad is not None:
                        rejected.add(rows.bad)
                    runs.add(rows.runs)
                    unfollowed |= rows.unfollowed
                    for schema_id, pair in rows.schemas.items():
                        schemas[schema_id] = joined(schemas.get(schema_id, {}), {part.partition: pair})
                    if len(rows.skipped):
                        pairs = IntervalSet.of_values(rows.skipped).pairs()
                        skipped.setdefault(part.partition, []).extend(pairs)
                    yield rows.good
                accounts.append((part.partition, pieces.account))
            self._result = Result(
                (),
                rejected.upload(),
                runs.joined(),
                tuple(accounts),
                OffsetRanges.of(skipped),
                frozenset(unfollowed),
                schemas,
            )

    def _reads(self) -> list[tuple[Part, RangeRead]]:
        """The parts, of which each partition's first is asked for: brokers work on all of them at once."""
        log = reader(self._job)
        found = [(part, log.read(part.partition, part.offsets, part.epochs)) for part in self._task.parts]
        asked: set[int] = set()
        for part, pieces in found:
            if part.partition not in asked:
                asked.add(part.partition)
                pieces.ask_ahead()
        return found


def file_name() -> str:
    """A name that no other attempt gives its files: one that was lost, and goes on, overwrites nothing."""
    return f"{uuid.uuid4()}.parquet"


def client(job: Job) -> S3Client:
    """One in each process, which unpickles the keys of tables as the same ones."""
    return _client(job.s3, job.keys)


@cache
def _client(s3: S3, keys: Vended | None) -> S3Client:
    return client_with(s3, keys)


def reader(job: Job) -> RangeReader:
    """One set of connections in each process, which runs one task after the other."""
    return _reader(job.kafka, job.topic, job.topic_id)


@cache
def _reader(kafka: Kafka, topic: str, topic_id: str) -> RangeReader:
    return RangeReader(Brokers(kafka, PATIENCE_SECONDS), topic, topic_id)
