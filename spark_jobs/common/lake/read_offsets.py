"""What files hold whose bounds do not tell: their coordinates, read back from where they were written.

Not through Spark, which asks three times for each of a batch's many small files, and takes six times the CPU.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from pyarrow import parquet

from sluice.io.s3 import connect
from sluice.model.spec.platform import S3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

COLUMNS = ["_kafka_partition", "_kafka_offset"]
THREADS = 8
# The coordinates are a table's last columns, so they lie before the footer: this holds both as a rule.
TAIL_BYTES = 1024 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class OffsetReader:
    """Reads files as they are in the bucket. It keeps its connections."""

    def __init__(self, s3: S3, tail_bytes: int | None = None, client: S3Client | None = None) -> None:
        """``tail_bytes``: what is read of a file at first, by default TAIL_BYTES. ``client``: in the place of
        one with the keys of ``s3``."""
        self._tail_bytes = tail_bytes
        self._client = client or connect(s3)

    def coordinates(self, uris: Iterable[str]) -> dict[int, list[int]]:
        """Partition -> every offset in these files (``s3://…``), each as often as it is there.

        One GET for a file, more only where its coordinates and its footer take more than its tail. Raises
        botocore's errors and Arrow's where a file is not there, or cannot be read.
        """
        with ThreadPoolExecutor(THREADS) as threads:
            tables = list(threads.map(self._read, uris))
        if not tables:
            return {}
        partitions, offsets = (column.to_numpy() for column in pyarrow.concat_tables(tables).columns)
        return {int(number): offsets[partitions == number].tolist() for number in numpy.unique(partitions)}

    def _read(self, uri: str) -> pyarrow.Table:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        with _Object(self._client, bucket, key, self._tail_bytes or TAIL_BYTES) as file:
            return parquet.ParquetFile(file).read(columns=COLUMNS, use_threads=False)


class _Object(io.RawIOBase):
    """An object of the bucket as a file. Its end comes with the first request, and is kept."""

    def __init__(self, client: Any, bucket: str, key: str, tail_bytes: int) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        answer = self._get(f"bytes=-{tail_bytes}")
        self._tail: bytes = answer["Body"].read()
        found = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        # Without a range, as S3 may answer where it is longer than the object: it is all of it.
        self._from, self._size = (int(found[1]), int(found[2])) if found else (0, len(self._tail))
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
