"""The S3 client of a role, and bodies of objects."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING, Any, cast

import boto3

from sluice.model.spec.platform import S3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


# Of reading an object whose gzip data are truncated or corrupt.
GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)
_GZIP_MAGIC = b"\x1f\x8b"


def connect(s3: S3) -> S3Client:
    """A client with the role's keys; nothing is sent yet."""
    return boto3.client("s3", **cast("dict[str, Any]", s3.boto3()))


def unpacked(body: Any, buffer_size: int) -> io.BufferedReader:
    """A reader of the body, which is unpacked if it begins as gzip. Reading it raises GZIP_ERRORS."""
    reader = io.BufferedReader(body, buffer_size)
    head = reader.peek(2)[:2]
    # One byte only if the object, or the first read of it, has no more.
    if not head or not _GZIP_MAGIC.startswith(head):
        return reader
    packed: Any = gzip.GzipFile(fileobj=reader)
    return io.BufferedReader(packed, buffer_size)
