"""A server's answer to a client's certificate. With TLS 1.3 it comes when the client writes already, whose
connection may then end without it."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

SECONDS = 2.0


def refusal(url: str, context: ssl.SSLContext) -> str:
    """OpenSSL's words for why a new connection is refused, of which nothing is written; empty if it is not,
    or nothing answers."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        return ""
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as encrypted,
        ):
            # An alert, or the time is over.
            encrypted.recv(1)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return ""
    except ssl.SSLError as error:
        return str(error)
    except OSError:
        return ""
    return ""
