"""Servers behind a proxy: their certificates are seen through it, or the row says that they are not."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sluice.clients.proxies import proxy_of
from sluice.connection_check.probing.tls import Tls, look_at
from sluice.connection_check.probing.web import ask_address
from sluice.connection_check.rows import Row
from tests.support.certificates import Authority

HOST = "feeds.example.com"


class Server:
    """A web server with the certificate of HOST, and a proxy whose every tunnel ends there."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        certificate, key = self.authority.issue("feeds", host=HOST)
        self.web = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.web.socket = context.wrap_socket(self.web.socket, server_side=True)
        self.asked: list[tuple[str, str]] = []
        self.refuses = False
        outer = self

        class Proxy(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                outer.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
                if outer.refuses:
                    self.send_error(403)
                    return
                with socket.create_connection(outer.web.server_address[:2]) as there:  # type: ignore[arg-type]
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=pass_on, args=(there, self.connection), daemon=True)
                    back.start()
                    pass_on(self.connection, there)
                    back.join()

            def log_message(self, *_: object) -> None:
                """Not in the test's output."""

        self.proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        for one in (self.web, self.proxy):
            threading.Thread(target=one.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.server_address[1]}"

    def stop(self) -> None:
        for one in (self.proxy, self.web):
            one.shutdown()
            one.server_close()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while content := source.recv(1 << 16):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        """One of both has left."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = Server(tmp_path)
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:w%40rd@{made.address}")
    yield made
    made.stop()


def test_a_server_behind_a_proxy_shows_its_certificate_and_its_clock(server: Server) -> None:
    row = Row("producer", "feeds x", f"https://{HOST}/changes")
    ask_address(f"https://{HOST}/changes", Tls(str(server.authority.ca)), [row])
    assert row.problems == []
    assert row.tls == "TLSv1.3"
    assert row.certificate
    assert row.clock is not None
    login = f"Basic {b64encode(b'user:w@rd').decode()}"
    assert set(server.asked) == {(f"{HOST}:443", login)}


def test_one_that_is_not_trusted_is_named_through_a_proxy_too(server: Server, tmp_path: Path) -> None:
    row = Row("producer", "feeds x", "")
    other = Authority(tmp_path / "other", "another authority")
    assert not look_at(row, f"https://{HOST}", Tls(str(other.ca)))
    (problem,) = row.problems
    assert "its certificate is not trusted" in problem
    assert row.certificate


def test_a_proxy_that_does_not_pass_it_is_named_without_its_login(server: Server) -> None:
    server.refuses = True
    row = Row("producer", "feeds x", "")
    assert not look_at(row, f"https://{HOST}", Tls())
    (problem,) = row.problems
    assert f"through proxy http://{server.address}: Tunnel connection failed: 403" in problem
    assert "Fix: " in problem
    assert "NO_PROXY" in problem


@pytest.mark.parametrize("scheme", ["https", "socks5"])
def test_a_proxy_that_is_not_passed_is_a_remark(
    server: Server, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"{scheme}://user:word@proxy.example.com:3128")
    row = Row("producer", "feeds x", "")
    # Its login and rights are asked all the same.
    assert look_at(row, f"https://{HOST}", Tls())
    remark = f"its certificate is not looked at: through proxy {scheme}://proxy.example.com:3128"
    assert (row.remarks, row.problems) == ([remark], [])


def test_who_goes_through_no_proxy_is_looked_at_directly(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proxy_of("https://127.0.0.1:1") == ""
    monkeypatch.setenv("NO_PROXY", f"{HOST},10.0.0.0/8")
    assert proxy_of(f"https://{HOST}:8443/x") == proxy_of("https://10.1.2.3") == ""
    monkeypatch.setenv("NO_PROXY", "elsewhere")
    assert proxy_of(f"https://{HOST}:8443/x").endswith(server.address)
    monkeypatch.setenv("HTTPS_PROXY", server.address)
    assert proxy_of(f"https://{HOST}") == f"http://{server.address}"
    # The observer's client heeds none.
    assert not look_at(Row("airflow", "observer", ""), f"https://{HOST}:1", Tls(), is_direct=True)
    assert server.asked == []
