"""Record offsets read from files whose bounds are not conclusive.

Without Spark, which sends three requests per small file and takes six times the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from pyarrow import parquet

from sluice.clients.s3.object_file import ObjectFile
from sluice.clients.s3.requests import split
from sluice.core.offsets.ranges import IntervalSet

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COLUMNS = ["_kafka_partition", "_kafka_offset"]
THREADS = 8


class OffsetReader:
    """Reads files of the bucket, over connections that stay open."""

    def __init__(self, client: S3Client) -> None:
        self._client = client

    def tables(self, uris: Iterable[str], columns: Sequence[str]) -> list[pyarrow.Table]:
        """Return these columns of each file (``s3://…``).

        One GET per file unless its last columns and footer exceed TAIL_BYTES. Raises FileNotFoundError,
        botocore's and Arrow's errors if a file is missing or unreadable.
        """
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(lambda uri: self._read(uri, columns), uris))

    def _read(self, uri: str, columns: Sequence[str]) -> pyarrow.Table:
        bucket, key = split(uri)
        with ObjectFile(self._client, bucket, key) as file:
            # Millions of ids of a few sources.
            repeated = [name for name in columns if name == "_source_id"]
            table = parquet.ParquetFile(file, read_dictionary=repeated)
            read = table.read(columns=columns, use_threads=False)
        # A table's offsets are never null, a quarantine's may be: without that the files are of one schema.
        return pyarrow.Table.from_arrays(read.columns, names=read.column_names)


def by_partition(rows: pyarrow.Table) -> dict[int, Any]:
    """Partition -> offsets of ``rows``, whose columns are COLUMNS, with duplicates, as NumPy arrays."""
    partitions, offsets = (column.to_numpy() for column in rows.columns)
    return {int(number): offsets[partitions == number] for number in numpy.unique(partitions)}


def is_in(values: Any, ranges: IntervalSet) -> Any:
    """Return which of a NumPy array's whole numbers are in the ranges."""
    pairs = numpy.array(ranges.pairs() or [(0, 0)], dtype="int64")
    before = numpy.searchsorted(pairs[:, 0], values, side="right") - 1
    return (before >= 0) & (values < pairs[numpy.maximum(before, 0), 1])
