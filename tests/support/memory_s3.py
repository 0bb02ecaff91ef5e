"""An S3 client in memory: conditional puts and gets, answering errors as botocore does."""

from __future__ import annotations

import io
from typing import Any

from botocore.exceptions import ClientError


class MemoryS3:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.refuse_puts: list[str] = []

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
        if place not in self.objects:
            raise error("NoSuchKey", "GetObject")
        return {"Body": io.BytesIO(self.objects[place])}


def error(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)
