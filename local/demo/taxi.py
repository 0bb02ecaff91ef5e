"""The taxi stream's demo: the sample object, loaded."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError
from pyiceberg.table import Table
from rich.console import Console

from local.base import REPO, UsageError
from local.demo.base import Demo
from local.demo.checks import Check, DemoResult, Figure, gaps_and_duplicates, offset_figures
from local.progress import ProgressDisplay
from local.stack import lake as details
from local.stack.base import BaseStack
from local.stack.lake import OFFSETS, Offsets, compare, held
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.s3.objects import Bucket

STREAM = "nyc_taxi"
SAMPLE = REPO / "samples" / STREAM / "taxi-data.csv.gz"
KEY = f"{STREAM}/taxi-data.csv.gz"


class TaxiDemo(Demo):
    """29,999 rides of an object in the source bucket."""

    result = REPO / "build" / "demo.json"

    def __init__(self) -> None:
        super().__init__(STREAM)

    def prepare(self, stack: BaseStack, board: ProgressDisplay) -> None:
        with board.step("the sample, 29,999 taxi rides"):
            put_sample(stack)

    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        source = Bucket(stack.s3("airflow"), stack.platform("airflow").source.bucket)
        sample = source.head(KEY)
        lake, quarantine = details.tables(stack, self.spec)
        topic = topic_offsets(stack.platform("reader").kafka, self.spec.topic.name)
        found = content(lake, quarantine, sample.source_id, topic)
        return result(source.data_rows(sample), details.total(topic.values()), found)


def put_sample(stack: BaseStack) -> None:
    """Store the sample unless its content is there. Raises UsageError if the bucket refuses it."""
    content = SAMPLE.read_bytes()
    bucket = stack.platform("airflow").source.bucket
    client = stack.source_s3()
    try:
        if client.get_object(Bucket=bucket, Key=KEY)["Body"].read() == content:
            return
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
            raise UsageError(f"s3://{bucket}/{KEY} cannot be read: {error}") from error
    try:
        client.put_object(Bucket=bucket, Key=KEY, Body=content)
    except ClientError as error:
        fix = f"Fix: upload {SAMPLE}"
        raise UsageError(f"s3://{bucket}/{KEY} cannot be written: {error}. {fix}") from error


@dataclass(frozen=True)
class Content:
    """Rows of the table (`lake_rows`), and of the quarantine without duplicates (`quarantined`); of these
    `of_source_rows` and `of_source_quarantined` are of the demo's own object. `gaps`: offsets of the topic
    that are in neither; `duplicates`: of offsets and source rows."""

    lake_rows: int
    quarantined: int
    of_source_rows: int
    of_source_quarantined: int
    gaps: int
    duplicates: int


def content(lake: Table, quarantine: Table, sample_id: str, topic: Offsets) -> Content:
    """Read offsets and origins of all rows of `main`; `sample_id`: the demo's source id.

    Duplicates in the quarantine (reason `duplicate:…`) have offsets, but are no source rows of their own.
    """
    columns = (*OFFSETS, "_source_id", "_source_row")
    with held(details.read(lake, columns), details.read(quarantine, (*columns, "reason"))) as sql:
        offsets = compare(sql, details.stream_starts(lake), topic)
        counts = sql.rows(
            f"""
            with of_source as (
                select 'lake' as origin, _source_row from lake where _source_id = '{sample_id}'
                union all
                select 'quarantine', _source_row from quarantine
                where _source_id = '{sample_id}' and not reason like 'duplicate:%'
            )
            select
                (select count(*) from lake),
                (select count(*) from quarantine where not reason like 'duplicate:%'),
                count(*) filter (origin = 'lake'),
                count(*) filter (origin = 'quarantine'),
                count(*) - count(distinct _source_row)
            from of_source
            """
        )
    rows, quarantined, of_source, of_source_quarantined, duplicated = counts[0]
    duplicates = offsets.duplicates + duplicated
    return Content(rows, quarantined, of_source, of_source_quarantined, offsets.gaps, duplicates)


def result(rows: int, records: int, found: Content) -> DemoResult:
    """`rows`: of the demo's own object; the figures count everything in topic and table."""
    return DemoResult(
        [
            Figure("source rows", rows, "the source object"),
            *offset_figures(
                *(records, found.lake_rows, found.quarantined, found.gaps, found.duplicates),
                of="record offsets and source rows in the lake",
            ),
        ],
        [
            Check(rows > 0, "the source has no rows"),
            Check(
                found.of_source_rows + found.of_source_quarantined == rows,
                f"{rows} rows in the source, but {found.of_source_rows} in the lake "
                f"and {found.of_source_quarantined} in quarantine",
            ),
            *gaps_and_duplicates(found.gaps, found.duplicates),
        ],
    )
