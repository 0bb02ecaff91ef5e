"""The objects of a load's plan: read with boto3, typed and encoded by ``sluice.core.csv``, in their order.

The planned object *versions* are read: Spark's own reader knows no versions, so an object could change
between an attempt and its retry.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from botocore.exceptions import ClientError as S3Error
from numpy.typing import NDArray

from sluice.clients.s3.bodies import ResumedBody
from sluice.clients.s3.errors import asking, error_code
from sluice.clients.s3.unpacking import UNPACKING_ERRORS, OtherFormat, corrupt_message, unpacked
from sluice.core.csv.form import Form
from sluice.core.csv.header import HEADER_BYTES, names_of
from sluice.core.csv.layout import Layout, Rows
from sluice.core.csv.records.blocks import Block, First, begin, blocks
from sluice.core.csv.records.encodings import as_utf8
from sluice.core.csv.records.line_ends import LineEnds, UncertainRecords
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable

READ_BYTES = 1 << 18
# Where only the header of an object is read.
HEAD_BYTES = 16 * 1024
REJECTED_SCHEMA = "source_id string, object string, line bigint, row bigint, text binary, reason string"


class CorruptObject(RuntimeError):
    """An object is truncated or corrupt, of another format, has no header, or rows that no one can count."""

    code = ErrorCode.CORRUPT_OBJECT


@dataclass(frozen=True)
class SourceObject:
    """One object version of a load's plan: ``key`` in ``bucket``, of the source ``source_id``. ``version_id``
    is None if the bucket keeps no versions. Sent to ``partition_count`` topic partitions. ``size``: bytes as
    stored."""

    source_id: str
    bucket: str
    key: str
    version_id: str | None
    partition_count: int
    size: int

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def request(self) -> dict[str, Any]:
        version = {"VersionId": self.version_id} if self.version_id else {}
        return {"Bucket": self.bucket, "Key": self.key, **version}

    def _reading(self) -> AbstractContextManager[None]:
        version = f" version {self.version_id}" if self.version_id else ""
        return asking(f"source object {self.uri}{version}")

    def _asked(self, client: Any, **part: str) -> Any:
        """Raises Missing, Refused or Unreachable, naming the object and its version."""
        try:
            with self._reading():
                return client.get_object(**self.request(), **part)
        except Missing as error:
            raise Missing(
                f"{error}: it was deleted since it was planned. Fix: restore it, or trigger a new run",
                ErrorCode.OBJECT_NOT_FOUND,
            ) from error

    def chunks(self, client: Any, encoding: str, size: int = READ_BYTES) -> Generator[bytes]:
        """Its bytes in UTF-8, at most ``size`` of the object at once. Raises CorruptObject, Missing, Refused
        or Unreachable."""
        with self._reading(), ResumedBody(partial(self._asked, client)) as body:
            try:
                yield from as_utf8(unpacked(body, size), encoding)
            except OtherFormat as error:
                raise CorruptObject(f"{self.uri}: {error}") from error
            except UNPACKING_ERRORS as error:
                raise CorruptObject(
                    f"{self.uri}: {corrupt_message(error)}. Fix: upload the whole object again"
                ) from error

    def column_names(self, client: Any, form: Form) -> tuple[str, ...]:
        """The columns of its header, or those that are declared. Raises CorruptObject or InvalidHeader."""
        if form.names:
            return form.names
        found = self._header_of_begin(client, form)
        if found is None:
            with closing(self.chunks(client, form.encoding, HEAD_BYTES)) as chunks:
                found = begin(chunks, form, HEADER_BYTES)
        if found is None:
            raise CorruptObject(
                f"{self.uri}: no header line of at most {HEADER_BYTES} bytes. Fix: put an object whose first "
                "line names the columns, or declare [csv] names"
            )
        return tuple(names_of(found.record, form.dialect, self.uri))

    def _header_of_begin(self, client: Any, form: Form) -> First | None:
        """The header, as far as the object's first bytes have all of it: of a whole object that is closed, S3
        has sent megabytes by then."""
        try:
            head = ResumedBody(partial(self._asked, client), Range=f"bytes=0-{HEADER_BYTES - 1}")
        except Unreachable as error:
            if isinstance(error.__cause__, S3Error) and error_code(error.__cause__) == "InvalidRange":
                # It is empty.
                return None
            raise
        with self._reading(), head as body:
            # To its end, so that the connection is used again.
            part = io.BytesIO(body.readall())
        try:
            found = begin(as_utf8(unpacked(part, HEAD_BYTES), form.encoding), form, HEADER_BYTES)
        except (OtherFormat, *UNPACKING_ERRORS):
            return None
        # What ends with the range may go on.
        return found if found and found.end else None


@dataclass(frozen=True)
class Share:
    """The rows of an object that one task sends: those of each ``of``-th target partition from ``number`` on.

    Tasks that share an object read and cut all of it, and type a part: its quotes need not tell where a row
    begins, it may be compressed, and each target partition still gets its rows in their order from one task.
    """

    number: int = 0
    of: int = 1

    def has(self, targets: NDArray[np.int64]) -> NDArray[np.bool_]:
        return targets % self.of == self.number


WHOLE = Share()


@dataclass(frozen=True)
class Reading:
    """How a task reads an object: bytes to cells by ``form``, cells to Avro bodies by ``layout``;
    ``headers``: of its records, which name the layout's schema."""

    source: SourceObject
    form: Form
    layout: Layout
    headers: tuple[tuple[str, bytes], ...] = ()

    def blocks(
        self, client: Any, with_reasons: bool, share: Share = WHOLE
    ) -> Iterator[tuple[Block, Rows, int]]:
        """Its records with what those of the ``share`` are, and the 0-based row of each block's first."""
        with closing(self.source.chunks(client, self.form.encoding)) as chunks:
            dialect, row = self.form.dialect, 0
            first = begin(chunks, self.form, HEADER_BYTES) or First()
            line_ends = LineEnds(dialect, first.end)
            try:
                for block in blocks(chain([first.behind], chunks), dialect, self.layout.width, first.line):
                    line_ends.check(block.records, row, block.line)
                    count = len(block.records)
                    wanted = None
                    if share.of > 1:
                        wanted = share.has(np.arange(row, row + count) % self.source.partition_count)
                    yield block, self.layout.rows(block.records, with_reasons, wanted), row
                    row += count
            except UncertainRecords as error:
                raise CorruptObject(f"{self.source.uri}: {error}") from error

    def sent(self, client: Any, share: Share = WHOLE) -> Iterator[pa.RecordBatch]:
        """The share's rows, as ``sending.ROWS_SCHEMA``: one that is rejected has no value and no sequence
        number.

        Those of a block are sorted by target partition: where tasks send rows of several objects, few rows
        alternate.
        """
        count = self.source.partition_count
        rejected = np.zeros(count, np.int64)
        for _, found, first in self.blocks(client, with_reasons=False, share=share):
            rows = np.arange(first, first + len(found.is_good))
            rows = rows[share.has(rows % count)]
            targets, is_good = rows % count, found.is_good[rows - first]
            sequences = rows // count - rejected[targets] - _before(~is_good, targets, count)
            rejected += np.bincount(targets[~is_good], minlength=count)
            order = np.argsort(targets, kind="stable")
            places = np.cumsum(is_good) - 1
            values = found.bodies.take(pa.array(places[order], mask=~is_good[order]))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([self.source.source_id] * len(rows), pa.string()),
                    pa.array(rows[order]),
                    pa.array(targets[order], pa.int32()),
                    pa.array(sequences[order], mask=~is_good[order]),
                    values,
                ],
                ["source_id", "row", "target_partition", "sequence", "value"],
            )

    def rejected(self, client: Any) -> Iterator[pa.RecordBatch]:
        """The rows that are not sent, as REJECTED_SCHEMA."""
        for block, found, first in self.blocks(client, with_reasons=True):
            numbers = sorted(found.reasons)
            count = len(numbers)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([self.source.source_id] * count, pa.string()),
                    pa.array([self.source.uri] * count, pa.string()),
                    pa.array([block.line_of(number) for number in numbers], pa.int64()),
                    pa.array([first + number for number in numbers], pa.int64()),
                    pa.array([block.records[number] for number in numbers], pa.binary()),
                    pa.array([found.reasons[number] for number in numbers], pa.string()),
                ],
                ["source_id", "object", "line", "row", "text", "reason"],
            )


def _before(chosen: NDArray[np.bool_], targets: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """For each row, how many of the chosen ones are before it in its target."""
    if not chosen.any():
        return np.zeros(len(chosen), np.int64)
    order = np.argsort(targets, kind="stable")
    before: NDArray[np.int64] = np.cumsum(chosen[order]) - chosen[order]
    firsts = np.searchsorted(targets[order], np.arange(count))
    found = np.zeros(len(chosen), np.int64)
    found[order] = before - before[np.minimum(firsts, len(before) - 1)][targets[order]]
    return found
