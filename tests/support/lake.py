"""A lake without a stack: a SQLite catalog and files in a temporary folder, written as a consumer writes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import IcebergTables
from sqlalchemy import Engine, event, update
from sqlalchemy.orm import Session

from local.base import UsageError
from sluice.clients.lake.catalog import Lake
from sluice.config.platform_sections.lake import CATALOG

TABLE = "raw.nyc_taxi"
QUARANTINE = "raw.nyc_taxi_quarantine"
ROWS = pa.schema(
    [
        pa.field("fare_amount", pa.float64()),
        pa.field("_kafka_partition", pa.int32()),
        pa.field("_kafka_offset", pa.int64()),
        pa.field("_source_id", pa.string()),
        pa.field("_source_row", pa.int64()),
    ]
)
BAD_ROWS = pa.schema(
    [
        pa.field("stage", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("_kafka_partition", pa.int32()),
        pa.field("_kafka_offset", pa.int64()),
        pa.field("_source_id", pa.string()),
        pa.field("_source_row", pa.int64()),
        pa.field("object", pa.string()),
        pa.field("line", pa.int64()),
    ]
)


@event.listens_for(Engine, "connect")
def _wait_for_no_disk(connection: Any, _: object) -> None:
    """No test outlives a power failure: a commit need not wait until the disk has it."""
    if isinstance(connection, Connection):
        connection.execute("PRAGMA synchronous = OFF")


def make(folder: Path) -> Lake:
    """An empty lake with both tables."""
    lake = empty(folder)
    lake.catalog.create_namespace("raw")
    lake.catalog.create_table(TABLE, ROWS)
    lake.catalog.create_table(QUARANTINE, BAD_ROWS)
    return lake


def empty(folder: Path) -> Lake:
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / 'catalog.db'}"
    return Lake({"type": "sql", "uri": uri, "warehouse": (folder / "warehouse").as_uri()})


def summary(
    kind: str,
    epoch: int,
    ends: dict[int, int],
    starts: dict[int, int] | None = None,
    ranges: dict[int, tuple[int, int]] | None = None,
    more: dict[str, str] | None = None,
) -> dict[str, str]:
    """As a consumer writes it; ``more``: other entries, without their prefix."""
    starts, now = starts or dict.fromkeys(ends, 0), str(int(time.time() * 1000))
    return {
        "sluice.acquired-at": now,
        **({"sluice.started-at": now} if kind == "batch" else {}),
        **{f"sluice.{key}": value for key, value in (more or {}).items()},
        "sluice.offset-ranges": json.dumps({str(p): list(pair) for p, pair in (ranges or {}).items()}),
        "sluice.kind": kind,
        "sluice.epoch": str(epoch),
        "sluice.end-offsets": json.dumps({str(p): o for p, o in ends.items()}),
        "sluice.start-offsets": json.dumps({str(p): o for p, o in starts.items()}),
    }


def append(
    lake: Lake,
    rows: list[tuple[int, int]],
    properties: dict[str, str] | None = None,
    source: str | None = "a" * 16,
) -> None:
    """One file with these (partition, offset); each row's number in its source is its offset."""
    data = [
        {
            "fare_amount": 1.0,
            "_kafka_partition": p,
            "_kafka_offset": o,
            "_source_id": source,
            "_source_row": o if source else None,
        }
        for p, o in rows
    ]
    table = pa.Table.from_pylist(data, schema=ROWS)
    lake.catalog.load_table(TABLE).append(table, snapshot_properties=properties or {})


def quarantine(lake: Lake, rows: list[dict[str, object]], properties: dict[str, str] | None = None) -> None:
    table = pa.Table.from_pylist(rows, schema=BAD_ROWS)
    lake.catalog.load_table(QUARANTINE).append(table, snapshot_properties=properties or {})


def restore_catalog(lake: Lake, locations: Mapping[str, str]) -> None:
    """Set the metadata files of these tables, as a restored backup of the catalog's database does."""
    with Session(lake.catalog.engine) as session, session.begin():
        for name, location in locations.items():
            namespace, table = name.split(".")
            row = update(IcebergTables).where(
                IcebergTables.catalog_name == CATALOG,
                IcebergTables.table_namespace == namespace,
                IcebergTables.table_name == table,
            )
            changed = row.values(metadata_location=location).returning(IcebergTables.table_name)
            if session.scalars(changed).all() != [table]:
                raise UsageError(f"the catalog does not have table {name}")


def batches(lake: Lake, numbers: range, more: dict[str, str] | None = None) -> None:
    """Publish a batch of one offset for each of the numbers."""
    for number in numbers:
        append(lake, [], summary("batch", 1, {0: number + 1}, more=more))
