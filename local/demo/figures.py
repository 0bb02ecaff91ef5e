"""The taxi demo's figures, each read from the system that owns it, and none from what a job said."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass

from pyiceberg.table import Table

from local.evidence import OFFSETS, Offsets, compare, held, scan, stream_starts
from local.stack import Stack
from sluice.model.source import source_id


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

    Repeats in the quarantine (reason `repeat:…`) hold coordinates, but are no source rows of their own.
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
                where _source_id = '{wanted}' and not reason like 'repeat:%'
            )
            select
                (select count(*) from lake),
                (select count(*) from quarantine where not reason like 'repeat:%'),
                count(*) filter (home = 'lake'),
                count(*) filter (home = 'quarantine'),
                count(*) - count(distinct _source_row)
            from of_source
            """
        )
    rows, aside, of_source, of_source_aside, repeated = counts[0]
    return Content(rows, aside, of_source, of_source_aside, exact.gaps, exact.duplicates + repeated)
