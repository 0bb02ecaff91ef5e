"""Answers that are not the catalog's, on the way to it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from requests.adapters import HTTPAdapter

from sluice.clients.catalogs import commits
from sluice.clients.catalogs.errors import NotFromCatalog, asking
from sluice.clients.catalogs.pointers import Pointers, opened
from sluice.clients.catalogs.rest import BoundedCatalog
from sluice.core.errors import Unreachable
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, refusal
from tests.support.raising import raising

TABLE = "/v1/namespaces/raw/tables/t"


class Answering:
    """A server of a REST catalog that answers all but its configuration alike."""

    def __init__(self) -> None:
        self.answer = Answer(500)
        self.defaults: dict[str, str] = {}
        self.asked: list[Asked] = []
        self.url = ""

    def __call__(self, asked: Asked, _: Ask) -> Answer:
        self.asked.append(asked)
        if asked.path == "/v1/config":
            return Answer(200, json.dumps({"defaults": {}, "overrides": self.defaults}).encode())
        return self.answer


@pytest.fixture
def server() -> Iterator[Answering]:
    made = Answering()
    with CatalogProxy("http://upstream.test", made) as proxy:
        made.url = proxy.url
        yield made


def pointers(server: Answering) -> Pointers:
    return opened({"type": "rest", "uri": server.url})


@pytest.mark.parametrize("kind", ["NoSuchTableException", "NoSuchNamespaceException", "NoSuchTabularError"])
def test_a_missing_table_is_what_the_catalog_calls_so(server: Answering, kind: str) -> None:
    server.answer = refusal(404, kind, "Table does not exist: raw.t")
    assert pointers(server).find("raw.t") is None


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, b"default backend - 404"),
        Answer(404),
        Answer(404, b'["error"]'),
        Answer(404, b'{"error": "not found"}'),
        refusal(404, "NoSuchWarehouseException", "no warehouse of this name"),
    ],
)
def test_another_404_is_no_missing_table(server: Answering, answer: Answer) -> None:
    server.answer = answer
    with raising(Unreachable, "table raw.t", "404", "Fix: "), asking("table raw.t"):
        pointers(server).find("raw.t")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_commit_that_is_redirected_is_none(server: Answering, status: int) -> None:
    """By a proxy from http to https: requests would then ask by GET, and 200 would say of a commit, too."""
    catalog = pointers(server).catalog
    server.answer = Answer(status, b"", {"Location": "https://me:secret@catalog.test/v1?token=secret"})
    with raising(NotFromCatalog, status, "to https://catalog.test, and", "Fix: ") as caught:
        commits.commit(catalog, "raw.t", commits.expected_refs({"main": 1}), [])
    assert "secret" not in str(caught.value)
    assert [asked.method for asked in server.asked if asked.path == TABLE] == ["POST"]


def test_a_server_does_not_choose_that_readers_see_the_heads_alone(server: Answering) -> None:
    server.defaults = {"snapshot-loading-mode": "refs"}
    found = pointers(server)
    server.answer = refusal(404, "NoSuchTableException", "")
    found.find("raw.t")
    assert server.asked[-1].target.endswith("?snapshots=all")


def test_an_idle_connection_is_kept(server: Answering) -> None:
    catalog = pointers(server).catalog
    assert isinstance(catalog, BoundedCatalog)
    adapter = catalog._session.get_adapter(server.url)
    assert isinstance(adapter, HTTPAdapter)
    options = adapter.poolmanager.connection_pool_kw["socket_options"]
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
