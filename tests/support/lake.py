"""A lake without a stack: a SQLite catalog and files in a temporary folder, written as a consumer writes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection, connect
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata
from sqlalchemy import Engine, event, update
from sqlalchemy.orm import Session

from local.base import UsageError
from sluice.clients.lake.catalog import Lake
from sluice.config.platform_sections.lake import CATALOG

TABLE = "raw.nyc_taxi"
QUARANTINE = "raw.nyc_taxi_quarantine"
CATALOG_FILE = "catalog.db"
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


def _metadata(transaction: Transaction) -> TableMetadata:
    """A transaction's metadata, applied once: PyIceberg applies all updates, and copies the result at every
    depth, each time that it looks at them, some twenty times in a commit."""
    of = (transaction._table.metadata, transaction._updates)
    known = transaction.__dict__.get("_known")
    if known is None or known[0][0] is not of[0] or known[0][1] is not of[1]:
        known = transaction.__dict__["_known"] = (of, update_table_metadata(*of))
    found: TableMetadata = known[1]
    return found


# The library's values, in less time: a test makes many commits.
Transaction.table_metadata = property(_metadata)  # type: ignore[method-assign, assignment]


def make(folder: Path) -> Lake:
    """An empty lake with both tables, each with an id of its own."""
    if not _first:
        lake = empty(folder)
        lake.catalog.create_namespace("raw")
        for name, schema in ((TABLE, ROWS), (QUARANTINE, BAD_ROWS)):
            lake.catalog.create_table(name, schema)
        _first.append(Image(folder))
        return lake
    return _first[0].created(folder)


class Image:
    """The files of a lake's folder, from which it is made again in a fraction of the time of its commits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {
            path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def again(self) -> Lake:
        """The lake as it was, in the same folder: manifests have its name."""
        shutil.rmtree(self._folder)
        self._write(self._folder, lambda _, content: content)
        return empty(self._folder)

    def created(self, folder: Path) -> Lake:
        """Without a snapshot: the tables as if they were created now, in another folder."""
        self._write(
            folder, lambda name, content: self._created(content, folder) if name == ".json" else content
        )
        move = "update iceberg_tables set metadata_location = replace(metadata_location, ?, ?)"
        with closing(connect(folder / CATALOG_FILE)) as catalog, catalog:
            catalog.execute(move, (self._folder.as_uri(), folder.as_uri()))
        return empty(folder)

    def _write(self, folder: Path, written: Callable[[str, bytes], bytes]) -> None:
        for name, content in self._files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(written(name.suffix, content))

    def _created(self, content: bytes, folder: Path) -> bytes:
        text = content.decode().replace(self._folder.as_uri(), folder.as_uri())
        own = {"table-uuid": str(uuid4()), "last-updated-ms": int(time.time() * 1000)}
        return json.dumps({**json.loads(text), **own}).encode()


# The first lake of this process, before anything was written to it.
_first: list[Image] = []


def empty(folder: Path) -> Lake:
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / CATALOG_FILE}"
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
    """One file with these rows; without ``properties`` as a producer's."""
    table = pa.Table.from_pylist(rows, schema=BAD_ROWS)
    lake.catalog.load_table(QUARANTINE).append(
        table, snapshot_properties=properties or {"sluice.kind": "producer"}
    )


def restore_catalog(lake: Lake, locations: Mapping[str, str]) -> None:
    """Set the metadata files of these tables, as a restored backup of the catalog's database does."""
    with Session(cast("SqlCatalog", lake.catalog).engine) as session, session.begin():
        for name, location in locations.items():
            namespace, table = name.split(".")
            row = update(IcebergTables).where(
                IcebergTables.catalog_name == CATALOG,
                IcebergTables.table_namespace == namespace,
                IcebergTables.table_name == table,
            )
            changed: Any = session.execute(row.values(metadata_location=location))
            if changed.rowcount != 1:
                raise UsageError(f"the catalog does not have table {name}")


def batches(lake: Lake, numbers: range, more: dict[str, str] | None = None) -> None:
    """Publish a batch of one offset for each of the numbers."""
    for number in numbers:
        append(lake, [], summary("batch", 1, {0: number + 1}, more=more))
