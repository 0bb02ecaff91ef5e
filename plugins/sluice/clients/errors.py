"""What can go wrong when a client asks a system, told apart by what helps.

Every message names the thing, the value and, where there is one, the mend; none holds a secret.
"""

from __future__ import annotations


class ClientError(Exception):
    """The base of what clients raise."""


class Missing(ClientError):
    """What was named does not exist."""


class Refused(ClientError):
    """The system, or the client for safety's sake, will not do this however often it is asked."""


class Unreachable(ClientError):
    """The system could not be observed; the same question may be answered later."""
