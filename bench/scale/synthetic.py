"""A table of many rows with the columns that proofs read alone, in files of which the metadata proves
nothing: each has scattered offsets of all partitions, as those of a table that is partitioned by a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table

from sluice.clients.lake.catalog import Lake
from tests.support import lake as lakes

PARTITIONS = 4
SOURCES = 10
FILES_PER_BATCH = 2
BATCH_ROWS = 2_000_000
ROWS = pa.schema([field for field in lakes.ROWS if field.name.startswith("_")])


def source_ids() -> list[str]:
    return [f"{number:016x}" for number in range(SOURCES)]


def ends(rows: int) -> dict[int, int]:
    """Partition -> its end offset, of a table with so many rows."""
    return {partition: len(range(partition, rows, PARTITIONS)) for partition in range(PARTITIONS)}


def rows_of(source: int, rows: int) -> int:
    """How many rows of a table are of a source."""
    size = _source_size(rows)
    return max(min(rows - source * size, size), 0)


def _source_size(rows: int) -> int:
    return -(-rows // SOURCES)


def write(folder: Path, rows: int) -> None:
    """The lake, with ``rows`` records: record n is in partition n % PARTITIONS; the
    sources are sent one after the other, as a producer sends objects."""
    lake = lakes.empty(folder)
    lake.catalog.create_namespace("raw")
    lake.catalog.create_table(lakes.QUARANTINE, lakes.BAD_ROWS)
    table = lake.catalog.create_table(lakes.TABLE, ROWS)
    chance = np.random.default_rng(42)
    for begin in range(0, rows, BATCH_ROWS):
        end = min(begin + BATCH_ROWS, rows)
        said = lakes.summary("batch", 1, ends(end), ranges=_range(begin, end))
        for part in _files(begin, end, chance, _source_size(rows)):
            table.append(part, snapshot_properties=said)


def opened(folder: Path) -> tuple[Lake, Table]:
    lake = lakes.empty(folder)
    return lake, lake.table(lakes.TABLE)


def _range(begin: int, end: int) -> dict[int, tuple[int, int]]:
    before, after = ends(begin), ends(end)
    return {partition: (before[partition], after[partition]) for partition in after}


def _files(begin: int, end: int, chance: np.random.Generator, source_size: int) -> Iterator[pa.Table]:
    number = np.arange(begin, end)
    number = number[np.argsort(number % PARTITIONS, kind="stable")]
    file = chance.integers(0, FILES_PER_BATCH, len(number))
    names = pa.array(source_ids())
    for chosen in range(FILES_PER_BATCH):
        of_file = number[file == chosen]
        if not len(of_file):
            continue
        columns = {
            "_kafka_partition": pa.array(of_file % PARTITIONS, pa.int32()),
            "_kafka_offset": pa.array(of_file // PARTITIONS, pa.int64()),
            "_source_id": names.take(pa.array(of_file // source_size)),
            "_source_row": pa.array(of_file % source_size, pa.int64()),
        }
        yield pa.table(columns, schema=ROWS)
