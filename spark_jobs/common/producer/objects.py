"""Lines of source objects.

Source objects: exactly the versions that the plan pinned, as numbered lines of text.

Read with boto3 inside Spark's tasks, one task an object, because that is what can name an object *version*:
an object that is overwritten between an attempt and its retry would otherwise change under the load.

The rows of source objects, as a bounded producer sends them: malformed ones go to the quarantine.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import pyarrow
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from sluice.io.s3 import connect
from sluice.model.error_codes import ErrorCode
from sluice.model.spec import platform as platforms
from spark_jobs.common.kafka import keys
from spark_jobs.common.kafka.avro import Schemas, encode, schema_headers
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.quarantine import quarantine_rows
from spark_jobs.common.producer import csv

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 64 * 1024
LINES_PER_BATCH = 20_000
LINE_SCHEMA = (
    "source_id string, object string, partition_count int, line bigint, row bigint, text string, "
    "undecodable boolean"
)


@dataclass(frozen=True)
class SourceObject:
    """One object version of a load's plan. ``partition_count``: the topic partitions it is spread over
    (pinned)."""

    source_id: str
    bucket: str
    key: str
    version_id: str | None
    partition_count: int

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def request(self) -> dict[str, Any]:
        """Keyword arguments for ``get_object``."""
        version = {"VersionId": self.version_id} if self.version_id else {}
        return {"Bucket": self.bucket, "Key": self.key, **version}


class CorruptObject(RuntimeError):
    """An object cannot be read to its end, or is no text with a header line."""

    code = ErrorCode.CORRUPT_OBJECT


def read_json(platform: platforms.Platform, uri: str) -> Any:
    """A JSON object of the bucket, from its ``s3://`` address."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return json.load(connect(platform.s3).get_object(Bucket=bucket, Key=key)["Body"])


def header_line(platform: platforms.Platform, source: SourceObject) -> str:
    """The first line of an object (plain or gzip). Reads 64 KiB at most.

    Raises CorruptObject where there is none: an object of no bytes, or a first line longer than that.
    """
    body = connect(platform.s3).get_object(**source.request())["Body"]
    with body:
        head = body.read(HEAD_BYTES)
    if head.startswith(GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error as error:
            raise CorruptObject(
                f"{source.uri}: not a readable gzip ({error}); put the object again"
            ) from error
    line, newline, _ = head.partition(b"\n")
    text = line.decode("utf-8-sig", "replace").rstrip("\r")
    if not text.strip() or (not newline and len(head) >= HEAD_BYTES):
        raise CorruptObject(
            f"{source.uri}: has no header line; put an object whose first line names the columns"
        )
    return text


def read_lines(spark: SparkSession, sources: Iterable[SourceObject]) -> DataFrame:
    """The data lines of the objects, numbered (columns of LINE_SCHEMA), header and blank lines left out.

    ``line`` is the 1-based line that an editor shows, ``row`` the 0-based number among the data lines.
    Bytes that are no UTF-8 come as backslash escapes and are marked ``undecodable``. A job over an object
    whose data end too early or are damaged fails with CorruptObject naming it; a connection that breaks off
    is botocore's own error, and worth another attempt.
    """
    wanted = [(json.dumps(asdict(source)),) for source in sources]
    listed = spark.createDataFrame(wanted, "source string").repartition(max(1, len(wanted)))
    return listed.mapInArrow(_lines_of_batches, LINE_SCHEMA)


def _lines_of_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    client = None
    for batch in batches:
        for text in batch.column(0).to_pylist():
            client = client or connect(platforms.load("producer").s3)
            yield from _lines_of(client, SourceObject(**json.loads(text)))


def _lines_of(client: Any, source: SourceObject) -> Iterator[pyarrow.RecordBatch]:
    rows: list[tuple[int, str, bool]] = []
    row = 0
    try:
        for number, raw in enumerate(_open(client, source), start=1):
            line = raw.rstrip(b"\r\n")
            if number == 1 or not line.strip():
                continue
            try:
                rows.append((number, line.decode(), False))
            except UnicodeDecodeError:
                rows.append((number, line.decode("utf-8", "backslashreplace"), True))
            if len(rows) == LINES_PER_BATCH:
                yield _batch(source, row, rows)
                row += len(rows)
                rows = []
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptObject(
            f"{source.uri}: broke off after {row + len(rows)} rows ({error}); put the whole object again"
        ) from error
    if rows:
        yield _batch(source, row, rows)


def _open(client: Any, source: SourceObject) -> Iterable[bytes]:
    body = client.get_object(**source.request())["Body"]
    buffered = io.BufferedReader(_Raw(body), 1 << 20)
    if buffered.peek(2)[:2] == GZIP_MAGIC:
        return cast("Iterable[bytes]", io.BufferedReader(gzip.GzipFile(fileobj=buffered), 1 << 20))
    return buffered


class _Raw(io.RawIOBase):
    """botocore's body as a raw stream, so that the standard library's buffering can sit on it."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _batch(source: SourceObject, first_row: int, rows: list[tuple[int, str, bool]]) -> pyarrow.RecordBatch:
    count = len(rows)
    lines, texts, undecodable = zip(*rows, strict=True)
    return pyarrow.RecordBatch.from_arrays(
        [
            pyarrow.array([source.source_id] * count),
            pyarrow.array([source.uri] * count),
            pyarrow.array([source.partition_count] * count, pyarrow.int32()),
            pyarrow.array(lines, pyarrow.int64()),
            pyarrow.array(range(first_row, first_row + count), pyarrow.int64()),
            pyarrow.array(texts),
            pyarrow.array(undecodable),
        ],
        names=["source_id", "object", "partition_count", "line", "row", "text", "undecodable"],
    )


log = logging.getLogger(__name__)

_NAMES = ("source_id", "bucket", "key", "version_id", "partition_count")


def object_rows(job: Job) -> Iterator[DataFrame]:
    """The rows of a plan's object versions, all in one frame. Their order and identity follow from the
    objects alone; what is malformed is quarantined when the others are sent."""
    schema = Schemas.load(job.spec.schema_file).current
    by_header: dict[str, list[SourceObject]] = {}
    for document in job.plan.sources:
        source = SourceObject(**{name: document[name] for name in _NAMES})
        by_header.setdefault(header_line(job.platform, source), []).append(source)
    parsed = reduce(
        DataFrame.unionByName,
        (
            csv.parse(read_lines(job.spark, group), header, schema, job.spec.csv, group[0].uri)
            for header, group in by_header.items()
        ),
    )
    counted = Observation()
    observed = parsed.observe(
        counted,
        F.count(F.lit(1)).alias("rows"),
        F.count("reason").alias("malformed"),
    )
    good = keys.with_partition_and_sequence(observed.where(F.col("reason").isNull()))
    value, headers = encode(F.col("record"), schema), schema_headers(schema)
    yield good.withColumns({"value": value, "headers": headers})
    rows_read, malformed = counted.get["rows"], counted.get["malformed"]
    log.info("read %d rows, %d of them malformed", rows_read, malformed)
    if malformed:
        tables.ensure_quarantine(job.spark, job.spec)
        quarantine_rows(job.spark, job.spec, parsed.where(F.col("reason").isNotNull()))
