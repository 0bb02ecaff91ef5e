"""The deletion of objects: its requests, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.clients.s3.remove_objects import BATCH, remove
from sluice.core.errors import Refused, Unreachable
from tests.support.memory_s3 import error
from tests.support.raising import raising

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Deleting:
    """An S3 that deletes all but ``refused`` (key -> S3's code), or answers ``fails`` to everything."""

    def __init__(self, refused: dict[str, str] | None = None, fails: str = "") -> None:
        self.refused, self.fails = refused or {}, fails
        self.requests: list[list[str]] = []

    def delete_objects(self, **given: Any) -> dict[str, Any]:
        if self.fails:
            raise error(self.fails, "DeleteObjects")
        keys = [item["Key"] for item in given["Delete"]["Objects"]]
        assert set(given["Delete"]["Objects"][0]) == {"Key"}, "a version would be gone for good"
        self.requests.append(keys)
        refused = [{"Key": k, "Code": self.refused[k], "Message": "no"} for k in keys if k in self.refused]
        return {"Errors": refused} if refused else {}

    def as_client(self) -> S3Client:
        return cast("S3Client", self)


def test_a_thousand_per_request() -> None:
    s3 = Deleting()
    keys = [f"k{number}" for number in range(2 * BATCH + 1)]
    remove(s3.as_client(), "w", iter(keys))
    assert [len(request) for request in s3.requests] == [BATCH, BATCH, 1]
    assert [key for request in s3.requests for key in request] == keys


@pytest.mark.parametrize(
    ("s3", "expected", "words"),
    [
        (Deleting({"b": "AccessDenied"}), Refused, ("s3://w/b", "AccessDenied", "s3:DeleteObject")),
        (Deleting({"b": "SlowDown"}), Unreachable, ("s3://w/b", "SlowDown")),
        (Deleting(fails="AccessDenied"), Refused, ("s3://w",)),
        (Deleting(fails="InternalError"), Unreachable, ("s3://w",)),
    ],
)
def test_what_is_not_deleted_is_an_error(
    s3: Deleting, expected: type[Exception], words: tuple[str, ...]
) -> None:
    with raising(expected, *words):
        remove(s3.as_client(), "w", ["a", "b"])
