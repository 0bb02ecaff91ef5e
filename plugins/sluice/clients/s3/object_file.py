"""Objects of a bucket: whole, or as a file that is read from its end, for Parquet."""

from __future__ import annotations

import io
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sluice.clients.s3.bodies import ResumedBody

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Usually holds the footer and the offsets before it, since these are a table's last columns.
TAIL_BYTES = 1024 * 1024
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def get_object(client: S3Client, bucket: str, key: str, **options: Any) -> tuple[bytes, dict[str, Any]]:
    """Body and answer of a GET, of which the rest is asked for if it breaks off. ``options``: of boto3's
    ``get_object``. Raises FileNotFoundError if the object is gone, otherwise botocore's errors."""
    try:
        with ResumedBody(partial(client.get_object, Bucket=bucket, Key=key), **options) as body:
            return body.readall(), body.answer
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "NoSuchKey":
            raise FileNotFoundError(f"s3://{bucket}/{key}: no such object") from error
        raise


class ObjectFile(io.RawIOBase):
    """The first request reads the last TAIL_BYTES; each read before them is one more.

    Both raise as :func:`get_object`, and OSError for another answer than was asked for.
    """

    def __init__(self, client: S3Client, bucket: str, key: str) -> None:
        self._client, self._bucket, self._key = client, bucket, key
        self._tail, answer = get_object(client, bucket, key, Range=f"bytes=-{TAIL_BYTES}")
        self._from, self._size = 0, len(self._tail)
        # S3 may answer with the whole of a short object, and then with another status.
        if answer.get("ResponseMetadata", {}).get("HTTPStatusCode") != 200:
            content = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
            if content is None or int(content[1]) + len(self._tail) != int(content[2]):
                raise self._unexpected(f"its last {TAIL_BYTES}", self._tail, answer.get("ContentRange"))
            self._from, self._size = int(content[1]), int(content[2])
        # A later answer must be of the same object.
        self._pin = {"IfMatch": answer["ETag"]} if "ETag" in answer else {}
        self._position = 0

    def _unexpected(self, asked: str, body: bytes, content_range: Any) -> OSError:
        uri = f"s3://{self._bucket}/{self._key}"
        return OSError(f"{uri}: asked for {asked} bytes, got {len(body)} ({content_range or 'no range'})")

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
        kept = self._tail[max(begin - self._from, 0) : max(end - self._from, 0)]
        return self._before_tail(begin, min(end, self._from)) + kept

    def _before_tail(self, begin: int, end: int) -> bytes:
        if begin >= end:
            return b""
        given = {"Range": f"bytes={begin}-{end - 1}", **self._pin}
        body, answer = get_object(self._client, self._bucket, self._key, **given)
        # Arrow's memory ends where the range does.
        if len(body) != end - begin:
            raise self._unexpected(str(end - begin), body, answer.get("ContentRange"))
        return body
