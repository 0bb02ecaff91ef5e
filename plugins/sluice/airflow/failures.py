"""Task failures with a code and a reason in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import LOGINS, ErrorCode, with_code
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.messages import failure_reason, summarize

if TYPE_CHECKING:
    from sluice.clients.processes.base import Runtime


@contextmanager
def final_failures() -> Iterator[None]:
    """Fail the task without retries on errors that the next attempt would find again; not on a login that is
    refused, or a secret that is missing: both may be corrected, or renewed, by then."""
    try:
        yield
    except (Missing, Refused, ConfigError) as error:
        fail = failed_attempt if error.code in LOGINS else failed
        raise fail(error.code, error) from error
    except Unreachable as error:
        raise Unreachable(with_code(error.code, error), error.code) from error


def failed(code: ErrorCode, message: object) -> AirflowFailException:
    """A task's failure without retries."""
    return AirflowFailException(with_code(code, message))


class FindingsFailed(AirflowException):
    """A task's failure over ``findings``: the message has the first few, and their ``head``, their number. A
    person is told each of them (``sluice.notify.occasions``) that the task's last attempt finds: one packet
    that is lost may be a finding of the first."""

    head = ""
    findings: tuple[str, ...] = ()


def failed_over(code: ErrorCode, head: str, findings: Sequence[str]) -> FindingsFailed:
    error = FindingsFailed(with_code(code, f"{head}: {summarize(findings)}"))
    error.head, error.findings = head, tuple(findings)
    return error


def failed_attempt(code: ErrorCode, message: object) -> AirflowException:
    """A task's failure that is retried."""
    return AirflowException(with_code(code, message))


def log_excerpt(runtime: Runtime, program: str, log: Any) -> str:
    """The reason in the program's log; its last lines are copied to ``log``, the task's."""
    try:
        tail = runtime.tail(program)
    except ClientError as error:
        return f"its log cannot be read: {error}"
    for line in tail[-40:]:
        log.error("%s | %s", program, line)
    return f"its log ends: {failure_reason(tail)}"
