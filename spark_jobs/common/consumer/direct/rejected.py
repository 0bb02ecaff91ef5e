"""Rejected records, from the tasks that find them to one file of the quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.texts import printable
from sluice.core.offsets.quarantine import CONSUMER_STAGE, ON_PURPOSE
from spark_jobs.common.lake.data_files.parquet_file import DataFile, ParquetFile
from spark_jobs.common.lake.data_files.partitioned import Layout

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# What a task hands to the driver, which makes one file of them; more is a file of the task.
FEW_BYTES = 1 << 20
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Newest:
    """The newest malformed record, by its time, and where it is."""

    at: datetime
    partition: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"partition {self.partition}, offset {self.offset}: {' '.join(self.reason.split())}"


@dataclass(frozen=True)
class RejectedPart:
    """What a task rejected: ``count`` records, of which ``malformed`` were not rejected on purpose, the
    ``newest`` of these, and the records as ``few`` (an Arrow stream) or in a ``file``."""

    count: int = 0
    malformed: int = 0
    newest: Newest | None = None
    few: bytes = b""
    file: DataFile | None = None


class RejectedRows:
    """The rejected records of one task. In its context."""

    def __init__(self, layout: Layout, client: S3Client, name: str) -> None:
        """``layout``: of the quarantine; ``name``: of a file of many."""
        self._layout, self._client, self._name = layout, client, name
        self._count = self._malformed = self._bytes = 0
        self._newest: Newest | None = None
        self._few: list[pa.RecordBatch] = []
        self._file: ParquetFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.__exit__(kind, error, trace)

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows as ``piece.PieceRows.bad``."""
        if not rows.num_rows:
            return
        self._count += rows.num_rows
        rows = _staged(rows)
        self._see(rows)
        if self._file is None and self._bytes + rows.nbytes <= FEW_BYTES:
            self._few.append(rows)
            self._bytes += rows.nbytes
            return
        if self._file is None:
            self._file = ParquetFile(self._layout.schema, has_gaps=True)
            for few in self._few:
                self._file.add(few)
            self._few = []
        self._file.add(rows)

    def _see(self, rows: pa.RecordBatch) -> None:
        reasons = rows.column("reason")
        is_meant = pc.starts_with(reasons, ON_PURPOSE[0])
        for begin in ON_PURPOSE[1:]:
            is_meant = pc.or_(is_meant, pc.starts_with(reasons, begin))
        malformed = rows.filter(pc.invert(is_meant))
        self._malformed += malformed.num_rows
        times = malformed.column("_kafka_timestamp")
        newest = malformed.filter(pc.equal(times, pc.max(times)))
        # Without a time that can be read, any of them.
        last = newest if newest.num_rows else malformed
        last = last.slice(max(last.num_rows - 1, 0))
        names = ["_kafka_timestamp", "_kafka_partition", "_kafka_offset", "reason"]
        for at, *place in zip(*(last.column(name).to_pylist() for name in names), strict=True):
            one = Newest(at or _EARLIEST, *place)
            self._newest = one if self._newest is None else max(self._newest, one)

    def upload(self) -> RejectedPart:
        """Raises botocore's errors."""
        file, few = None, b""
        if self._file is not None:
            file = self._file.upload(self._client, f"{self._layout.folder}{self._name}")
        elif self._few:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._few[0].schema) as stream:
                for rows in self._few:
                    stream.write_batch(rows)
            few = sink.getvalue().to_pybytes()
        return RejectedPart(self._count, self._malformed, self._newest, few, file)


def _staged(rows: pa.RecordBatch) -> pa.RecordBatch:
    place = rows.schema.get_field_index("reason")
    # Most are one of a few.
    reasons = rows.column(place).dictionary_encode()
    shown = pa.array([printable(reason) for reason in reasons.dictionary.to_pylist()], pa.string())
    rows = rows.set_column(place, "reason", shown.take(reasons.indices))
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC"))
    more = {"stage": pa.scalar(CONSUMER_STAGE), "quarantined_at": now}
    for name, value in more.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def gathered(parts: Iterable[RejectedPart], layout: Layout, client: S3Client, name: str) -> list[DataFile]:
    """The files of what tasks rejected; what they handed over is one of this ``name``. Raises botocore's
    errors."""
    parts = list(parts)
    files = [part.file for part in parts if part.file is not None]
    few = [part.few for part in parts if part.few]
    if few:
        with ParquetFile(layout.schema, has_gaps=True) as file:
            for one in few:
                for rows in pa.ipc.open_stream(one):
                    file.add(rows)
            files.append(file.upload(client, f"{layout.folder}{name}"))
    return files
