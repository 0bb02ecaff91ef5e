"""An S3 client in memory: conditional puts, gets and lists, answering errors as botocore does.

An object's ETag is made of its content, its version of that and of the number of ``earlier`` ones with the
same; ``markers`` are what a listing of versions has besides.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from tests.support.s3_answer import object_answer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryS3:
    """``refuse_puts``, ``refuse_gets`` and ``refuse_lists``: errors of the next requests; ``got`` and
    ``listed``: what was asked; ``requests``: number of each kind, a page of a list each. A list's answer
    holds ``page`` keys at most.
    """

    def __init__(self, page: int = 1000) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.earlier: dict[tuple[str, str], list[bytes]] = {}
        self.markers: list[tuple[str, str]] = []
        # Whatever version is asked for, the newest is given: of objects that are damaged in place.
        self.any_version = False
        # When an object was put, if not at WHEN.
        self.modified: dict[tuple[str, str], datetime] = {}
        # The time of a put, if one has to be in it.
        self.clock: Callable[[], datetime] | None = None
        # How often an object was restored by copy, without its versions.
        self.copies: Counter[tuple[str, str]] = Counter()
        # By version: other ETags, as of an upload in parts; and the checksums in the answer to a HEAD.
        self.etags: dict[str, str] = {}
        self.checksums: dict[str, dict[str, str]] = {}
        self.refuse_puts: list[str] = []
        self.refuse_gets: list[str] = []
        self.refuse_lists: list[ClientError] = []
        self.got: list[str] = []
        self.listed: list[dict[str, str]] = []
        self.requests: Counter[str] = Counter()
        self.page = page

    def as_client(self) -> S3Client:
        """Itself, where a client is wanted: it has the methods that Sluice calls."""
        return cast("S3Client", self)

    def put_object(self, **given: Any) -> None:
        assert given["IfNoneMatch"] == "*"
        self.requests["PUT"] += 1
        place = given["Bucket"], given["Key"]
        if self.refuse_puts:
            raise error(self.refuse_puts.pop(), "PutObject")
        if place in self.objects:
            raise error("PreconditionFailed", "PutObject")
        self.objects[place] = given["Body"]
        if self.clock is not None:
            self.modified[place] = self.clock()

    def upload_fileobj(self, **given: Any) -> None:
        self.requests["PUT"] += 1
        self.objects[given["Bucket"], given["Key"]] = given["Fileobj"].read()

    def get_object(self, **given: Any) -> dict[str, Any]:
        self.requests["GET"] += 1
        place = given["Bucket"], given["Key"]
        self.got.append(given["Key"])
        if self.refuse_gets:
            raise error(self.refuse_gets.pop(0), "GetObject")
        if place not in self.objects:
            raise error("NoSuchKey", "GetObject")
        answer = object_answer(self._body(place, given.get("VersionId")), given.get("Range", ""))
        return answer | {"LastModified": self.modified.get(place, WHEN)}

    def _body(self, place: tuple[str, str], version: str | None) -> bytes:
        for found, body in self._versions(*place):
            if version in (None, found["VersionId"]) or self.any_version:
                return body
        raise error("NoSuchVersion", "GetObject")

    def head_object(self, **given: Any) -> dict[str, Any]:
        self.requests["HEAD"] += 1
        place = given["Bucket"], given["Key"]
        if place not in self.objects:
            raise error("404", "HeadObject")
        for version, _ in self._versions(*place):
            if given.get("VersionId") in (None, version["VersionId"]):
                checksums = self.checksums.get(version["VersionId"], {})
                return {**version, "ContentLength": version["Size"], **checksums}
        raise error("404", "HeadObject")

    def list_objects_v2(self, **given: Any) -> dict[str, Any]:
        """The first page, of ``MaxKeys`` at most."""
        return next(self._pages(**given))

    def get_paginator(self, operation: str) -> _Paginator:
        return _Paginator(self._pages if operation == "list_objects_v2" else self._version_pages)

    def _pages(self, **given: Any) -> Iterator[dict[str, Any]]:
        """Keys behind StartAfter in the order of their bytes; an empty answer has no Contents."""
        self.listed.append(given)
        page = min(self.page, given.get("MaxKeys", self.page))
        keys = [key for key in self._keys(**given) if key > given.get("StartAfter", "")]
        for start in range(0, len(keys), page) or [0]:
            self.requests["LIST"] += 1
            found = keys[start : start + page]
            sizes = {key: len(self.objects[given["Bucket"], key]) for key in found}
            at = {key: self.modified.get((given["Bucket"], key), WHEN) for key in found}
            contents = [{"Key": key, "Size": sizes[key], "LastModified": at[key]} for key in found]
            yield {"Contents": contents} if found else {}

    def _version_pages(self, **given: Any) -> Iterator[dict[str, Any]]:
        keys = self._keys(**given)
        for start in range(0, len(keys), self.page) or [0]:
            self.requests["LIST"] += 1
            places = [(given["Bucket"], key) for key in keys[start : start + self.page]]
            yield {
                "Versions": [
                    version | {"IsLatest": number == 0 and (bucket, key) not in self.markers}
                    for bucket, key in places
                    for number, (version, _) in enumerate(self._versions(bucket, key))
                ],
                "DeleteMarkers": [
                    {"Key": key, "IsLatest": True, "LastModified": WHEN}
                    for bucket, key in places
                    if (bucket, key) in self.markers
                ],
            }

    def _versions(self, bucket: str, key: str) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The versions of a key with their content, the newest first."""
        bodies = [self.objects[bucket, key], *self.earlier.get((bucket, key), [])]
        for position, body in enumerate(bodies):
            digest = hashlib.sha256(body).hexdigest()[:32]
            number = bodies[position + 1 :].count(body) + self.copies[bucket, key]
            version = f"{digest[:28]}{number:04}"
            etag = self.etags.get(version, digest)
            yield (
                {
                    "Key": key, "VersionId": version, "ETag": f'"{etag}"', "Size": len(body),
                    "LastModified": WHEN,
                },
                body,
            )  # fmt: skip

    def _keys(self, **given: Any) -> list[str]:
        if self.refuse_lists:
            raise self.refuse_lists.pop(0)
        bucket, prefix = given["Bucket"], given["Prefix"]
        return sorted(key for where, key in self.objects if where == bucket and key.startswith(prefix))


class _Paginator:
    def __init__(self, pages: Any) -> None:
        self.paginate = pages


def error(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
