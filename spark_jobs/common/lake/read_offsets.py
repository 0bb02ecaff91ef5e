"""Record offsets read from files whose bounds are not conclusive.

Without Spark, which sends three requests per small file and takes six times the CPU.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy
import pyarrow
from pyarrow import parquet

from sluice.io.s3 import connect
from sluice.model.spec.platform import S3

COLUMNS = ["_kafka_partition", "_kafka_offset"]
THREADS = 8
# Usually holds the footer and the offsets before it, since these are a table's last columns.
TAIL_BYTES = 1024 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class OffsetReader:
    """Reads files of the bucket, over connections that stay open."""

    def __init__(self, s3: S3) -> None:
        self._client = connect(s3)

    def tables(self, uris: Iterable[str], columns: Sequence[str]) -> list[pyarrow.Table]:
        """Return these columns of each file (``s3://…``).

        One GET per file unless its last columns and footer exceed TAIL_BYTES. Raises botocore's and Arrow's
        errors if a file is missing or unreadable.
        """
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(lambda uri: self._read(uri, columns), uris))

    def _read(self, uri: str, columns: Sequence[str]) -> pyarrow.Table:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        with _Object(self._client, bucket, key) as file:
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


class _Object(io.RawIOBase):
    """An object as a file; the first request reads its tail."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        answer = self._get(f"bytes=-{TAIL_BYTES}")
        self._tail: bytes = answer["Body"].read()
        content = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        # Without a range, as S3 may answer for a shorter object, it is the whole object.
        self._from, self._size = (int(content[1]), int(content[2])) if content else (0, len(self._tail))
        self._position = 0

    def _get(self, range_: str) -> Any:
        return self._client.get_object(Bucket=self._bucket, Key=self._key, Range=range_)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        begin = self._position
        end = self._size if size < 0 else min(begin + size, self._size)
        if begin >= end:
            return b""
        self._position = end
        if begin >= self._from:
            return self._tail[begin - self._from : end - self._from]
        body: bytes = self._get(f"bytes={begin}-{end - 1}")["Body"].read()
        return body
