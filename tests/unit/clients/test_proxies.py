"""Which proxy clients go through by the environment: none to this machine, and none that they cannot pass."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from botocore.exceptions import BotoCoreError
from requests import RequestException, Session

from sluice.clients.catalogs.glue import BoundedGlue
from sluice.clients.catalogs.rest import bounded
from sluice.clients.http_client import logged_in, without_login
from sluice.clients.kubernetes.api import _check_verified
from sluice.clients.oauth import Fixes, TokenRefused, TokenRequest
from sluice.clients.proxies import ProxyUnusable, proxy_of, usable_proxy
from sluice.clients.registry.http import Http
from sluice.clients.s3.login.sources import _sts
from sluice.clients.s3.requests import BRIEF, connect
from sluice.config.platform_sections.registry import Registry
from sluice.config.platform_sections.s3 import S3
from sluice.connection_check.probing.web import clock_of
from sluice.connection_check.rows import Row
from sluice.core.registry.errors import RegistryRefused
from tests.support.raising import raising

pytestmark = pytest.mark.usefixtures("socket_enabled")
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
NOTHING = httpx.Timeout(1)


class Proxy:
    """Keeps what it is asked, and passes nothing on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                outer.asked.append(self.rfile.readline().decode())
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    made = Proxy()
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, made.url)
    yield made
    made.stop()


HERE = "http://localhost:1"
GLUE = {"glue.endpoint": HERE, "glue.region": "us-east-1", "s3.region": "us-east-1"}


def opened(url: str) -> httpx.Client:
    return logged_in(url, None, ssl.create_default_context, {}, NOTHING)


def test_nothing_for_this_machine_is_sent_to_a_proxy(proxy: Proxy) -> None:
    """Loopback may be asked in plain text, with a login."""
    s3 = S3("key", "secret-key", HERE, path_style=True)
    with raising(BotoCoreError, "localhost"):
        connect(s3, BRIEF).list_buckets()
    sts = _sts(S3(sts_endpoint=HERE))("sts", aws_access_key_id="key", aws_secret_access_key="secret-key")
    with raising(BotoCoreError, "localhost"):
        sts.get_caller_identity()
    glue = BoundedGlue({**GLUE, "glue.access-key-id": "key", "glue.secret-access-key": "secret-key"})
    with raising(BotoCoreError, "localhost"):
        glue.glue.get_databases()
    with raising(RequestException, "localhost"), bounded(Session()) as session:
        session.post(f"{HERE}/v1/oauth/tokens", data={"client_secret": "secret"})
    with (
        raising(httpx.ConnectError),
        opened(HERE) as client,
    ):
        client.get(HERE)
    with raising(httpx.ConnectError), without_login(HERE, NOTHING, httpx.Limits()) as client:
        client.get(HERE)
    assert proxy.asked == []


def test_what_is_for_another_machine_is(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://catalog.test/v1/config"
    with raising(RequestException), bounded(Session()) as session:
        session.get(url)
    with (
        raising(httpx.TransportError),
        opened(url) as client,
    ):
        client.get(url)
    assert proxy.asked == [f"GET {url} HTTP/1.1\r\n"] * 2
    monkeypatch.setenv("NO_PROXY", "catalog.test")
    with raising(RequestException), bounded(Session()) as session:
        session.get(url)
    with (
        raising(httpx.TransportError),
        opened(url) as client,
    ):
        client.get(url)
    assert len(proxy.asked) == 2


def clients_of(url: str) -> None:
    """Ask S3, STS, Glue and a feed there, of which none answers."""
    with raising(BotoCoreError):
        connect(S3("key", "secret-key", url, path_style=True), BRIEF).list_buckets()
    sts = _sts(S3(sts_endpoint=url))("sts", aws_access_key_id="key", aws_secret_access_key="secret-key")
    with raising(BotoCoreError):
        sts.get_caller_identity()
    keys = {"glue.access-key-id": "key", "glue.secret-access-key": "secret-key", "glue.endpoint": url}
    with raising(BotoCoreError):
        BoundedGlue({**GLUE, **keys, "glue.max-retries": "0"}).glue.get_databases()
    with raising(httpx.TransportError), without_login(url, NOTHING, httpx.Limits()) as client:
        client.get(url)


def test_the_one_of_all_schemes_is_for_aws_and_feeds_too(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HTTP_PROXY")
    monkeypatch.delenv("HTTPS_PROXY")
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    clients_of("http://aws.test")
    assert len([line for line in proxy.asked if "http://aws.test/" in line]) >= 4


def test_a_network_that_has_none_is_asked_directly_by_all(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens there, on this machine; it is none of loopback."""
    monkeypatch.setenv("NO_PROXY", "0.0.0.0/8")
    clients_of("http://0.0.0.0:1")
    assert proxy.asked == []


def test_where_aws_has_no_declared_address_its_own_counts(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("ALL_PROXY", proxy.url)
    with raising(BotoCoreError):
        connect(S3("key", "secret-key", region="eu-central-1"), BRIEF).list_buckets()
    assert set(proxy.asked) == {"CONNECT s3.eu-central-1.amazonaws.com:443 HTTP/1.0\r\n"}


def test_a_cluster_on_this_machine_has_none(proxy: Proxy) -> None:
    from kubernetes import client

    found = client.Configuration()
    found.host = "http://localhost:8001"
    assert found.proxy == proxy.url
    _check_verified(found, "here")
    assert found.proxy is None


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "socks4"])
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY"])
def test_one_of_socks_is_named_with_its_variable(
    scheme: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, f"{scheme}://user:word@proxy.test:1080")
    url = "https://idp.test/token"
    named = f"{name} names {scheme}://proxy.test:1080 for https://idp.test"
    said = f"{named}: no proxy of http:// or https://. Fix: "
    request = TokenRequest(url, "me", "secret", "", "", "", Fixes("ca", "url", "client"))
    with raising(TokenRefused, said, "add idp.test to NO_PROXY"):
        request.fetch()
    with raising(RegistryRefused, said):
        Http(Registry(url)).get(("subjects",))
    with raising(ProxyUnusable, said):
        without_login(url, NOTHING, httpx.Limits())
    row = Row("consumer", "registry", url)
    assert clock_of(row, url)
    assert said in row.problems[0]
    assert "word" not in str((row.problems, said))


def test_one_of_socks_for_other_addresses_matters_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.test:1080")
    monkeypatch.setenv("NO_PROXY", "idp.test")
    assert usable_proxy("https://idp.test/token") == usable_proxy("http://127.0.0.1") == ""
    opened("https://idp.test").close()
    without_login("https://idp.test", NOTHING, httpx.Limits()).close()


def test_without_a_scheme_one_is_of_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.test:3128")
    assert proxy_of("https://idp.test") == "http://proxy.test:3128"
    assert proxy_of("http://idp.test") == proxy_of("https://[::1]:1") == ""
