"""Versioned objects of a bucket, and the rows of CSV objects: counted without Spark, to verify its job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing, Refused
from sluice.clients.s3 import asking
from sluice.io.s3 import GZIP_ERRORS, unpacked
from sluice.model.error_codes import ErrorCode
from sluice.model.verification.file_removal import StoredFile
from sluice.model.verification.sources import source_id
from sluice.model.verification.storage import PrefixUsage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_LINE_BYTES = 64 * 1024 * 1024
SUFFIXES = (".csv", ".csv.gz")
# Small, because gzip may make a thousand times as much of it.
CHUNK_BYTES = 64 * 1024


def data_rows(body: Any, name: str) -> int:
    """Count the rows after the header of a CSV: lines that are not blank, in constant memory.

    Lines end with LF, so a line break inside quotes makes two rows, as in the producer
    (``spark_jobs/common/producer/objects.py``). Gzip is recognised by its first bytes, not by ``name``.
    Raises Refused without a header line, for truncated or corrupt gzip data, and for a line over
    MAX_LINE_BYTES.
    """
    lines = _lines(body, name)
    if not next(lines, b"").strip():
        message = f"{name}: no header line. Fix: upload the file with one, or leave it out"
        raise Refused(message, ErrorCode.INVALID_HEADER)
    return sum(1 for line in lines if line.strip())


def has_header(body: Any, name: str) -> bool:
    """Whether the first line is one; reads little more than that."""
    return bool(next(_lines(body, name), b"").strip())


def _lines(body: Any, name: str) -> Iterator[bytes]:
    reader = unpacked(body, CHUNK_BYTES)
    try:
        while line := reader.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                message = f"{name}: a line is longer than {MAX_LINE_BYTES} bytes. Fix: upload a CSV"
                raise Refused(message, ErrorCode.CORRUPT_OBJECT)
            yield line
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
            return [self.head(key) for key in sorted(set(keys))]
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
        for item in self._versions(prefix, "Versions"):
            if item["IsLatest"] and item["Key"].endswith(SUFFIXES):
                yield self._version(item["Key"], item.get("VersionId"), item["ETag"], item["Size"])

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

    def data_rows(self, source: ObjectVersion) -> int:
        """As :func:`data_rows`, of the pinned version."""
        with self._body(source) as body:
            return data_rows(body, source.uri)

    def has_header(self, source: ObjectVersion) -> bool:
        """As :func:`has_header`, of the pinned version."""
        with self._body(source) as body:
            return has_header(body, source.uri)

    @contextmanager
    def _body(self, source: ObjectVersion) -> Iterator[Any]:
        pin = {"VersionId": source.version_id} if source.version_id else {"IfMatch": f'"{source.etag}"'}
        with asking(f"source object {source.uri}"):
            answer = self.client.get_object(Bucket=self.name, Key=source.key, **pin)  # type: ignore[arg-type]
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


def count(entries: Iterable[Entry]) -> PrefixUsage:
    """Current objects, versions ever written, delete markers, and the versions' bytes."""
    objects = versions = markers = size = 0
    for entry in entries:
        markers += entry.is_delete_marker
        versions += not entry.is_delete_marker
        objects += entry.is_latest and not entry.is_delete_marker
        size += entry.size
    return PrefixUsage(objects, versions, markers, size)
