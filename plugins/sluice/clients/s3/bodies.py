"""Bodies of objects that go on when their connection breaks: S3 ends that of a slow or suspended reader, and
boto3 repeats a request only until the answer's first bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

# Without a byte between them.
TRIES = 4
BROKEN = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/\d+")


class ResumedBody(io.RawIOBase):
    """The body of a GET, read from its begin to its end.

    ``answer``: the first answer of boto3's ``get_object``, as far as it goes. A broken connection is followed
    by a request for the rest, of the same object: its ETag is required. Reading raises botocore's error when
    no byte comes in TRIES, OSError for another part than was asked for, and what ``get`` raises.
    """

    def __init__(self, get: Callable[..., Any], **options: Any) -> None:
        """``get``: boto3's ``get_object`` of one object and version; ``options``: of the first request,
        ``Range`` among them."""
        self._get = get
        self.answer = get(**options)
        self._body: Any = self.answer["Body"]
        found = _CONTENT_RANGE.fullmatch(self.answer.get("ContentRange", ""))
        self._next = int(found[1]) if found else 0
        self._end = self._next + self.answer["ContentLength"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        for attempt in Retrying(
            retry=retry_if_exception_type(BROKEN),
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(0.2),
            reraise=True,
        ):
            with attempt:
                return self._read(buffer)
        raise AssertionError("tenacity returns or raises")

    def readall(self) -> bytes:
        # One more byte, so that the last read finds the end, where boto3 compares the checksum.
        buffer, filled = memoryview(bytearray(self._end - self._next + 1)), 0
        while count := self.readinto(buffer[filled:]):
            filled += count
        return bytes(buffer[:filled])

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _read(self, buffer: Any) -> int:
        if self._body is None:
            if self._next == self._end:
                return 0
            self._body = self._rest()
        try:
            count = self._body.readinto(buffer)
        except BROKEN:
            self._drop()
            raise
        self._next += count
        return int(count)

    def _rest(self) -> Any:
        asked = f"bytes={self._next}-{self._end - 1}"
        answer = self._get(Range=asked, IfMatch=self.answer["ETag"])
        # A gateway that ignores ranges would give the begin again.
        if not answer.get("ContentRange", "").startswith(f"bytes {self._next}-"):
            answer["Body"].close()
            raise OSError(f"asked S3 for {asked}, got {answer.get('ContentRange', 'no range')}")
        return answer["Body"]

    def _drop(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()
