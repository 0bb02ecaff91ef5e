"""The lines of source objects, read with boto3.

The planned object *versions* are read: Spark's own reader knows no versions, so an object could change
between an attempt and its retry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.clients.s3.requests import GZIP_ERRORS, connect, unpacked
from sluice.config import platform as platforms
from sluice.core.error_codes import ErrorCode

Mask = NDArray[np.bool_]

HEAD_BYTES = 64 * 1024
READ_BYTES = 1 << 20
BLOCK_BYTES = 4 << 20
# The longest line: one byte more of a longer one is read, and its row is rejected.
MAX_LINE_BYTES = 16 << 20


@dataclass(frozen=True)
class SourceObject:
    """One object version of a load's plan: ``key`` in ``bucket``, of the source ``source_id``. ``version_id``
    is None if the bucket keeps no versions. Sent to ``partition_count`` topic partitions."""

    source_id: str
    bucket: str
    key: str
    version_id: str | None
    partition_count: int

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def request(self) -> dict[str, Any]:
        version = {"VersionId": self.version_id} if self.version_id else {}
        return {"Bucket": self.bucket, "Key": self.key, **version}


class CorruptObject(RuntimeError):
    """An object is truncated or corrupt, or has no header line."""

    code = ErrorCode.CORRUPT_OBJECT


def header_line(platform: platforms.Platform, source: SourceObject) -> str:
    """Return the first line of an object (plain or gzip), of HEAD_BYTES at most. Raises CorruptObject."""
    body = connect(platform.s3).get_object(**source.request())["Body"]
    # As a context, it is urllib3's response, which is closed at its end.
    with body:
        try:
            line = unpacked(body, HEAD_BYTES).readline(HEAD_BYTES)
        except GZIP_ERRORS as error:
            raise CorruptObject(
                f"{source.uri}: not a readable gzip ({error}). Fix: upload the object again"
            ) from error
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    if not text.strip() or (not line.endswith(b"\n") and len(line) >= HEAD_BYTES):
        raise CorruptObject(
            f"{source.uri}: no header line. Fix: put an object whose first line names the columns"
        )
    return text


class Lines:
    """Lines that end with LF, none of them blank. ``ends``: the positions of their line breaks."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.ends = np.flatnonzero(self.bytes == ord("\n"))
        self.starts = np.concatenate([np.zeros(min(len(self.ends), 1), np.int64), self.ends[:-1] + 1])

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.ends[number]]

    def blank(self) -> Mask:
        """Which lines have nothing but white space."""
        blank = self.starts == self.ends
        for number in np.flatnonzero(~blank & (self.bytes[self.starts] <= ord(" "))):
            blank[number] = not self[int(number)].strip()
        return blank

    def has(self, char: str) -> Mask:
        """Which lines have the character."""
        return self.count(char) > 0

    def count(self, char: str) -> NDArray[np.int64]:
        found = np.flatnonzero(self.bytes == ord(char))
        return np.diff(np.searchsorted(found, self.ends), prepend=0)

    def only(self, mask: Mask) -> bytes:
        """The data of some lines."""
        if mask.all():
            return self.data
        return self.bytes[np.repeat(mask, self.ends - self.starts + 1)].tobytes()

    def plain(self, width: int, max_line: int) -> Mask:
        """Which lines have this number of cells, at most ``max_line`` bytes, and nothing that a CSV parser
        interprets."""
        plain = (self.count(",") == width - 1) & (self.ends - self.starts <= max_line)
        for char in '"\r\0':
            if char.encode() in self.data:
                plain &= ~self.has(char)
        # A byte-order mark, which Spark's parser leaves out of the first line that it reads.
        plain &= self.bytes[self.starts] != 0xEF
        try:
            self.data.decode()
        except UnicodeDecodeError:
            plain &= np.add.reduceat(self.bytes > 0x7F, self.starts) == 0
        return plain


@dataclass(frozen=True)
class Block:
    """Lines of an object in their order, without blank ones. ``numbers``: their 1-based lines of the object;
    ``rows``: their 0-based numbers among the data lines."""

    lines: Lines
    numbers: NDArray[np.int64]
    rows: NDArray[np.int64]


def blocks(client: Any, source: SourceObject) -> Iterator[Block]:
    """The data lines of an object, without its header. Raises CorruptObject for a truncated or corrupt
    object, botocore's error for a lost connection."""
    row = number = 0
    with closing(client.get_object(**source.request())["Body"]) as body:
        try:
            for data in _whole_lines(unpacked(body, READ_BYTES)):
                lines = Lines(data.replace(b"\r\n", b"\n") if b"\r" in data else data)
                numbers = np.arange(number + 1, number + 1 + len(lines))
                data_lines = ~lines.blank()
                if number == 0:
                    data_lines[0] = False
                number += len(lines)
                if not data_lines.all():
                    lines, numbers = Lines(lines.only(data_lines)), numbers[data_lines]
                if len(lines):
                    yield Block(lines, numbers, np.arange(row, row + len(lines)))
                    row += len(lines)
        except GZIP_ERRORS as error:
            raise CorruptObject(
                f"{source.uri}: broke off after {row} rows ({error}). Fix: upload the whole object again"
            ) from error


def _chunks(reader: Any) -> Iterator[bytes]:
    """What ``reader`` has, without what follows MAX_LINE_BYTES + 1 of a line: memory is bounded."""
    # Bytes of the line that the chunks end in.
    length = 0
    while chunk := reader.read1(READ_BYTES):
        first = chunk.find(b"\n")
        over = length + (len(chunk) if first < 0 else first) - MAX_LINE_BYTES - 1
        length = length + len(chunk) if first < 0 else len(chunk) - chunk.rindex(b"\n") - 1
        if over > 0:
            end = len(chunk) if first < 0 else first
            chunk = chunk[: max(end - over, 0)] + chunk[end:]
            length = MAX_LINE_BYTES + 1 if first < 0 else length
        yield chunk


def _whole_lines(reader: Any) -> Iterator[bytes]:
    chunks, size = list[bytes](), 0
    try:
        for chunk in _chunks(reader):
            chunks.append(chunk)
            size += len(chunk)
            if size >= BLOCK_BYTES and b"\n" in chunk:
                whole, end, left = b"".join(chunks).rpartition(b"\n")
                chunks, size = [left], len(left)
                yield whole + end
    except GZIP_ERRORS:
        whole, end, _ = b"".join(chunks).rpartition(b"\n")
        if end:
            yield whole + end
        raise
    if rest := b"".join(chunks):
        yield rest if rest.endswith(b"\n") else rest + b"\n"
