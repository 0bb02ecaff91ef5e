"""The taxi demo's figures, each read from the system that owns it, and none from what a job said."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.table import Table

from local.evidence import Coordinates, Held, both, scan
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
    """What the table and the quarantine hold. Offsets by partition, not sorted, repeats kept."""

    lake_rows: int
    quarantined: int
    of_source_rows: int
    of_source_quarantined: int
    offsets: Held
    repeated_source_rows: int


def content(lake: Table, quarantine: Table, wanted: str) -> Content:
    """Reads the coordinates and origins of all rows of `main`, streaming; `wanted` is the demo's source id.

    Repeats in the quarantine (reason `repeat:…`) hold coordinates, but are no source rows of their own.
    """
    in_table, aside = Coordinates(), Coordinates()
    lake_rows = quarantined = of_source = of_source_quarantined = 0
    rows: list[NDArray[np.int64]] = []
    for batch in scan(lake, ("_kafka_partition", "_kafka_offset", "_source_id", "_source_row")):
        lake_rows += batch.num_rows
        in_table.add(batch)
        mine = _of(batch, wanted)
        of_source += _count(mine)
        rows.append(_rows(batch, mine))
    columns = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_row", "reason")
    for batch in scan(quarantine, columns):
        own = pc.invert(pc.starts_with(batch.column("reason"), "repeat:"))
        quarantined += _count(own)
        aside.add(batch)
        mine = pc.and_(_of(batch, wanted), own)
        of_source_quarantined += _count(mine)
        rows.append(_rows(batch, mine))
    all_rows = np.concatenate(rows) if rows else np.empty(0, np.int64)
    return Content(
        lake_rows,
        quarantined,
        of_source,
        of_source_quarantined,
        both(in_table.held(), aside.once()),
        int(len(all_rows) - len(np.unique(all_rows))),
    )


def _of(batch: pa.RecordBatch, source: str) -> pa.BooleanArray:
    """Which rows are of this source; rows of foreign producers have none."""
    return pc.fill_null(pc.equal(batch.column("_source_id"), source), fill_value=False)


def _rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> NDArray[np.int64]:
    return np.asarray(batch.filter(mask).column("_source_row").to_numpy(zero_copy_only=False), np.int64)


def _count(mask: pa.BooleanArray) -> int:
    return int(pc.sum(mask).as_py() or 0)
