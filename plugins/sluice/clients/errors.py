"""What can go wrong when a client asks a system, told apart by what helps.

Every message names the thing, the value and, where there is one, the mend; none holds a secret.
"""

from __future__ import annotations

from sluice.model.error_codes import ErrorCode


class ClientError(Exception):
    """The base of what clients raise; ``code`` of the class unless one is given."""

    code = ErrorCode.REQUEST_REFUSED

    def __init__(self, message: object, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code


class Missing(ClientError):
    """What was named does not exist."""

    code = ErrorCode.DOCUMENT_NOT_FOUND


class Refused(ClientError):
    """The system, or the client for safety's sake, will not do this however often it is asked."""


class Unreachable(ClientError):
    """The system could not be observed; the same question may be answered later."""

    code = ErrorCode.SYSTEM_UNREACHABLE
