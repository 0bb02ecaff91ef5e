"""The address of this machine from which the JVM of this process has its credentials."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from sluice.clients.jvm_server import JvmHandler
from sluice.clients.s3.login.endpoint import endpoint
from sluice.config.platform_sections.s3 import S3

pytestmark = pytest.mark.usefixtures("socket_enabled")


def test_who_sends_nothing_is_left_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmHandler, "timeout", 0.2)
    address = urlsplit(endpoint(S3(profile="of-no-other-test")).address)
    with socket.create_connection((address.hostname, address.port), 5) as one:
        one.sendall(b"GET /credentials HTTP/1.1\r\n")
        assert one.recv(1) == b""
