"""The demo's figures, each read from the system that owns it, and none from what a job said."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.table import Table

from local.errors import Problem
from local.stack import Stack
from sluice.model.source import source_id
from sluice.model.stream import StreamSpec

Offsets = dict[int, tuple[int, int]]


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


def stream_starts(table: Table) -> dict[int, int]:
    """Where the stream began on the topic, from the newest snapshot on main that a consumer made.

    Raises Problem when there is none: then nothing was ever published.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if "sluice.starts" in summary:
            return {
                int(partition): int(start)
                for partition, start in json.loads(summary["sluice.starts"]).items()
            }
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    raise Problem(f"table {'.'.join(table.name())}: no snapshot on main says where the stream began")


@dataclass(frozen=True)
class Content:
    """What the table and the quarantine hold. Offsets by partition, not sorted, repeats kept."""

    lake_rows: int
    quarantined: int
    of_source_rows: int
    of_source_quarantined: int
    offsets: dict[int, NDArray[np.int64]]
    repeated_source_rows: int


def content(lake: Table, quarantine: Table, wanted: str) -> Content:
    """Reads the coordinates and origins of all rows of `main`, streaming; `wanted` is the demo's source id.

    Repeats in the quarantine (reason `repeat:…`) hold coordinates, but are no source rows of their own.
    """
    offsets: dict[int, list[NDArray[np.int64]]] = {}
    lake_rows = quarantined = of_source = of_source_quarantined = 0
    rows: list[NDArray[np.int64]] = []
    for batch in _scan(lake, ("_kafka_partition", "_kafka_offset", "_source_id", "_source_row")):
        lake_rows += batch.num_rows
        _collect(batch, offsets)
        mine = _of(batch, wanted)
        of_source += _count(mine)
        rows.append(_rows(batch, mine))
    columns = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_row", "reason")
    for batch in _scan(quarantine, columns):
        own = pc.invert(pc.starts_with(batch.column("reason"), "repeat:"))
        quarantined += _count(own)
        _collect(batch, offsets)
        mine = pc.and_(_of(batch, wanted), own)
        of_source_quarantined += _count(mine)
        rows.append(_rows(batch, mine))
    all_rows = np.concatenate(rows) if rows else np.empty(0, np.int64)
    return Content(
        lake_rows,
        quarantined,
        of_source,
        of_source_quarantined,
        {partition: np.concatenate(parts) for partition, parts in offsets.items()},
        int(len(all_rows) - len(np.unique(all_rows))),
    )


def _scan(table: Table, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    yield from table.scan(selected_fields=columns).to_arrow_batch_reader()


def _of(batch: pa.RecordBatch, source: str) -> pa.BooleanArray:
    """Which rows are of this source; rows of foreign producers have none."""
    return pc.fill_null(pc.equal(batch.column("_source_id"), source), fill_value=False)


def _rows(batch: pa.RecordBatch, mask: pa.BooleanArray) -> NDArray[np.int64]:
    return np.asarray(batch.filter(mask).column("_source_row").to_numpy(zero_copy_only=False), np.int64)


def _count(mask: pa.BooleanArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _collect(batch: pa.RecordBatch, offsets: dict[int, list[NDArray[np.int64]]]) -> None:
    """Adds the batch's coordinates; rows refused before they reached the topic have none."""
    on_topic = batch.filter(pc.is_valid(batch.column("_kafka_partition")))
    partitions = on_topic.column("_kafka_partition").to_numpy(zero_copy_only=False)
    values = np.asarray(on_topic.column("_kafka_offset").to_numpy(zero_copy_only=False), np.int64)
    for partition in np.unique(partitions):
        offsets.setdefault(int(partition), []).append(values[partitions == partition])


def gaps(held: dict[int, NDArray[np.int64]], starts: dict[int, int], topic: Offsets) -> int:
    """Offsets from the stream's start to the topic's end that nothing holds."""
    missing = 0
    for partition, (begin, end) in topic.items():
        start = starts.get(partition, begin)
        values = np.unique(held.get(partition, np.empty(0, np.int64)))
        inside = int(((values >= start) & (values < end)).sum())
        missing += max(0, end - start) - inside
    return missing


def duplicates(held: dict[int, NDArray[np.int64]]) -> int:
    """Coordinates that are held more than once, each counted as often as it is too many."""
    return sum(int(len(values) - len(np.unique(values))) for values in held.values())


def bucket_counts(stack: Stack, warehouse: str) -> tuple[int, int, int]:
    """Objects, versions and delete markers under the warehouse's prefix (`s3://bucket/prefix`)."""
    where = urlsplit(warehouse)
    pages = stack.s3("airflow").get_paginator("list_object_versions")
    objects = versions = markers = 0
    for page in pages.paginate(Bucket=where.netloc, Prefix=where.path.strip("/") + "/"):
        listed = page.get("Versions", [])
        versions += len(listed)
        objects += sum(1 for version in listed if version.get("IsLatest"))
        markers += len(page.get("DeleteMarkers", []))
    return objects, versions, markers


def s3_calls(stack: Stack) -> int | None:
    """All S3 calls since MinIO's start; None with an S3 that is not ours."""
    return None if stack.context.external is not None else sum(stack.minio_requests().values())


def tables(stack: Stack, spec: StreamSpec) -> tuple[Table, Table]:
    """The stream's table and its quarantine, with the reader's rights."""
    catalog = stack.catalog("reader")
    return catalog.load_table(spec.table), catalog.load_table(spec.quarantine_table)


def total(values: Iterable[tuple[int, int]]) -> int:
    """Records between begin and end, over all partitions."""
    return sum(end - begin for begin, end in values)
