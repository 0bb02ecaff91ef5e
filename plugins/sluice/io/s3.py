"""The S3 client of a role, its requests, and bodies of objects."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, cast

import boto3
from botocore.config import Config

from sluice.model.spec.platform import S3, S3_REQUESTS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Of reading an object whose gzip data are truncated or corrupt.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_GZIP_MAGIC = b"\x1f\x8b"


def connect(s3: S3, **limits: Any) -> S3Client:
    """A client with the role's keys; nothing is sent yet. ``limits``: of :meth:`S3.boto3`."""
    return boto3.client("s3", **cast("dict[str, Any]", s3.boto3(**limits)))


def connect_briefly(s3: S3) -> S3Client:
    """A client whose requests end within seconds if S3 hangs, tried once: of a process that has few left."""
    given = cast("dict[str, Any]", s3.boto3())
    brief = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1})
    return boto3.client("s3", **{**given, "config": given["config"].merge(brief)})


def at_once(items: Iterable[Item], request: Callable[[Item], Answer]) -> list[Answer]:
    """The requests' answers in the order of the items, S3_REQUESTS of them at a time. Raises the error of the
    first that fails, and sends no more."""
    items = list(items)
    if len(items) < 2:
        return [request(item) for item in items]
    with ThreadPoolExecutor(S3_REQUESTS) as threads:
        return list(threads.map(request, items))


def read_json(client: S3Client, uri: str) -> Any:
    """The JSON document at ``s3://bucket/key``. Raises botocore's errors."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return json.load(client.get_object(Bucket=bucket, Key=key)["Body"])


def unpacked(body: Any, buffer_size: int) -> io.BufferedReader:
    """A reader of the body, which is unpacked if it begins as gzip. Reading it raises GZIP_ERRORS."""
    reader = io.BufferedReader(body, buffer_size)
    head = reader.peek(2)[:2]
    # One byte only if the object, or the first read of it, has no more.
    if not head or not _GZIP_MAGIC.startswith(head):
        return reader
    packed: Any = gzip.GzipFile(fileobj=reader)
    return io.BufferedReader(packed, buffer_size)
