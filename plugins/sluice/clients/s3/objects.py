"""Versioned objects of a bucket."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from sluice.clients.s3.bodies import ResumedBody
from sluice.clients.s3.csv_head import HEAD_BYTES, check_head
from sluice.clients.s3.csv_rows import BLOCK_BYTES, data_rows, line_of_row
from sluice.clients.s3.errors import asking
from sluice.clients.s3.requests import at_once
from sluice.config.reading.names import is_key
from sluice.core.csv.form import SUFFIXES, is_csv
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.core.messages import quoted
from sluice.core.offsets.sources import source_id
from sluice.core.tables.file_removal import StoredFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.config.csv_reading import CsvReading
    from sluice.core.csv.form import Form
    from sluice.core.json_record import Document

# Keys of other names that a message has.
MAX_OTHERS = 5
# Checksums of whole objects, in answers to HEAD.
CHECKSUMS = ("ChecksumSHA256", "ChecksumSHA1", "ChecksumCRC64NVME", "ChecksumCRC32C", "ChecksumCRC32")


def _are_equal(one: Any, other: Any) -> bool:
    blocks = (iter(partial(io.BufferedReader(body).read, BLOCK_BYTES), b"") for body in (one, other))
    return all(first == second for first, second in zip_longest(*blocks))


@dataclass(frozen=True)
class ObjectVersion:
    """One version of the object ``key`` of ``bucket``. ``version_id`` is None if the bucket keeps no
    versions; ``etag``: S3's, without quotes; ``size``: bytes."""

    bucket: str
    key: str
    version_id: str | None
    etag: str
    size: int

    @classmethod
    def of(cls, source: Document) -> Self:
        """From a source's document, which has more."""
        return cls(**{field.name: source[field.name] for field in fields(cls)})

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def source_id(self) -> str:
        return source_id(self.bucket, self.key, self.version_id or self.etag)


@dataclass(frozen=True)
class Entry:
    """One version, or one delete marker, of a ``key`` in a listing. ``is_latest``: it is what a GET without
    version finds. A marker (``is_delete_marker``) has no ``etag`` (empty) and ``size`` 0, else bytes.
    ``modified``: when it was put."""

    key: str
    is_latest: bool
    is_delete_marker: bool
    etag: str
    size: int
    modified: datetime


class Current(list[ObjectVersion]):
    """Current versions, by key. ``single``: keys of which the bucket is known to have no other; ``others``:
    keys of objects that are left out, since their names do not say that they are CSV."""

    def __init__(
        self, versions: Iterable[ObjectVersion], single: Collection[str] = (), others: Collection[str] = ()
    ) -> None:
        super().__init__(sorted(versions, key=lambda version: version.key))
        self.single, self.others = frozenset(single), sorted(others)

    @property
    def names_others(self) -> str:
        """The first of ``others``, and their number; empty if there are none."""
        more = len(self.others) - MAX_OTHERS
        return ", ".join(
            [*map(quoted, self.others[:MAX_OTHERS]), *([f"and {more} more"] if more > 0 else [])]
        )


