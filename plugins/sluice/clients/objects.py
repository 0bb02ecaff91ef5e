"""Versioned objects of a bucket, and the rows of CSV objects: counted without Spark, to verify its job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from sluice.clients.errors import Missing, Refused
from sluice.clients.s3 import asking
from sluice.io.s3 import GZIP_ERRORS, at_once, unpacked
from sluice.model.error_codes import ErrorCode
from sluice.model.verification.file_removal import StoredFile
from sluice.model.verification.sources import source_id

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_LINE_BYTES = 64 * 1024 * 1024
SUFFIXES = (".csv", ".csv.gz")
# Small, because gzip may make a thousand times as much of it.
CHUNK_BYTES = 64 * 1024
BLOCK_BYTES = 1024 * 1024
_LF = ord("\n")


def data_rows(body: Any, name: str) -> int:
    """Count the rows after the header of a CSV: lines that are not blank, in constant memory.

    Lines end with LF, so a line break inside quotes makes two rows, as in the producer
    (``spark_jobs/common/producer/lines.py``). Gzip is recognised by its first bytes, not by ``name``.
    Raises Refused without a header line, for truncated or corrupt gzip data, and for a line over
    MAX_LINE_BYTES.
    """
    with _readable(name):
        reader = unpacked(body, CHUNK_BYTES)
        if not _line(reader, name).strip():
            message = f"{name}: no header line. Fix: upload the file with one, or leave it out"
            raise Refused(message, ErrorCode.INVALID_HEADER)
        return _count_rows(iter(lambda: reader.read(BLOCK_BYTES), b""), name)


def line_of_row(body: Any, row: int, name: str) -> int | None:
    """The 1-based line of a 0-based row; None if there are fewer rows. What is a row, and errors, are as of
    :func:`data_rows`. Reads no further than the row."""
    with _readable(name):
        reader, left = unpacked(body, CHUNK_BYTES), row
        _line(reader, name)
        for number, line in enumerate(iter(lambda: _line(reader, name), b""), start=2):
            if line.strip():
                if not left:
                    return number
                left -= 1
        return None


def has_header(body: Any, name: str) -> bool:
    """Whether the first line is one; reads little more than that."""
    with _readable(name):
        return bool(_line(unpacked(body, CHUNK_BYTES), name).strip())


def _line(reader: Any, name: str) -> bytes:
    line: bytes = reader.readline(MAX_LINE_BYTES + 1)
    _check_length(len(line.removesuffix(b"\n")), name)
    return line


def _count_rows(blocks: Iterable[bytes], name: str) -> int:
    """Count lines that are not blank, a block at a time: a line at a time takes five times the CPU."""
    rows = 0
    # Of the line that the blocks so far end in.
    length, is_blank = 0, True
    for block in blocks:
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        first = block[: ends[0]] if len(ends) else block
        length, is_blank = length + len(first), is_blank and not first.strip()
        _check_length(length, name)
        if not len(ends):
            continue
        begins, ends = ends[:-1] + 1, ends[1:]
        _check_length(int(np.max(ends - begins, initial=0)), name)
        rows += len(begins) + (not is_blank)
        # A blank line begins with white space, or with its end.
        may_be_blank = np.flatnonzero(np.frombuffer(block, np.uint8)[begins] <= ord(" "))
        rows -= sum(not block[begins[n] : ends[n]].strip() for n in may_be_blank)
        rest = block[block.rindex(b"\n") + 1 :]
        length, is_blank = len(rest), not rest.strip()
        _check_length(length, name)
    return rows + (not is_blank)


def _check_length(length: int, name: str) -> None:
    if length > MAX_LINE_BYTES:
        message = f"{name}: a line is longer than {MAX_LINE_BYTES} bytes. Fix: upload a CSV"
        raise Refused(message, ErrorCode.CORRUPT_OBJECT)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except GZIP_ERRORS as error:
        kind = "truncated" if isinstance(error, EOFError) else "corrupt"
        message = f"{name}: {kind} gzip data ({error}). Fix: upload the file again"
        raise Refused(message, ErrorCode.CORRUPT_OBJECT) from error


@dataclass(frozen=True)
class ObjectVersion:
    """One version of one object. ``version_id`` is None if the bucket keeps no versions; size in bytes."""

    bucket: str
    key: str
    version_id: str | None
    etag: str
    size: int

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def source_id(self) -> str:
        return source_id(self.bucket, self.key, self.version_id or self.etag)


@dataclass(frozen=True)
class Entry:
    """One version, or one delete marker, of a key in a listing."""

    key: str
    is_latest: bool
    is_delete_marker: bool
    etag: str
    size: int
    modified: datetime


class Bucket:
    """One bucket through one role's client."""

    def __init__(self, client: S3Client, name: str) -> None:
        self.client = client
        self.name = name

    def resolve(self, prefix: str, keys: Sequence[str] = ()) -> list[ObjectVersion]:
        """The current versions of ``keys`` or, without keys, of the CSV objects under ``prefix``, by key.

        Raises Missing if an object or the bucket does not exist or the prefix is empty; Refused for a key
        without one of SUFFIXES.
        """
        for key in keys:
            if not key.endswith(SUFFIXES):
                raise Refused(
                    f"s3://{self.name}/{key}: a source ends in {' or '.join(SUFFIXES)}. Fix: correct "
                    "'objects'",
                    ErrorCode.INVALID_PARAMETER,
                )
        if keys:
            return at_once(sorted(set(keys)), self.head)
        found = sorted(self._current(prefix), key=lambda version: version.key)
        if not found:
            raise Missing(
                f"s3://{self.name}/{prefix}: no object ends in {' or '.join(SUFFIXES)}. Fix: upload one, or "
                "correct 'source_prefix'",
                ErrorCode.OBJECT_NOT_FOUND,
            )
        return found

    def _current(self, prefix: str) -> Iterator[ObjectVersion]:
        # A listing of versions tells what a HEAD of each object would.
        return (version for version, is_latest in self.versions(prefix) if is_latest)

    def versions(self, prefix: str) -> Iterator[tuple[ObjectVersion, bool]]:
        """Every version of the CSV objects under ``prefix`` that the bucket still has, and whether it is the
        current one."""
        for item in self._versions(prefix, "Versions"):
            if item["Key"].endswith(SUFFIXES):
                version = self._version(item["Key"], item.get("VersionId"), item["ETag"], item["Size"])
                yield version, item["IsLatest"]

    def head(self, key: str) -> ObjectVersion:
        """The current version of ``key``. Raises Missing."""
        try:
            with asking(f"source object s3://{self.name}/{key}"):
                found = self.client.head_object(Bucket=self.name, Key=key)
        except Missing as error:
            raise Missing(
                f"{error}. Fix: upload it, or correct 'objects'", ErrorCode.OBJECT_NOT_FOUND
            ) from error
        return self._version(key, found.get("VersionId"), found["ETag"], found["ContentLength"])

    def _version(self, key: str, version_id: str | None, etag: str, size: int) -> ObjectVersion:
        # "null" is a version from before the bucket was versioned: it can be overwritten, so it pins nothing.
        pinned = None if version_id in (None, "null") else version_id
        return ObjectVersion(self.name, key, pinned, etag.strip('"'), size)

    def earlier(self, version: ObjectVersion) -> list[ObjectVersion]:
        """The earlier versions of its key that the bucket keeps, the newest first."""
        return [
            found
            for item in self._versions(version.key, "Versions")
            if item["Key"] == version.key and not item["IsLatest"]
            for found in [self._version(item["Key"], item.get("VersionId"), item["ETag"], item["Size"])]
        ]

    def data_rows(self, source: ObjectVersion) -> int:
        """As :func:`data_rows`, of the pinned version."""
        with self._body(source) as body:
            return data_rows(body, source.uri)

    def line_of_row(self, source: ObjectVersion, row: int) -> int | None:
        """As :func:`line_of_row`, of the pinned version."""
        with self._body(source) as body:
            return line_of_row(body, row, source.uri)

    def has_header(self, source: ObjectVersion) -> bool:
        """As :func:`has_header`, of the pinned version: of its first CHUNK_BYTES, as its producer."""
        # The connection of an answer that is not read to its end is lost.
        part = {"Range": f"bytes=0-{CHUNK_BYTES - 1}"} if source.size > CHUNK_BYTES else {}
        with self._body(source, **part) as body:
            return has_header(body, source.uri)

    @contextmanager
    def _body(self, source: ObjectVersion, **part: str) -> Iterator[Any]:
        pin = {"VersionId": source.version_id} if source.version_id else {"IfMatch": f'"{source.etag}"'}
        with asking(f"source object {source.uri}"):
            answer = self.client.get_object(Bucket=self.name, Key=source.key, **pin, **part)  # type: ignore[arg-type]
            with closing(answer["Body"]) as body:
                yield body

    def files(self, prefix: str) -> Iterator[StoredFile]:
        """The current objects under ``prefix``, page by page."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        with asking(f"s3://{self.name}/{prefix}"):
            for page in pages:
                for item in page.get("Contents", []):
                    yield StoredFile(f"{self.name}/{item['Key']}", item["Size"], item["LastModified"])

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every version and delete marker under ``prefix``, page by page."""
        for item in self._versions(prefix, "Versions", "DeleteMarkers"):
            etag, is_marker = item.get("ETag", "").strip('"'), "ETag" not in item
            yield Entry(
                item["Key"], item["IsLatest"], is_marker, etag, item.get("Size", 0), item["LastModified"]
            )

    def _versions(self, prefix: str, *kinds: str) -> Iterator[Any]:
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.name, Prefix=prefix)
        with asking(f"s3://{self.name}/{prefix}"):
            for page in pages:
                for kind in kinds:
                    yield from page.get(kind, [])  # type: ignore[misc]
