"""A bucket that cannot be listed: what is denied may be missing, by each of the clients that ask for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sluice.clients.catalogs.table_keys import TableKeys
from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.s3 import routed
from sluice.clients.s3.objects import Bucket, Entry
from sluice.clients.s3.requests import USUAL
from sluice.clients.s3.routed import RoutedClient
from sluice.clients.s3.unlisted import entries_by_head
from sluice.config.platform_sections.lake import BUCKET_LISTS
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import Refused
from tests.support.raising import raising

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Answers:
    """boto3's client; ``code``: with which it refuses every request, empty for none."""

    def __init__(self, code: str) -> None:
        self._code = code

    def head_object(self, **_: Any) -> dict[str, Any]:
        if self._code:
            raise ClientError({"Error": {"Code": self._code}}, "HeadObject")
        return {"ETag": '"e"', "LastModified": AT, "ContentLength": 7}

    get_object = head_object


class Keys:
    """Everything is the table's, and has the same keys always."""

    def table_of(self, bucket: str, key: str) -> str | None:
        return "raw.a"

    def keys(self, table: str) -> TableKeys:
        return TableKeys(S3("k", "s"), 0)

    renewed = keys


@pytest.fixture(params=["usual", "by the table's keys"])
def client_that(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(code: str) -> Any:
        if request.param == "usual":
            return Answers(code)
        monkeypatch.setattr(routed, "connect", lambda *_: Answers(code))
        return RoutedClient(cast("Any", Answers("")), Keys(), USUAL)

    return made


@pytest.mark.parametrize("code", ["403", "AccessDenied"])
def test_what_is_denied_counts_as_missing(client_that: Any, code: str) -> None:
    client = client_that(code)
    assert entries_by_head(Bucket(client, "lake"), "a/1") == []
    assert not BotoFileIO({BUCKET_LISTS: "false"}, client).new_input("s3://lake/a/m.avro").exists()


def test_an_object_that_is_there_is_one_entry(client_that: Any) -> None:
    assert entries_by_head(Bucket(client_that(""), "lake"), "a/1") == [Entry("a/1", True, False, "e", 7, AT)]
    assert entries_by_head(Bucket(client_that("404"), "lake"), "a/1") == []


def test_keys_that_have_ended_are_no_missing_object(client_that: Any) -> None:
    with raising(Refused, "ExpiredToken", "Fix:"):
        entries_by_head(Bucket(client_that("ExpiredToken"), "lake"), "a/1")
