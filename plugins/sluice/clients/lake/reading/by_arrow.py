"""Rows of data files by PyIceberg and PyArrow: for files with text that is not UTF-8 alone.

DuckDB reads no such file, and PyArrow hands the bytes on. The consumer rejects such records, so another
program wrote the file, and PyArrow is not its writer's judge. A person takes the records out by a change,
whose verification compares the rows that stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.data_files import InvalidText

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
# PyIceberg keeps all files of one call in memory.
FILES_AT_ONCE = 64


def read_any_text(ask: Callable[[Callable[..., pa.RecordBatchReader]], Answer]) -> Answer:
    """The answer of ``ask``, which is given :func:`files.read`: by DuckDB, and once more by PyArrow if a file
    has such a text."""
    try:
        return ask(files.read)
    except InvalidText as error:
        log.warning("%s; reading by PyArrow", error)
        return ask(partial(files.read, by=_read))


def _read(
    table: Table, tasks: Sequence[FileScanTask], projection: Schema, rows: BooleanExpression
) -> Iterator[pa.RecordBatch]:
    scan, schema = ArrowScan(table.metadata, table.io, projection, rows), schema_to_pyarrow(projection)
    for start in range(0, len(tasks), FILES_AT_ONCE):
        for batch in scan.to_record_batches(tasks[start : start + FILES_AT_ONCE]):
            # The files' types may be larger than the schema's (large_string).
            yield batch.cast(schema)
