"""How every client connects to PostgreSQL: encrypted and verified unless declared otherwise; with deadlines.

libpq (psycopg2, PyIceberg, SQLAlchemy) and the JDBC driver (Iceberg in Spark) take the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import is_loopback

DISABLE, VERIFY_FULL = "disable", "verify-full"
# Not "allow" and "prefer": they fall back to plain text when a server in between refuses encryption.
SSL_MODES = (DISABLE, "require", "verify-ca", VERIFY_FULL)
VERIFYING = frozenset({"verify-ca", VERIFY_FULL})
CONNECT_SECONDS = 5
# SQLAlchemy's plugin of sluice.clients.databases.postgresql, and its argument: seconds for an answer.
PLUGIN, DEADLINE_KEY = "sluice_deadline", "deadline_seconds"
# That of sluice.clients.databases.certificates, and its arguments in a URL, as libpq calls them, or as one of
# an engine. The passphrase is in no URL that an engine shows.
CERTIFICATE_PLUGIN, CERTIFICATE_KEY = "sluice_certificate", "client_certificate"
CERTIFICATE_FIELDS = ("sslcert", "sslkey", "sslpassword")
# The kernel's probes find a host or network that is gone, after 30 + 3 x 10 s.
KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
# Data that the host does not acknowledge.
UNACKNOWLEDGED_SECONDS = 60


def ssl_mode(host: str, declared: str) -> str:
    """``declared``, or its default: verified, and plain text on this machine."""
    return declared or (DISABLE if is_loopback(host) else VERIFY_FULL)


def check_ssl(where: str, host: str, mode: str, ca: str, keys: tuple[str, str]) -> None:
    """Raise ConfigError for a mode that may fall back to plain text, and one that verifies without a CA.

    ``mode``: as declared. ``keys``: how mode and CA are called.
    """
    mode_key, ca_key = keys
    if mode and mode not in SSL_MODES:
        reason = "it may fall back to plain text" if mode in ("allow", "prefer") else "it is unknown"
        raise ConfigError(
            f"{where}: {mode_key} is {mode!r}: {reason}. Fix: use one of {', '.join(SSL_MODES)}"
        )
    found = ssl_mode(host, mode)
    if found in VERIFYING and not ca:
        by = "" if mode else f" (the default for {host}, which is another machine)"
        raise ConfigError(
            f"{where}: {ca_key} is missing, and {mode_key} is {found!r}{by}. Fix: give the path of a PEM "
            f'file with its CA, or, in a network that you trust, write {mode_key} = "{DISABLE}"'
        )


def check_certificate(where: str, is_encrypted: bool, files: Mapping[str, str]) -> None:
    """Raise ConfigError for a client's certificate that would not be sent. ``files``: certificate, key and
    passphrase, each under the name of its key."""
    certificate, key, passphrase = files
    for name in (key, passphrase):
        if files[name] and not files[certificate]:
            raise ConfigError(
                f"{where}: {name} is there, and {certificate} is missing. Fix: add the certificate, or "
                f"remove {name}"
            )
    if files[certificate] and not is_encrypted:
        raise ConfigError(
            f"{where}: {certificate} is there, and the connection is not encrypted. Fix: encrypt it, or "
            f"remove {certificate}"
        )


def libpq_timeouts(statement_seconds: float, options: str = "") -> dict[str, Any]:
    """Arguments of libpq. A server that stands still, with its kernel alive, is found by PLUGIN only."""
    return {
        "connect_timeout": CONNECT_SECONDS,
        **KEEPALIVES,
        "tcp_user_timeout": UNACKNOWLEDGED_SECONDS * 1000,
        "options": f"{options} -c statement_timeout={int(statement_seconds * 1000)}".strip(),
    }


def jdbc_timeouts(statement_seconds: float, answer_seconds: float) -> dict[str, str]:
    """Properties of the JDBC driver, which gives up an answer by itself."""
    return {
        "connectTimeout": str(CONNECT_SECONDS),
        "loginTimeout": str(2 * CONNECT_SECONDS),
        "socketTimeout": str(int(answer_seconds)),
        "tcpKeepAlive": "true",
        "options": f"-c statement_timeout={int(statement_seconds * 1000)}",
    }
