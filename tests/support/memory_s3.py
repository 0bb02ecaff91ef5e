"""An S3 client in memory: conditional puts, gets and lists, answering errors as botocore does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class MemoryS3:
    """``refuse_puts`` and ``refuse_lists``: errors of the next requests; ``got`` and ``listed``: what was
    asked. A list's answer holds ``page`` keys at most.
    """

    def __init__(self, page: int = 1000) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.refuse_puts: list[str] = []
        self.refuse_lists: list[ClientError] = []
        self.got: list[str] = []
        self.listed: list[dict[str, str]] = []
        self.page = page

    def as_client(self) -> S3Client:
        """Itself, where a client is wanted: it has the methods that Sluice calls."""
        return cast("S3Client", self)

    def put_object(self, **given: Any) -> None:
        assert given["IfNoneMatch"] == "*"
        place = given["Bucket"], given["Key"]
        if self.refuse_puts:
            raise error(self.refuse_puts.pop(), "PutObject")
        if place in self.objects:
            raise error("PreconditionFailed", "PutObject")
        self.objects[place] = given["Body"]

    def get_object(self, **given: Any) -> dict[str, Any]:
        place = given["Bucket"], given["Key"]
        self.got.append(given["Key"])
        if place not in self.objects:
            raise error("NoSuchKey", "GetObject")
        return {"Body": io.BytesIO(self.objects[place])}

    def get_paginator(self, operation: str) -> MemoryS3:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, **given: str) -> Iterator[dict[str, Any]]:
        """Keys behind StartAfter in the order of their bytes; an empty answer has no Contents."""
        self.listed.append(given)
        if self.refuse_lists:
            raise self.refuse_lists.pop(0)
        after = given.get("StartAfter", "")
        keys = sorted(
            key
            for bucket, key in self.objects
            if bucket == given["Bucket"] and key.startswith(given["Prefix"]) and key > after
        )
        for start in range(0, len(keys), self.page) or [0]:
            found = keys[start : start + self.page]
            yield {"Contents": [{"Key": key} for key in found]} if found else {}


def error(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
