"""Versioned objects of a bucket, CSV rows in them.

Data rows of a CSV from its bytes, in constant memory: what a load is held against.

Counted without Spark on purpose: the proof must not ask the job that it checks. The first line is the
header; a row is a later line that is not blank. Lines end with LF. So a line break inside quotes makes two
rows here, as it does for the producer (``spark_jobs/common/producer/objects.py``).

A versioned bucket: which objects a load means, pinned to their versions, and what lies under a prefix.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sluice.clients.errors import Missing, Refused
from sluice.clients.s3 import asking
from sluice.model.error_codes import ErrorCode
from sluice.model.verification.sources import source_id
from sluice.model.verification.storage import PrefixUsage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 64 * 1024 * 1024


def data_rows(chunks: Iterable[bytes], name: str, longest: int = LONGEST_LINE) -> int:
    """Rows of an object; ``name`` stands for it in messages.

    Gzip is told by its first bytes, not by the name. Raises Refused when there is no header line (an object
    of no bytes, or a blank first line), when gzip data ends early or is damaged, or when a line is longer
    than ``longest`` bytes.
    """
    lines = _lines(plain(chunks, name), name, longest)
    if not next(lines, b"").strip():
        raise Refused(
            f"{name}: has no header line; upload the file with one, or leave it out", ErrorCode.INVALID_HEADER
        )
    return sum(1 for line in lines if line.strip())


def has_header(chunks: Iterable[bytes], name: str) -> bool:
    """Whether the first line is one; reads little more than that."""
    return bool(next(_lines(plain(chunks, name), name), b"").strip())


def plain(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The bytes, decompressed where they are gzip (of one or several members)."""
    stream = iter(chunks)
    head = b""
    while len(head) < len(GZIP_MAGIC):
        more = next(stream, None)
        if more is None:
            break
        head += more
    if head.startswith(GZIP_MAGIC):
        yield from _gunzip(head, stream, name)
        return
    yield head
    yield from stream


def _gunzip(head: bytes, stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    data: bytes | None = head
    while data is not None:
        while data:
            if member.eof:
                # gzip(1) pads with zeros to a block; everything else after a member is another member.
                if not data.strip(b"\0"):
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(data)
            except zlib.error as error:
                raise Refused(
                    f"{name}: damaged gzip data ({error}); upload the file again", ErrorCode.CORRUPT_OBJECT
                ) from error
            data = member.unused_data
        data = next(stream, None)
    if not member.eof:
        raise Refused(
            f"{name}: truncated gzip data, it ends before its end mark; upload the file again",
            ErrorCode.CORRUPT_OBJECT,
        )


def _lines(chunks: Iterable[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > longest:
            raise Refused(
                f"{name}: a line is longer than {longest} bytes; it is no CSV", ErrorCode.CORRUPT_OBJECT
            )
    if rest:
        yield rest


SUFFIXES = (".csv", ".csv.gz")
# Small, because gzip may make a thousand times as much of it.
CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True)
class ObjectVersion:
    """One version of one object. ``version_id`` is None where the bucket keeps no versions; size in bytes."""

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
        """The load's objects, pinned to their present versions: ``keys`` where given, else the prefix.

        Under a prefix the keys that end in .csv or .csv.gz count. Sorted by key, each once. Raises Missing
        when an object, the bucket, or anything under the prefix does not exist; Refused for another suffix.
        """
        for key in keys:
            if not key.endswith(SUFFIXES):
                raise Refused(
                    f"s3://{self.name}/{key}: a source ends in {' or '.join(SUFFIXES)}; correct 'objects'",
                    ErrorCode.INVALID_PARAMETER,
                )
        chosen = sorted(set(keys)) if keys else sorted(self._keys(prefix))
        if not chosen:
            raise Missing(
                f"s3://{self.name}/{prefix} holds no object that ends in {' or '.join(SUFFIXES)}; "
                "upload one or correct 'source_prefix'",
                ErrorCode.OBJECT_NOT_FOUND,
            )
        return [self.head(key) for key in chosen]

    def _keys(self, prefix: str) -> Iterator[str]:
        with asking(f"bucket {self.name!r}"):
            for page in self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=prefix
            ):
                yield from (
                    item["Key"] for item in page.get("Contents", []) if item["Key"].endswith(SUFFIXES)
                )

    def head(self, key: str, version_id: str | None = None) -> ObjectVersion:
        """The present version of ``key``, or the one that is named. Raises Missing naming bucket and key."""
        version = {"VersionId": version_id} if version_id else {}
        what = f"s3://{self.name}/{key}" + (f" (version {version_id})" if version_id else "")
        try:
            with asking(f"source object {what}"):
                found = self.client.head_object(Bucket=self.name, Key=key, **version)  # type: ignore[arg-type]
        except Missing as error:
            raise Missing(f"{error}; upload it, or correct 'objects'", ErrorCode.OBJECT_NOT_FOUND) from error
        # "null" is what was there before the bucket kept versions: it can be overwritten, so it pins nothing.
        present = found.get("VersionId")
        return ObjectVersion(
            bucket=self.name,
            key=key,
            version_id=None if present in (None, "null") else present,
            etag=found["ETag"].strip('"'),
            size=found["ContentLength"],
        )

    def data_rows(self, source: ObjectVersion) -> int:
        """Data rows of the object's pinned version, streamed; see :func:`data_rows`."""
        with asking(f"source object {source.uri}"):
            return data_rows(self._chunks(source), source.uri)

    def has_header(self, source: ObjectVersion) -> bool:
        """Whether its first line is one; reads the first chunk or so."""
        with asking(f"source object {source.uri}"):
            return has_header(self._chunks(source), source.uri)

    def _chunks(self, source: ObjectVersion) -> Iterator[bytes]:
        pin = {"VersionId": source.version_id} if source.version_id else {"IfMatch": f'"{source.etag}"'}
        body = self.client.get_object(Bucket=self.name, Key=source.key, **pin)["Body"]  # type: ignore[arg-type]
        try:
            yield from body.iter_chunks(CHUNK_BYTES)
        finally:
            body.close()

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every version and delete marker under ``prefix``, page by page."""
        with asking(f"s3://{self.name}/{prefix}"):
            pages = self.client.get_paginator("list_object_versions").paginate(
                Bucket=self.name, Prefix=prefix
            )
            for page in pages:
                for item in page.get("Versions", []):
                    yield Entry(
                        item["Key"],
                        item["IsLatest"],
                        False,
                        item["ETag"].strip('"'),
                        item["Size"],
                        item["LastModified"],
                    )
                for marker in page.get("DeleteMarkers", []):
                    yield Entry(marker["Key"], marker["IsLatest"], True, "", 0, marker["LastModified"])


def count(entries: Iterable[Entry]) -> PrefixUsage:
    """Objects that are there now, versions ever written, delete markers, and the versions' bytes."""
    objects = versions = markers = size = 0
    for entry in entries:
        markers += entry.is_delete_marker
        versions += not entry.is_delete_marker
        objects += entry.is_latest and not entry.is_delete_marker
        size += entry.size
    return PrefixUsage(objects, versions, markers, size)
