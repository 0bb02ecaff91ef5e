"""What OpenSSL and urllib3 say of a connection's certificates: of the server's, and of the client's."""

from __future__ import annotations

import re

_ALERT = re.compile(r"(?i)alert[ _](?:\w+ )?(?:unknown[ _]ca|(?:bad[ _]|unsupported[ _])?certificate)")
_OTHER_HOST = re.compile(
    r"(?i)(?:hostname|ip address) mismatch|hostname .+ doesn't match|no appropriate subjectAltName"
)
_ENDED = re.compile(r"EOF occurred|Connection aborted|ConnectionReset|BrokenPipe")


def is_unverified(text: str) -> bool:
    """Whether a client does not trust the server's certificate, or it is of another host."""
    return "certificate_verify_failed" in text.lower().replace(" ", "_") or is_other_host(text)


def is_other_host(text: str) -> bool:
    """Whether the server's certificate is of another host: OpenSSL says so, or urllib3, which compares the
    names itself for botocore."""
    return bool(_OTHER_HOST.search(text))


def is_certificate_refused(text: str) -> bool:
    """Whether a server refuses the client's certificate: it is missing, has ended, or is of another CA. No
    other alert: of protocols and ciphers no certificate is the reason."""
    return bool(_ALERT.search(text))


def is_ended(text: str) -> bool:
    """Whether a connection ended while it began, or just after: the server's words may have been lost."""
    return bool(_ENDED.search(text))
