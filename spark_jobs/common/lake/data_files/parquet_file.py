"""One Parquet file of a table, from rows that come piece by piece."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sluice.clients.s3.requests import split
from spark_jobs.common.lake.data_files.fitting import fitted
from spark_jobs.common.lake.data_files.schema import leaf_ids
from spark_jobs.common.lake.written.read_offsets import COLUMNS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# What is encoded at once, so what a file needs of memory: its rows wait for so many, or so many bytes.
ROWS_PER_GROUP = 150_000
BYTES_PER_GROUP = 64 << 20
# Columns of numbers that are all different: a dictionary is made of them in vain.
_NO_DICTIONARY = frozenset({"_kafka_offset", "_source_row"})
# A file is in memory to this size, and on the task's disk beyond.
_SPOOL_BYTES = 16 << 20
# A larger one is sent in parts, of which each is a request.
_ONE_REQUEST_BYTES = 256 << 20
_MAGIC = b"PAR1"


@dataclass(frozen=True)
class DataFile:
    """A file of the bucket, whole, that no commit names yet.

    ``uri``: its address; ``size``: in bytes; ``records``: number of its rows; ``footer``: its last bytes,
    behind the magic ones, as a file of its own that has no rows; ``splits``: where its row groups begin;
    ``partition``: each partition field, as a stream.toml spells it, with its value as Iceberg writes it in
    JSON; ``offsets``:
    what its columns COLUMNS hold, read back, where its bounds do not tell: then they need not be read from
    the bucket. None where these do; ``unbounded``: field ids of columns of which a row group has values and
    no bounds: those of the others are not the file's.
    """

    uri: str
    size: int
    records: int
    footer: bytes
    splits: tuple[int, ...]
    partition: tuple[tuple[str, Any], ...] = ()
    offsets: pa.Table | None = None
    unbounded: frozenset[int] = frozenset()


class ParquetFile:
    """A file while it is written. In its context; leaving it removes what is on the disk."""

    def __init__(self, schema: pa.Schema, sorted_by: Sequence[str] = (), *, has_gaps: bool = False) -> None:
        """``schema``: of :func:`.schema.arrow_schema`; columns that the rows lack are null. ``sorted_by``:
        the columns that each row group is sorted by. ``has_gaps``: between the rows' offsets, so that bounds
        never tell them."""
        self.schema, self._sorted_by, self._has_gaps = schema, sorted_by, has_gaps
        self.records = 0
        self._body: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        self._writer = parquet.ParquetWriter(
            self._body,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_with_dictionary(schema),
            store_schema=False,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        # The topic's, of which it has records.
        self._partitions: set[int | None] = set()
        # The least and the greatest of their offsets.
        self._bounds: tuple[int, int] | None = None
        self._has_offsets = set(COLUMNS) <= set(schema.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In this order: else the library closes its writer later, on a file that is closed.
        self._writer.close()
        self._body.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows with columns of the schema, by name, in any order. Raises Arrow's errors for a column that is
        not of its type, or null in one that must not be."""
        if not rows.num_rows:
            return
        self._waiting.append(fitted(rows, self.schema))
        self.records += rows.num_rows
        if self._has_offsets:
            self._partitions.update(pc.unique(self._waiting[-1].column(COLUMNS[0])).to_pylist())
            self._widen(self._waiting[-1].column(COLUMNS[1]))
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= ROWS_PER_GROUP or self._bytes >= BYTES_PER_GROUP:
            self.flush()

    def _widen(self, offsets: pa.Array) -> None:
        found = pc.min_max(offsets)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            known = self._bounds or (low, high)
            self._bounds = min(low, known[0]), max(high, known[1])

    @property
    def _is_contiguous(self) -> bool:
        """Whether its bounds tell its offsets: no record between them was rejected, or is none."""
        return self._bounds is not None and self.records == self._bounds[1] - self._bounds[0] + 1

    def flush(self) -> None:
        """Make a row group of what waits."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self.schema)
            if self._sorted_by:
                table = table.sort_by([(name, "ascending") for name in self._sorted_by])
            self._writer.write_table(table, row_group_size=max(self._rows, 1))
            self._waiting, self._rows, self._bytes = [], 0, 0
            pa.default_memory_pool().release_unused()

    def upload(self, client: S3Client, uri: str, partition: tuple[Any, ...] = ()) -> DataFile:
        """End the file and send it. Raises botocore's errors."""
        from boto3.s3.transfer import TransferConfig

        self.flush()
        self._writer.close()
        size = self._body.tell()
        self._body.seek(-8, 2)
        length = int.from_bytes(self._body.read(4), "little")
        self._body.seek(-8 - length, 2)
        footer = self._body.read()
        metadata = parquet.read_metadata(pa.BufferReader(_MAGIC + footer))
        columns = (metadata.row_group(number).column(0) for number in range(metadata.num_row_groups))
        splits = tuple(one.dictionary_page_offset or one.data_page_offset for one in columns)
        offsets = None
        tells = len(self._partitions) == 1 and self._is_contiguous
        if self._has_offsets and (self._has_gaps or partition or not tells):
            self._body.seek(0)
            offsets = parquet.ParquetFile(self._body).read(COLUMNS, use_threads=False)
        self._body.seek(0)
        bucket, key = split(uri)
        # In this thread: the task is one of as many as there are cores.
        parts = TransferConfig(multipart_threshold=_ONE_REQUEST_BYTES, use_threads=False)
        client.upload_fileobj(Fileobj=self._body, Bucket=bucket, Key=key, Config=parts)
        return DataFile(
            uri, size, self.records, _MAGIC + footer, splits, partition, offsets, self._unbounded(metadata)
        )

    def _unbounded(self, metadata: parquet.FileMetaData) -> frozenset[int]:
        """Arrow leaves out a bound that is longer than 4 kB, and Iceberg takes such a row group for one of
        nulls."""
        ids = leaf_ids(self.schema)
        found = set[int]()
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place, field_id in enumerate(ids):
                column = group.column(place)
                said = column.statistics
                if said is None or (not said.has_min_max and said.num_values):
                    found.add(field_id)
        return frozenset(found)


@cache
def _with_dictionary(schema: pa.Schema) -> list[str]:
    """Parquet's names of the columns that get a dictionary."""
    file = pa.BufferOutputStream()
    with parquet.ParquetWriter(file, schema):
        pass
    columns = parquet.read_metadata(pa.BufferReader(file.getvalue())).schema
    paths = [columns.column(number).path for number in range(len(columns))]
    return [path for path in paths if path not in _NO_DICTIONARY]
