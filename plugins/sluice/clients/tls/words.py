"""What OpenSSL says of a connection's certificates: of the server's, and a server's of the client's."""

from __future__ import annotations

import re

_ALERT = re.compile(r"(?i)alert[ _](?:\w+ )?(?:unknown[ _]ca|(?:bad[ _]|unsupported[ _])?certificate)")
_ENDED = re.compile(r"EOF occurred|Connection aborted|ConnectionReset|BrokenPipe")


def is_unverified(text: str) -> bool:
    """Whether a client does not trust the server's certificate."""
    return "certificate_verify_failed" in text.lower().replace(" ", "_")


def is_certificate_refused(text: str) -> bool:
    """Whether a server refuses the client's certificate: it is missing, has ended, or is of another CA. No
    other alert: of protocols and ciphers no certificate is the reason."""
    return bool(_ALERT.search(text))


def is_ended(text: str) -> bool:
    """Whether a connection ended while it began, or just after: the server's words may have been lost."""
    return bool(_ENDED.search(text))
