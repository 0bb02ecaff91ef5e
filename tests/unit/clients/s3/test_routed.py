"""Requests with the keys of the table that they concern: of which client, and again with new ones."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from sluice.clients.catalogs.table_keys import TableKeys
from sluice.clients.s3 import routed
from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.requests import USUAL
from sluice.clients.s3.routed import RoutedClient
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support.raising import raising


class Client:
    """One login's; ``refuses``: with this code; ``sent``: its requests."""

    def __init__(self, name: str, refuses: str = "") -> None:
        self.name, self.refuses = name, refuses
        self.sent: list[tuple[str, Any]] = []
        self.meta = object()

    def _send(self, name: str, arguments: dict[str, Any]) -> str:
        body = arguments.get("Fileobj")
        self.sent.append((name, body.read() if body else arguments.get("Key", arguments.get("Prefix"))))
        if body:
            # As boto3 does, also if it is refused.
            body.close()
        if self.refuses:
            raise ClientError({"Error": {"Code": self.refuses}}, name)
        return self.name

    def get_object(self, **arguments: Any) -> str:
        return self._send("get", arguments)

    def list_objects_v2(self, **arguments: Any) -> str:
        return self._send("list", arguments)

    def list_object_versions(self, **arguments: Any) -> str:
        return self._send("versions", arguments)

    def upload_fileobj(self, **arguments: Any) -> str:
        return self._send("upload", arguments)

    def get_paginator(self, operation: str) -> Any:
        return self

    def paginate(self, **arguments: Any) -> Iterator[str]:
        # Asked for when they are iterated.
        yield self._send("pages", arguments)


class Keys:
    """Table ``raw.a``'s, below ``a/`` of bucket ``lake``: the first, then those to renew them with."""

    def __init__(self, *names: str) -> None:
        self._left = [TableKeys(S3(name, "s"), 0) for name in names]

    def table_of(self, bucket: str, key: str) -> str | None:
        return "raw.a" if bucket == "lake" and key.startswith("a/") else None

    def keys(self, table: str) -> TableKeys:
        return self._left[0]

    def renewed(self, table: str) -> TableKeys:
        self._left = self._left[1:] or self._left
        return self._left[0]


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> dict[str, Client]:
    found = {name: Client(name) for name in ("usual", "one", "two")}
    monkeypatch.setattr(routed, "connect", lambda s3, limits: found[s3.access_key])
    return found


def made(clients: dict[str, Client], *names: str) -> Any:
    return RoutedClient(cast("Any", clients["usual"]), Keys(*names), USUAL)


def test_a_request_has_the_keys_of_its_table(clients: dict[str, Client]) -> None:
    client = made(clients, "one")
    asked = {
        "of the table": client.get_object(Bucket="lake", Key="a/1"),
        "of another key": client.get_object(Bucket="lake", Key="ledger/a/1"),
        "its list": client.list_objects_v2(Bucket="lake", Prefix="a/data/"),
        "another list": client.list_objects_v2(Bucket="lake", Prefix="ledger/"),
        "its pages": next(client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="a/data/")),
        "its versions": client.list_object_versions(Bucket="lake", Prefix="a/"),
        "pages of versions": next(
            client.get_paginator("list_object_versions").paginate(Bucket="lake", Prefix="a/")
        ),
    }
    own = {name for name, answered in asked.items() if answered == "one"}
    assert own == {"of the table", "its list", "its pages"}
    assert client.meta is clients["usual"].meta


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidTokenId", "AccessDenied", "InvalidAccessKeyId"])
def test_a_request_whose_keys_have_ended_is_sent_again_with_new_ones(
    clients: dict[str, Client], code: str
) -> None:
    client = made(clients, "one", "two")
    clients["one"].refuses = code
    assert client.upload_fileobj(Fileobj=io.BytesIO(b"body"), Bucket="lake", Key="a/1") == "two"
    assert clients["one"].sent == clients["two"].sent == [("upload", b"body")]
    assert client.get_object(Bucket="lake", Key="a/1") == "two"


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_keys_that_do_not_suffice_are_the_catalogs_matter(
    clients: dict[str, Client], names: tuple[str, ...]
) -> None:
    client = made(clients, *names)
    clients["one"].refuses = clients["two"].refuses = "AccessDenied"
    with raising(Refused, "table raw.a", "s3://lake/a/1 (AccessDenied)", "the catalog", "Fix:") as e:
        client.get_object(Bucket="lake", Key="a/1")
    assert e.value.code is ErrorCode.CATALOG_KEYS
    assert len(clients[names[-1]].sent) == 1


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("RequestTimeTooSkewed", "Fix: set this machine's clock, or the server's"),
        ("ExpiredToken", "Fix: let the catalog give keys of the table's S3 that have not ended"),
        ("InvalidAccessKeyId", "Fix: let the catalog give keys of the table's S3"),
    ],
)
def test_keys_that_count_for_nothing_are_a_refused_login(
    clients: dict[str, Client], code: str, fix: str
) -> None:
    """No right is missing."""
    for names in (("one",), ("one", "two")):
        clients["one"].refuses = clients["two"].refuses = code
        with raising(S3LoginRefused, "table raw.a: S3 refuses the keys that the catalog gives", fix):
            made(clients, *names).get_object(Bucket="lake", Key="a/1")


def test_pages_are_asked_for_again_with_new_keys_or_refused(clients: dict[str, Client]) -> None:
    clients["one"].refuses = "ExpiredToken"
    pages = made(clients, "one", "two").get_paginator("list_objects_v2")
    assert list(pages.paginate(Bucket="lake", Prefix="a/")) == ["two"]
    pages = made(clients, "one").get_paginator("list_objects_v2")
    with raising(S3LoginRefused, "s3://lake/a/ (ExpiredToken: no message)", "Fix: let the catalog give keys"):
        list(pages.paginate(Bucket="lake", Prefix="a/"))
    assert list(pages.paginate(Bucket="lake", Prefix="ledger/")) == ["usual"]


def test_other_failures_stay_as_they_are(clients: dict[str, Client]) -> None:
    client = made(clients, "one", "two")
    clients["one"].refuses = "NoSuchKey"
    with raising(ClientError, "NoSuchKey"):
        client.get_object(Bucket="lake", Key="a/1")
    clients["one"].refuses, clients["two"].refuses = "ExpiredToken", "NoSuchKey"
    with raising(ClientError, "NoSuchKey"):
        client.get_object(Bucket="lake", Key="a/1")
    clients["usual"].refuses = "AccessDenied"
    with raising(ClientError, "AccessDenied"):
        client.get_object(Bucket="lake", Key="ledger/1")