class Bucket:
    """One bucket through one role's client. ``prefix``: no other keys are resolved, headed or listed as
    sources. ``reading``: how a stream reads its objects; None if that is not known."""

    def __init__(
        self, client: S3Client, name: str, prefix: str = "", reading: CsvReading | None = None
    ) -> None:
        self.client = client
        self.name = name
        self.prefix = prefix
        self.reading = reading

    def within(self, prefix: str, reading: CsvReading | None = None) -> Bucket:
        """The bucket as far as a stream's declaration lets its loads read it."""
        return Bucket(self.client, self.name, prefix, reading)

    def resolve(self, prefix: str, keys: Sequence[str] = ()) -> Current:
        """The current versions of ``keys`` or, without keys, of the CSV objects under ``prefix``, by key.

        Raises Missing if an object or the bucket does not exist or the prefix is empty; Refused for a key
        without one of SUFFIXES, or that the bucket's own prefix does not have.
        """
        for key in keys or [prefix]:
            self._check_declared(key)
        for key in keys:
            if not is_csv(key):
                raise Refused(
                    f"s3://{self.name}/{key}: a source ends in {' or '.join(SUFFIXES)}. Fix: correct "
                    "'objects'",
                    ErrorCode.INVALID_PARAMETER,
                )
        if keys:
            return Current(at_once(sorted(set(keys)), self.head))
        found = self.current(prefix)
        if not found:
            others = f" (it has {found.names_others})" if found.others else ""
            raise Missing(
                f"s3://{self.name}/{prefix}: no object ends in {' or '.join(SUFFIXES)}{others}. Fix: upload "
                "one, or correct 'source_prefix'",
                ErrorCode.OBJECT_NOT_FOUND,
            )
        return found

    def current(self, prefix: str, is_chosen: Callable[[str], bool] = lambda _: True) -> Current:
        """The current versions of the CSV objects under ``prefix`` whose keys are chosen. Raises Refused for
        one whose key is not declared."""
        # A listing of versions tells what a HEAD of each object would, and which keys have others.
        current, versions, others = [], Counter[str](), set[str]()
        self._check_declared(prefix)
        for item in self._versions(prefix, "Versions"):
            key = item["Key"]
            if not is_chosen(key):
                continue
            if not is_csv(key):
                if item["IsLatest"] and not key.endswith("/"):
                    others.add(key)
                continue
            if item["IsLatest"]:
                self._check_declared(key)
                current.append(self._version(key, item.get("VersionId"), item["ETag"], item["Size"]))
            versions[key] += 1
        return Current(current, [key for key, number in versions.items() if number == 1], others)

    def versions(self, prefix: str) -> Iterator[tuple[ObjectVersion, bool]]:
        """Every version of the CSV objects under ``prefix`` that the bucket still has, and whether it is the
        current one. Raises Refused for a prefix that is not declared."""
        self._check_declared(prefix)
        for item in self._versions(prefix, "Versions"):
            if is_csv(item["Key"]):
                version = self._version(item["Key"], item.get("VersionId"), item["ETag"], item["Size"])
                yield version, item["IsLatest"]

    def head(self, key: str) -> ObjectVersion:
        """The current version of ``key``. Raises Missing, or Refused for a key that is not declared."""
        self._check_declared(key)
        try:
            with asking(f"source object s3://{self.name}/{key}"):
                found = self.client.head_object(Bucket=self.name, Key=key)
        except Missing as error:
            raise Missing(
                f"{error}. Fix: upload it, or correct 'objects'", ErrorCode.OBJECT_NOT_FOUND
            ) from error
        return self._version(key, found.get("VersionId"), found["ETag"], found["ContentLength"])

    def _check_declared(self, key: str) -> None:
        """Raises Refused for a key or prefix that is not within the bucket's own prefix, or whose text could
        be read as another one."""
        if key.startswith(self.prefix) and is_key(key):
            return
        raise Refused(
            f"s3://{self.name}/{quoted(key)}: the stream's objects are those under {self.prefix!r}, without "
            "'.' and '..' between slashes, control characters and line separators. Fix: name or upload "
            "another, or declare another [csv] prefix in stream.toml",
            ErrorCode.INVALID_PARAMETER,
        )

    def _version(self, key: str, version_id: str | None, etag: str, size: int) -> ObjectVersion:
        # "null" is a version from before the bucket was versioned: it can be overwritten, so it pins nothing.
        pinned = None if version_id in (None, "null") else version_id
        return ObjectVersion(self.name, key, pinned, etag.strip('"'), size)

    def equal_to(self, version: ObjectVersion) -> Callable[[str | None, str], bool]:
        """Whether another version of its key (id and ETag), of the same size, has the same bytes: by S3's
        checksums of the whole objects or, without one that both have, by reading both up to the first
        difference. False if the other one is gone, or a bucket without versions cannot tell."""
        own = cache(lambda: self._checksums(version))

        def is_equal(other_id: str | None, other_etag: str) -> bool:
            if other_id is None:
                return False
            other = ObjectVersion(version.bucket, version.key, other_id, other_etag, version.size)
            try:
                sums, others = own(), self._checksums(other)
                if both := sums.keys() & others.keys():
                    return all(sums[name] == others[name] for name in both)
                with self._body(version) as body, self._body(other) as other_body:
                    return _are_equal(body, other_body)
            except Missing:
                return False

        return is_equal

    def _checksums(self, version: ObjectVersion) -> dict[str, str]:
        pin = {"VersionId": version.version_id} if version.version_id else {}
        with asking(f"source object {version.uri}"):
            found: dict[str, Any] = self.client.head_object(  # type: ignore[assignment]
                Bucket=self.name,
                Key=version.key,
                ChecksumMode="ENABLED",
                **pin,  # type: ignore[arg-type]
            )
        # An upload in parts may have one that depends on the parts.
        is_whole = found.get("ChecksumType") == "FULL_OBJECT"
        return {name: found[name] for name in CHECKSUMS if is_whole and found.get(name)}

    def data_rows(self, source: ObjectVersion, form: Form | None = None) -> int:
        """As :func:`data_rows`, of the pinned version."""
        with self._body(source) as body:
            return data_rows(body, source.uri, form)

    def line_of_row(self, source: ObjectVersion, row: int, form: Form | None = None) -> int | None:
        """As :func:`line_of_row`, of the pinned version."""
        with self._body(source) as body:
            return line_of_row(body, row, source.uri, form)

    def check_head(self, source: ObjectVersion) -> None:
        """As :func:`check_head`, of the pinned version."""
        is_whole = source.size <= HEAD_BYTES
        part = {} if is_whole else {"Range": f"bytes=0-{HEAD_BYTES - 1}"}
        with self._body(source, **part) as body:
            # All of it: the connection of an answer that is not read to its end is lost.
            head = io.BytesIO(body.read())
        check_head(head, source.uri, self.reading, is_whole)

    @contextmanager
    def _body(self, source: ObjectVersion, **part: str) -> Iterator[Any]:
        pin = {"VersionId": source.version_id} if source.version_id else {"IfMatch": f'"{source.etag}"'}
        with asking(f"source object {source.uri}"):
            get = partial(self.client.get_object, Bucket=self.name, Key=source.key, **pin)  # type: ignore[arg-type]
            with ResumedBody(get, **part) as body:
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
