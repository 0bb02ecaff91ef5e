"""An object of a bucket as a file that reads from its end, for Parquet: one request if it is small."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

# Usually holds the footer and the offsets before it, since these are a table's last columns.
TAIL_BYTES = 1024 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def get_object(client: S3Client, bucket: str, key: str, range_: str = "bytes=0-") -> GetObjectOutputTypeDef:
    """The whole object, or a range of it. Raises FileNotFoundError if it is gone, or botocore's errors."""
    try:
        return client.get_object(Bucket=bucket, Key=key, Range=range_)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "NoSuchKey":
            raise FileNotFoundError(f"s3://{bucket}/{key}") from error
        raise


class ObjectFile(io.RawIOBase):
    """The first request reads the last TAIL_BYTES; each read before them is one more.

    Both raise as :func:`get_object`.
    """

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        answer = self._get(f"bytes=-{TAIL_BYTES}")
        self._tail: bytes = answer["Body"].read()
        content = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        # Without a range, as S3 may answer for a shorter object, it is the whole object.
        self._from, self._size = (int(content[1]), int(content[2])) if content else (0, len(self._tail))
        self._position = 0

    def _get(self, range_: str) -> GetObjectOutputTypeDef:
        return get_object(self._client, self._bucket, self._key, range_)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        begin = self._position
        end = self._size if size < 0 else min(begin + size, self._size)
        if begin >= end:
            return b""
        self._position = end
        if begin >= self._from:
            return self._tail[begin - self._from : end - self._from]
        return self._get(f"bytes={begin}-{end - 1}")["Body"].read()
