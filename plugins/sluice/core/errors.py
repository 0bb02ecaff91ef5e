"""Errors of clients. Messages name the thing, the value found and the fix, and no secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sluice.core.error_codes import ErrorCode
from sluice.core.messages import MAX_PROBLEMS, summarize


class ClientError(Exception):
    """The base of all; ``code`` is the class's by default."""

    code = ErrorCode.REQUEST_REFUSED

    def __init__(self, message: object, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code or type(self).code


class Missing(ClientError):
    """A named thing does not exist."""

    code = ErrorCode.DOCUMENT_NOT_FOUND


class Refused(ClientError):
    """The system, or the client as a safeguard, rejects the request: a retry fails too."""


class Unreachable(ClientError):
    """The system did not answer: a retry may succeed."""

    code = ErrorCode.SYSTEM_UNREACHABLE


class Log(Protocol):
    """Python's logger, or a task's own."""

    def error(self, text: str, /, *args: Any) -> Any: ...


def check_no_problems(
    log: Log,
    code: ErrorCode,
    problems: Sequence[str],
    failure: str,
    fix: str = "",
    most: int = MAX_PROBLEMS,
) -> None:
    """Log each problem. Raises Refused with the first ``most`` of them, if any."""
    for problem in problems:
        log.error("%s", problem)
    if problems:
        raise Refused(f"{failure}: {summarize(problems, most)}{fix}", code)
