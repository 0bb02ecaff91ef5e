"""The files of a partitioned table: one for each partition that its rows are in.

Partition values as Iceberg computes and writes them: https://iceberg.apache.org/spec/#partition-transforms,
and "JSON single-value serialization" of its appendix D.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.clients.s3.requests import at_once
from sluice.config.schema import Partition
from spark_jobs.common.lake.data_files.parquet_file import BYTES_PER_GROUP, DataFile, ParquetFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Decimal's own context has 28.
_DIGITS = Context(prec=40)
# A row's partition: a value for each partition field.
Values = tuple[Any, ...]


@dataclass(frozen=True)
class Layout:
    """How a table's rows are laid out: its columns with field ids, its ``partitions``, and the address of its
    data folder, with a slash at its end. Files are sorted by the columns of partitions that are truncated, so
    that a reader of one value skips the others."""

    schema: pa.Schema
    folder: str
    partitions: tuple[Partition, ...] = ()

    @property
    def sorted_by(self) -> list[str]:
        return [partition.column for partition in self.partitions if partition.width]


class Files:
    """The files of some rows, by their partitions. In its context.

    Rows wait in memory for BYTES_PER_GROUP in all: then those of each file become a row group of it.
    """

    def __init__(self, layout: Layout, name: str) -> None:
        """``name``: of each file, in its partition's folder, behind its number: two values may have the same
        folder."""
        self._layout, self._name = layout, name
        self._files: dict[Values, ParquetFile] = {}
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.__exit__(kind, error, trace)

    def add(self, rows: pa.RecordBatch) -> None:
        """As :meth:`ParquetFile.add`."""
        for values, part in by_partition(rows, self._layout.partitions):
            self.add_to(values, part)

    def add_to(self, values: Values, rows: pa.RecordBatch) -> None:
        """Rows of one partition."""
        if not rows.num_rows:
            return
        if values not in self._files:
            self._files[values] = ParquetFile(self._layout.schema, self._layout.sorted_by)
        self._files[values].add(rows)
        self._bytes += rows.nbytes
        if self._bytes >= BYTES_PER_GROUP:
            self._bytes = 0
            for file in self._files.values():
                file.flush()

    def upload(self, client: S3Client) -> list[DataFile]:
        """End the files and send them, some at once. Raises botocore's errors."""

        def send(one: tuple[int, tuple[Values, ParquetFile]]) -> DataFile:
            number, (values, file) = one
            folder = f"{self._layout.folder}{path(self._layout.partitions, values)}"
            named = zip(map(str, self._layout.partitions), map(as_json, values), strict=True)
            return file.upload(client, f"{folder}{number:05d}-{self._name}", tuple(named))

        return at_once(enumerate(self._files.items()), send)


def by_partition(
    rows: pa.RecordBatch, partitions: Sequence[Partition]
) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """The rows of each partition, in their order."""
    if not partitions or not rows.num_rows:
        yield (), rows
        return
    places = {name.lower(): place for place, name in enumerate(rows.schema.names)}
    columns = [
        transformed(rows.column(places[one.column.lower()]), one.width).dictionary_encode(
            null_encoding="encode"
        )
        for one in partitions
    ]
    codes = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for first, end in zip(firsts, [*firsts[1:], len(order)], strict=True):
        row = int(order[first])
        yield tuple(column[row].as_py() for column in columns), rows.take(pa.array(order[first:end]))


def transformed(column: pa.Array, width: int | None) -> pa.Array:
    """``identity``, or ``truncate`` to this width: a text's first characters, the first bytes, a number
    rounded down to a multiple."""
    if width is None:
        return column
    kind = column.type
    if pa.types.is_string(kind):
        return pc.utf8_slice_codeunits(column, 0, width)
    if pa.types.is_binary(kind):
        return pc.binary_slice(column, 0, width)
    if pa.types.is_decimal(kind):
        return pa.array([_truncated(one, width, kind.scale) for one in column.to_pylist()], kind)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(
        numbers - np.mod(numbers, width), kind, mask=column.is_null().to_numpy(zero_copy_only=False)
    )


def _truncated(value: Decimal | None, width: int, scale: int) -> Decimal | None:
    """By the number without its point, which has up to 38 digits."""
    if value is None:
        return None
    number = int(value.scaleb(scale, _DIGITS))
    return Decimal(number - number % width).scaleb(-scale, _DIGITS)


def path(partitions: Sequence[Partition], values: Values) -> str:
    """The folders of a partition, as Iceberg's ``PartitionSpec.partitionToPath`` writes them."""
    names = [f"{one.column}_trunc" if one.width else one.column for one in partitions]
    texts = ["null" if value is None else str(as_json(value)) for value in values]
    return "".join(f"{quote_plus(name)}={quote_plus(text)}/" for name, text in zip(names, texts, strict=True))


def as_json(value: Any) -> Any:
    """A partition value for JSON."""
    match value:
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex().upper()
    return value
