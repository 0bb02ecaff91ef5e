"""Bodies of objects whose connections break."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError

from sluice.clients.s3.bodies import TRIES, ResumedBody
from tests.support.raising import raising
from tests.support.s3_answer import object_answer

DATA = hashlib.shake_256(b"seed").digest(100_000)
ERRORS = (
    IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ReadTimeoutError(endpoint_url="s3"),
    ResponseStreamingError(error="reset"),
)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


class Breaking(io.RawIOBase):
    """A body that ends with an error behind its first bytes."""

    def __init__(self, data: bytes, error: Exception) -> None:
        self._data, self._error = io.BytesIO(data), error

    def readinto(self, buffer: Any) -> int:
        if count := self._data.readinto(buffer):
            return count
        raise self._error


class Object:
    """An object whose answers break behind as many bytes as ``breaks`` says, one after the other."""

    def __init__(self, breaks: list[int], error: Exception = ERRORS[0]) -> None:
        self.data, self.breaks, self.error = DATA, breaks, error
        self.asked = list[dict[str, Any]]()
        # In place of the part that is asked for.
        self.answered: Callable[[str], str] = lambda asked: asked

    def get(self, **options: Any) -> dict[str, Any]:
        self.asked.append(options)
        answer = object_answer(self.data, self.answered(options.get("Range", "")))
        if options.get("IfMatch", answer["ETag"]) != answer["ETag"]:
            raise ClientError({"Error": {"Code": "PreconditionFailed"}}, "GetObject")
        if self.breaks:
            answer["Body"] = Breaking(answer["Body"].read(self.breaks.pop(0)), self.error)
        return answer


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_the_rest_of_the_same_object_is_asked_for(error: Exception) -> None:
    stored = Object([10, 0, 0, 20_000, 0, 0], error)
    with ResumedBody(stored.get) as body:
        assert io.BufferedReader(body, 777).read() == DATA
    etag = object_answer(DATA)["ETag"]
    rest = [{"Range": f"bytes={at}-99999", "IfMatch": etag} for at in (10, 10, 10, *[20_010] * 3)]
    assert stored.asked == [{}, *rest]


@pytest.mark.parametrize("part", ["bytes=50-69", "bytes=-20", "bytes=99980-"])
def test_of_a_part_no_more_than_its_rest(part: str) -> None:
    stored = Object([5, 0])
    expected = object_answer(DATA, part)["Body"].read()
    with ResumedBody(stored.get, Range=part) as body:
        assert body.readall() == expected
    assert len(stored.asked) == 3


def test_what_breaks_behind_its_last_byte_is_whole() -> None:
    stored = Object([len(DATA)])
    with ResumedBody(stored.get) as body:
        assert body.readall() == DATA
    assert len(stored.asked) == 1


def test_without_a_byte_it_is_given_up() -> None:
    stored = Object([10, *[0] * TRIES])
    with ResumedBody(stored.get) as body, raising(IncompleteReadError):
        body.readall()
    assert len(stored.asked) == TRIES


def test_another_object_is_not_taken_for_its_rest() -> None:
    stored = Object([10])
    with ResumedBody(stored.get) as body, raising(ClientError, "PreconditionFailed"):
        stored.data = DATA[::-1]
        body.readall()


def test_an_answer_that_ignores_the_range_is_no_rest() -> None:
    stored = Object([10])
    stored.answered = lambda asked: ""
    with ResumedBody(stored.get) as body, raising(OSError, "bytes=10-99999", "no range"):
        body.readall()
