"""OpenSSL's and librdkafka's words, of which some are about certificates."""

from __future__ import annotations

import pytest

from sluice.clients.kafka.errors import is_about_certificates, login_fix
from sluice.clients.tls.words import is_certificate_refused, is_unverified


@pytest.mark.parametrize(
    "text",
    [
        "ssl/tls alert certificate required",
        "tlsv1 alert unknown ca",
        "sslv3 alert bad certificate",
        "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] ssl/tls alert certificate expired",
        "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]",
        "tlsv1 alert unsupported certificate",
    ],
)
def test_a_server_refuses_the_clients_certificate(text: str) -> None:
    assert is_certificate_refused(text)
    assert is_about_certificates(f"SSL handshake failed: {text}")
    assert "ssl_certificate_location" in login_fix(text)


@pytest.mark.parametrize(
    "text",
    [
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1016)",
        "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed",
        # urllib3's own, which compares names for botocore.
        "SSL validation failed for https://h:9000/b hostname '127.0.0.1' doesn't match 'elsewhere.test'",
        "hostname 'h' doesn't match either of 'a.test', 'b.test'",
        "no appropriate subjectAltName fields were found",
    ],
)
def test_a_client_does_not_trust_the_server(text: str) -> None:
    assert is_unverified(text)
    assert not is_certificate_refused(text)
    assert "ssl_ca_location" in login_fix(text)


@pytest.mark.parametrize(
    "text",
    [
        "tlsv1 alert protocol version",
        "sslv3 alert handshake failure",
        "tlsv1 alert internal error",
        "the epoch doesn't match",
    ],
)
def test_other_alerts_are_about_no_certificate(text: str) -> None:
    assert not is_about_certificates(f"SSL handshake failed: {text}")
    assert login_fix(text).startswith("Fix: correct the login")
