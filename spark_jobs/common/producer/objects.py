"""Rows of source objects, for a bounded producer; malformed rows go to the quarantine.

Spark's tasks read the planned object *versions* with boto3: Spark's own reader knows no versions, so an
object could change between an attempt and its retry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from sluice.io.s3 import GZIP_ERRORS, connect, unpacked
from sluice.model.error_codes import ErrorCode
from sluice.model.spec import platform as platforms
from spark_jobs.common.kafka import keys
from spark_jobs.common.kafka.avro import Schemas, schema_headers
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.source_quarantine import quarantine_rows
from spark_jobs.common.producer import csv

if TYPE_CHECKING:
    from spark_jobs.common.producer.run import Job

log = logging.getLogger(__name__)

HEAD_BYTES = 64 * 1024
LINES_PER_BATCH = 20_000
LINE_SCHEMA = (
    "source_id string, object string, partition_count int, line bigint, row bigint, text string, "
    "undecodable boolean"
)


@dataclass(frozen=True)
class SourceObject:
    """One object version of a load's plan, sent to ``partition_count`` topic partitions."""

    source_id: str
    bucket: str
    key: str
    version_id: str | None
    partition_count: int

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def request(self) -> dict[str, Any]:
        version = {"VersionId": self.version_id} if self.version_id else {}
        return {"Bucket": self.bucket, "Key": self.key, **version}


class CorruptObject(RuntimeError):
    """An object is truncated or corrupt, or has no header line."""

    code = ErrorCode.CORRUPT_OBJECT


def header_line(platform: platforms.Platform, source: SourceObject) -> str:
    """Return the first line of an object (plain or gzip), of HEAD_BYTES at most. Raises CorruptObject."""
    body = connect(platform.s3).get_object(**source.request())["Body"]
    # As a context, it is urllib3's response, which is closed at its end.
    with body:
        try:
            line = unpacked(body, HEAD_BYTES).readline(HEAD_BYTES)
        except GZIP_ERRORS as error:
            raise CorruptObject(
                f"{source.uri}: not a readable gzip ({error}). Fix: upload the object again"
            ) from error
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    if not text.strip() or (not line.endswith(b"\n") and len(line) >= HEAD_BYTES):
        raise CorruptObject(
            f"{source.uri}: no header line. Fix: put an object whose first line names the columns"
        )
    return text


def read_lines(spark: SparkSession, sources: Iterable[SourceObject]) -> DataFrame:
    """Read the data lines of the objects (columns of LINE_SCHEMA), without header and blank lines.

    ``line`` is the 1-based line of the object, ``row`` the 0-based number among the data lines. Bytes that
    are not UTF-8 are escaped and the line is ``undecodable``. The job fails with CorruptObject for a
    truncated or corrupt object, with botocore's error for a lost connection.
    """
    documents = [(json.dumps(asdict(source)),) for source in sources]
    frame = spark.createDataFrame(documents, "source string").repartition(max(1, len(documents)))
    return frame.mapInArrow(_lines_of_batches, LINE_SCHEMA)


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
        body = client.get_object(**source.request())["Body"]
        for number, raw in enumerate(unpacked(body, 1 << 20), start=1):
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
    except GZIP_ERRORS as error:
        raise CorruptObject(
            f"{source.uri}: broke off after {row + len(rows)} rows ({error}). "
            "Fix: upload the whole object again"
        ) from error
    if rows:
        yield _batch(source, row, rows)


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


def object_rows(job: Job) -> Iterator[DataFrame]:
    """Yield the rows of a plan's object versions in one frame; quarantine malformed ones after the send."""
    schema = Schemas.load(job.spec.schema_file).current
    by_header: dict[str, list[SourceObject]] = {}
    for document in job.plan.sources:
        source = SourceObject(**{field.name: document[field.name] for field in fields(SourceObject)})
        by_header.setdefault(header_line(job.platform, source), []).append(source)
    parsed = reduce(
        DataFrame.unionByName,
        (
            csv.parse(read_lines(job.spark, group), header, schema, job.spec.csv, group[0].uri)
            for header, group in by_header.items()
        ),
    )
    counts = Observation()
    rows, reasons = F.count(F.lit(1)).alias("rows"), F.count("reason").alias("malformed")
    observed = parsed.observe(counts, rows, reasons)
    good = keys.with_partition_and_sequence(observed.where(F.col("reason").isNull()))
    value, headers = to_avro("record", schema.text), schema_headers(schema)
    yield good.withColumns({"value": value, "headers": headers})
    malformed = counts.get["malformed"]
    log.info("rows read rows=%d malformed=%d", counts.get["rows"], malformed)
    if malformed:
        tables.create(job.spark, job.spec.quarantine_table, tables.QUARANTINE)
        bad = parsed.where(F.col("reason").isNotNull())
        quarantine_rows(job.spark, job.spec, bad, sorted(job.plan.start_offsets))
