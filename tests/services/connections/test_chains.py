"""Certificates behind a server's own, and behind a client's: each that ends soon, or has ended, is named."""

from __future__ import annotations

import socketserver
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from sluice.clients.tls.certificates import ClientCertificate
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.rows import Row, documents, judge, table
from tests.support.certificates import Authority

# The support's certificates are from two days ago on.
LONG, SOON, OVER = timedelta(days=80), timedelta(hours=1), timedelta(hours=-1)


@contextmanager
def served(certificate: Path, key: Path, *behind: Path) -> Iterator[int]:
    """The port of a server that sends the certificates ``behind`` its own, too."""
    chain = certificate.with_name("chain.pem")
    chain.write_text("".join(path.read_text() for path in (certificate, *behind)))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                with context.wrap_socket(self.request, server_side=True) as opened:
                    opened.recv(1)
            except OSError:
                """The client does not trust it."""

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def seen(port: int, ca: Path, *, is_verified: bool = True) -> tuple[Row, bool]:
    row = Row("consumer", "kafka broker", f"127.0.0.1:{port}")
    tls = Tls(str(ca), is_verified=is_verified, names_host=is_verified)
    handshakes.read_files(row, tls)
    is_trusted = handshakes.look(row, "127.0.0.1", port, tls)
    judge(row, time.time())
    return row, is_trusted


def bundle(path: Path, parts: Sequence[Path]) -> Path:
    path.write_text("".join(one.read_text() for one in parts))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "root", "the root", valid=LONG)


def between(tmp_path: Path, root: Authority, valid: timedelta) -> Authority:
    return Authority(tmp_path / "between", "the one between", valid=valid, issuer=root)


@pytest.mark.parametrize("is_sent", [True, False])
def test_one_between_that_ends_soon_is_named(tmp_path: Path, root: Authority, is_sent: bool) -> None:
    """Whether the server sends it, or the CA's file has it."""
    middle = between(tmp_path, root, SOON)
    files = middle.issue("server", valid=LONG)
    ca = root.ca if is_sent else bundle(tmp_path / "bundle.pem", [root.ca, middle.ca])
    with served(*files, *([middle.ca] if is_sent else [])) as port:
        row, is_trusted = seen(port, ca)
    assert is_trusted
    (line,) = row.problems
    assert "the certificate of the one between behind the server's certificate ends in " in line
    assert "min" in table([row], time.time()).splitlines()[-1]
    assert "(the one between)" in table([row], time.time())
    (document,) = documents([row])
    assert document["certificate_of"] == "the one between"


@pytest.mark.parametrize("is_sent", [True, False])
def test_one_between_that_has_ended_is_named(tmp_path: Path, root: Authority, is_sent: bool) -> None:
    middle = between(tmp_path, root, OVER)
    files = middle.issue("server", valid=LONG)
    ca = root.ca if is_sent else bundle(tmp_path / "bundle.pem", [root.ca, middle.ca])
    with served(*files, *([middle.ca] if is_sent else [])) as port:
        row, is_trusted = seen(port, ca)
    assert not is_trusted
    assert [line for line in row.problems if "the one between" in line and "ended " in line]


def test_a_root_that_ends_soon_is_named_though_its_file_has_another_one(
    tmp_path: Path, root: Authority
) -> None:
    old = Authority(tmp_path / "old", "the old root", valid=SOON)
    files = old.issue("server", valid=LONG)
    with served(*files) as port:
        row, _ = seen(port, bundle(tmp_path / "bundle.pem", [root.ca, old.ca]))
    (line,) = row.problems
    assert line.startswith("the declared CA's certificate ends in ")
    with served(*root.issue("server", valid=LONG)) as port:
        row, _ = seen(port, bundle(tmp_path / "bundle.pem", [root.ca, old.ca]))
    assert row.problems == []


def test_a_root_that_has_ended_is_named(tmp_path: Path, root: Authority) -> None:
    old = Authority(tmp_path / "old", "the old root", valid=OVER)
    with served(*old.issue("server", valid=LONG)) as port:
        row, is_trusted = seen(port, bundle(tmp_path / "bundle.pem", [root.ca, old.ca]))
    assert not is_trusted
    assert [line for line in row.problems if "the declared CA's certificate ended" in line]


def test_a_server_that_is_not_verified_shows_what_it_sends(tmp_path: Path, root: Authority) -> None:
    middle = between(tmp_path, root, SOON)
    with served(*middle.issue("server", valid=LONG), middle.ca) as port:
        row, is_trusted = seen(port, tmp_path / "root" / "ca.pem", is_verified=False)
    assert is_trusted
    assert row.tls == "TLSv1.3, not verified"
    assert [line for line in row.problems if "the one between" in line]


def test_one_behind_a_clients_own_is_named(tmp_path: Path, root: Authority) -> None:
    middle = between(tmp_path, root, SOON)
    certificate, key = middle.issue("consumer", valid=LONG)
    path = bundle(tmp_path / "own.pem", [certificate, middle.ca])
    row = Row("consumer", "kafka", "there")
    handshakes.read_files(row, Tls(str(root.ca), ClientCertificate(str(path), str(key))))
    judge(row, time.time())
    (line,) = row.problems
    assert "the certificate of the one between behind this role's own certificate ends in " in line
    # What signs nothing of it does not count, and of two the one that lasts.
    other, newer = Authority(tmp_path / "x", "another", valid=SOON), tmp_path / "newer.pem"
    again = Authority(tmp_path / "other", "the one between", valid=LONG, issuer=root)
    bundle(newer, [certificate, middle.ca, again.ca, other.ca])
    row = Row("consumer", "kafka", "there")
    handshakes.read_files(row, Tls(str(root.ca), ClientCertificate(str(newer), str(key))))
    judge(row, time.time())
    assert row.problems == []
