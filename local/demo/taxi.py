"""The taxi stream's demo: the sample object, loaded, and figures read from the systems that own them."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass

from botocore.exceptions import ClientError
from pyiceberg.table import Table
from rich.console import Console

from local.base import REPO, UsageError
from local.demo.base import Demo
from local.demo.checks import Check, DemoResult, Figure, gaps_and_duplicates
from local.progress import ProgressDisplay
from local.stack import lake as details
from local.stack.lake import OFFSETS, Offsets, compare, held, scan, stream_starts
from local.stack.stack import Stack
from sluice.io.kafka import topic_offsets
from sluice.model.verification.sources import source_id

STREAM = "nyc_taxi"
SAMPLE = REPO / "samples" / STREAM / "taxi-data.csv.gz"
KEY = f"{STREAM}/taxi-data.csv.gz"


class TaxiDemo(Demo):
    """29,999 rides of an object in the source bucket."""

    result = REPO / "build" / "demo.json"

    def __init__(self) -> None:
        super().__init__(STREAM)

    def prepare(self, stack: Stack, board: ProgressDisplay) -> None:
        with board.step("the sample, 29,999 taxi rides"):
            put_sample(stack)

    def collect(self, stack: Stack, console: Console, took: dict[str, float]) -> DemoResult:
        source = stack.platform("airflow").source.bucket
        lake, quarantine = details.tables(stack, self.spec)
        topic = topic_offsets(stack.platform("reader").kafka, self.spec.topic.name)
        return result(
            source_rows(stack, source, KEY),
            details.total(topic.values()),
            content(lake, quarantine, sample_id(stack, source, KEY), topic),
        )


def put_sample(stack: Stack) -> None:
    """Stores the sample unless the same content is there. Raises UsageError when the bucket refuses it."""
    content = SAMPLE.read_bytes()
    bucket = stack.platform("airflow").source.bucket
    client = stack.s3("airflow") if stack.context.external is not None else stack.admin_s3()
    try:
        if client.get_object(Bucket=bucket, Key=KEY)["Body"].read() == content:
            return
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
            raise UsageError(f"s3://{bucket}/{KEY} cannot be looked at: {error}") from error
    try:
        client.put_object(Bucket=bucket, Key=KEY, Body=content)
    except ClientError as error:
        raise UsageError(
            f"s3://{bucket}/{KEY} cannot be written ({error}): put {SAMPLE} there yourself"
        ) from error


def source_rows(stack: Stack, bucket: str, key: str) -> int:
    """Data rows of a CSV object (its header left out), unpacked on the way when it is gzip."""
    body = stack.s3("airflow").get_object(Bucket=bucket, Key=key)["Body"].read()
    unpacked = gzip.decompress(body) if key.endswith(".gz") else body
    with io.TextIOWrapper(io.BytesIO(unpacked), encoding="utf-8", newline="") as text:
        return max(0, sum(1 for row in csv.reader(text) if row) - 1)


def sample_id(stack: Stack, bucket: str, key: str) -> str:
    """The `_source_id` of the object's current version."""
    head = stack.s3("airflow").head_object(Bucket=bucket, Key=key)
    version = head.get("VersionId") or head["ETag"].strip('"')
    return source_id(bucket, key, version)


@dataclass(frozen=True)
class Content:
    """What the table and the quarantine hold, and how that compares with the topic. ``of_source``: of the
    demo's own object; ``duplicates``: offsets and source rows that are there more than once."""

    lake_rows: int
    quarantined: int
    of_source_rows: int
    of_source_quarantined: int
    gaps: int
    duplicates: int


def content(lake: Table, quarantine: Table, wanted: str, topic: Offsets) -> Content:
    """Reads the coordinates and origins of all rows of `main`; `wanted` is the demo's source id.

    Duplicates in the quarantine (reason `duplicate:…`) hold coordinates, but are no source rows of their own.
    """
    columns = (*OFFSETS, "_source_id", "_source_row")
    with held(scan(lake, columns), scan(quarantine, (*columns, "reason"))) as sql:
        exact = compare(sql, stream_starts(lake), topic)
        counts = sql.rows(
            f"""
            with of_source as (
                select 'lake' as home, _source_row from lake where _source_id = '{wanted}'
                union all
                select 'quarantine', _source_row from quarantine
                where _source_id = '{wanted}' and not reason like 'duplicate:%'
            )
            select
                (select count(*) from lake),
                (select count(*) from quarantine where not reason like 'duplicate:%'),
                count(*) filter (home = 'lake'),
                count(*) filter (home = 'quarantine'),
                count(*) - count(distinct _source_row)
            from of_source
            """
        )
    rows, aside, of_source, of_source_aside, repeated = counts[0]
    return Content(rows, aside, of_source, of_source_aside, exact.gaps, exact.duplicates + repeated)


def result(rows: int, records: int, found: Content) -> DemoResult:
    """`rows`: of the demo's own object; the figures count everything in topic and table."""
    return DemoResult(
        [
            Figure("source rows", rows, "the source object"),
            Figure("topic records", records, "Kafka's begin and end offsets"),
            Figure("lake rows", found.lake_rows, "the table's branch main, by PyIceberg"),
            Figure("quarantined", found.quarantined, "the quarantine table, by PyIceberg"),
            Figure("gaps", found.gaps, "topic offsets against coordinates in the lake"),
            Figure("duplicates", found.duplicates, "coordinates and source rows in the lake"),
        ],
        [
            Check(rows > 0, "the source has no rows: nothing was shown"),
            Check(
                found.of_source_rows + found.of_source_quarantined == rows,
                f"{rows} rows in the source, but {found.of_source_rows} in the lake "
                f"and {found.of_source_quarantined} in quarantine",
            ),
            *gaps_and_duplicates(found.gaps, found.duplicates),
        ],
    )
