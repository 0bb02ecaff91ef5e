"""A login that ends, renewed by botocore: AWS's default chain, a profile, a role, a web identity."""

from __future__ import annotations

import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.credentials import (
    DeferredRefreshableCredentials,
)
from botocore.exceptions import (
    BotoCoreError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
)
from botocore.exceptions import ClientError as Answered
from botocore.exceptions import ConnectionError as NotConnected
from botocore.parsers import ResponseParserError

from sluice.clients import backoff
from sluice.clients.backoff import Backoff
from sluice.clients.polling import wait_for
from sluice.clients.s3.errors import (
    CLOCK_FIX,
    S3LoginRefused,
    error_code,
    error_message,
    is_clock_off,
    is_unverified,
    login_fix,
    unverified,
)
from sluice.clients.s3.login.sources import NEVER, Source, files_of, source_of
from sluice.clients.tls.followed import State, state
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Unreachable
from sluice.core.messages import age

log = logging.getLogger(__name__)

# What is renewed before its end, at most; and the last part of a shorter time.
RENEWED_SECONDS, RENEWED_PART = 900.0, 1 / 4
# AWS's files are left alone while they are written; and who else a chain finds then, for the second time.
SETTLING_SECONDS, OTHER_SECONDS = 1.0, 30.0
_LOOK_SECONDS = 0.05
# The part of the rest of its time after which a renewal that failed is tried again.
RETRIED_AFTER = 1 / 5
# Nothing is signed with what ends within these, at most: a request may wait before it is sent.
LAST_SECONDS, LAST_PART = 60.0, 1 / 16
_ENDED_FIX = "Fix: set the clock, or renew the login"
# Statuses by which STS says something of a login, and its codes with the last one that say nothing of it.
_REFUSED, _BAD_REQUEST = frozenset({401, 403}), 400
_BUSY = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "SlowDown"),
        *("RequestLimitExceeded", "RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete"),
        *("InternalFailure", "InternalError", "ServiceUnavailable"),
        # The web identity: its issuer does not answer STS.
        *("IDPCommunicationError", "IDPCommunicationErrorException"),
    }
)
# A machine's or a container's endpoint: no answer, or none that can be read; and its answers that refuse.
_NOT_GIVEN = (CredentialRetrievalError, MetadataRetrievalError, IncompleteReadError)
_NOT_ALLOWED = re.compile(r"non 200 response \(?(?:400|401|403)\b")


def _now() -> datetime:
    return datetime.now(UTC)


class _InOneLine(logging.Filter):
    """Leaves out botocore's traceback of a renewal that failed: it is said here."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Refreshing temporary credentials failed")


logging.getLogger("botocore.credentials").addFilter(_InOneLine())


class Login(DeferredRefreshableCredentials):
    """One login. Nothing is asked before the first request is signed; then it is renewed when it is used.

    Signing raises S3LoginRefused if no credentials are given, and Unreachable if nothing answers and those
    that there are have ended.
    """

    def __init__(self, s3: S3, now: Callable[[], datetime] = _now) -> None:
        super().__init__(self._renew, "sluice", now)
        self._s3, self._now = s3, now
        self._source: Source | None = None
        # Where a chain found what was given last.
        self._method = ""
        # When they end, once they are there; None if they do not.
        self.ends: datetime | None = None
        # With nothing that is valid, each request would ask.
        self._backoff = Backoff()
        # What AWS's files were when ``_source`` was made of them, and when it gave something last.
        self._files = files_of(s3)
        self._made = self._given = _state(self._files)
        # When they were seen to have changed last.
        self._changed_at = backoff.now()

    def _refresh(self) -> None:
        """Asked before each use. What another tool wrote into AWS's files is read, also if what was there
        before does not end; that goes on if it cannot be used."""
        is_changed = self._is_valid() and _state(self._files) != self._given
        if is_changed and not (self._backoff.left or _is_written(self._files)):
            self._advisory_refresh_timeout = sys.maxsize
        super()._refresh()  # type: ignore[misc]

    def _renew(self) -> dict[str, Any]:
        """What botocore calls, under its lock."""
        self._backoff.check()
        try:
            found = self._asked()
            ends = datetime.fromisoformat(found["expiry_time"])
            if (left := self._left(ends)) <= 0:
                raise S3LoginRefused(
                    f"{_name(self._s3)}: what was given ended {age(-left)} ago, by this machine's clock. "
                    f"{_ENDED_FIX}"
                )
        except ClientError as error:
            self._failed(error)
            raise
        self._backoff.succeeded()
        self._given, self.ends = self._made, ends if ends != NEVER else None
        self._method = self._source.method if self._source else ""
        self._advisory_refresh_timeout = int(min(RENEWED_SECONDS, left * RENEWED_PART))
        self._mandatory_refresh_timeout = int(min(LAST_SECONDS, left * LAST_PART))
        return found

    def _failed(self, error: ClientError) -> None:
        is_valid, good = self._is_valid(), 0.0
        if is_valid:
            # Not with each request; those that there are go on.
            left = self._left(self.ends) if self.ends else 0.0
            self._advisory_refresh_timeout = int(left * (1 - RETRIED_AFTER))
            # Nothing is signed with them in the last of their time.
            good = max(0.0, left - self._mandatory_refresh_timeout) if self.ends else math.inf
            log.warning("credentials for S3 not renewed: %s", error)
        if not is_valid or self._made != self._given:
            self._backoff.failed(error, good=good)

    def _is_valid(self) -> bool:
        """Whether there are some, and they have not ended."""
        is_there = self._frozen_credentials is not None  # type: ignore[attr-defined]
        return is_there and (self.ends is None or self._left(self.ends) > 0)

    def _left(self, ends: datetime) -> float:
        return (ends - self._now()).total_seconds()

    def _asked(self) -> dict[str, Any]:
        with _explained(self._s3):
            if self._source is None and not self._is_valid():
                # There is none that could go on meanwhile.
                wait_for(lambda: not _is_written(self._files), SETTLING_SECONDS, _LOOK_SECONDS)
            found = _state(self._files)
            if self._source is None or (found != self._made and not _is_written(self._files)):
                if found != self._made:
                    self._changed_at = backoff.now()
                self._source, self._made = None, found
                self._source = source_of(self._s3)
            self._check_method(self._source.method)
            return self._source.ask()

    def _check_method(self, method: str) -> None:
        """Keys that are gone from a file may be on their way back, and what a chain finds behind it is the
        login of another, as the machine's role. Raises ValueError within OTHER_SECONDS."""
        if method == self._method or not self._method:
            return
        if backoff.now() - self._changed_at < OTHER_SECONDS:
            raise ValueError(
                f"AWS's files changed, and {method} gives a login in place of {self._method}, which is taken "
                f"if it stays so for {OTHER_SECONDS:g} s"
            )


def _is_written(files: tuple[str, ...]) -> bool:
    """Whether one was written just now: tools empty a file first, or write a key, and then its secret."""
    return any(found and abs(time.time() - found[0][1] / 1e9) < SETTLING_SECONDS for found in _state(files))


def _state(files: tuple[str, ...]) -> tuple[State | None, ...]:
    """One file may be missing."""
    return tuple(state((path,)) for path in files)


def check_login(s3: S3) -> None:
    """Raises S3LoginRefused if its credentials have ended, and no others are given; not if nothing answers,
    nor for fixed keys, of which only S3 knows."""
    if s3.has_fixed_login:
        return
    try:
        login(s3).get_frozen_credentials()
    except Unreachable as error:
        log.warning("no credentials for S3: %s", error)


@cache
def login(s3: S3) -> Login:
    """One of each declaration in a process."""
    return Login(s3)


@contextmanager
def _explained(s3: S3) -> Iterator[None]:
    """botocore's errors as S3LoginRefused, or Unreachable."""
    what = _name(s3)
    try:
        yield
    except Answered as error:
        code, said = error_code(error), error_message(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if not (status in _REFUSED or (status == _BAD_REQUEST and code not in _BUSY)):
            raise Unreachable(f"{what}: STS answered {code}: {said}", ErrorCode.S3_UNREACHABLE) from error
        raise S3LoginRefused(f"{what}: STS answered {code}: {said}. {_fix_of_role(s3, error)}") from error
    except (NotConnected, HTTPClientError) as error:
        if is_unverified(error):
            raise S3LoginRefused(f"{what}: {unverified(error)}") from error
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except ResponseParserError:
        # Its text is the answer, in which credentials may be.
        raise Unreachable(f"{what}: the answer of STS cannot be read", ErrorCode.S3_UNREACHABLE) from None
    except RuntimeError as error:
        # botocore's: what a container, a machine or another program gave had ended already.
        said = " ".join(str(error).split()).rstrip(".")
        raise S3LoginRefused(f"{what}: {said}. {_ENDED_FIX}") from error
    except _NOT_GIVEN as error:
        said = " ".join(str(error).split()).rstrip(".")
        if _NOT_ALLOWED.search(said):
            raise S3LoginRefused(f"{what}: {said}. {_fix_of(s3)}") from error
        raise Unreachable(f"{what}: no credentials were given ({said})", ErrorCode.S3_UNREACHABLE) from error
    except (BotoCoreError, OSError, ValueError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise S3LoginRefused(f"{what}: {said}. {_fix_of(s3)}") from error


def _name(s3: S3) -> str:
    if s3.web_identity_token_file:
        return f"role {s3.role_arn} by the token of {s3.web_identity_token_file}"
    source = f"profile {s3.profile}" if s3.profile else "AWS's default credentials"
    return f"role {s3.role_arn}" if s3.role_arn else source


def _fix_of(s3: S3) -> str:
    if s3.web_identity_token_file:
        return "Fix: let what writes the file renew it, or correct web_identity_token_file"
    if s3.profile:
        return "Fix: correct the profile, or profile in [s3] of the role's platform file"
    return (
        "Fix: give the process keys in its environment, a profile, or a role (web identity, container, "
        "instance), or declare a login in [s3] of the role's platform file"
    )


def _fix_of_role(s3: S3, error: Answered) -> str:
    code, said = error_code(error), error_message(error)
    if is_clock_off(error):
        return CLOCK_FIX
    # MinIO answers AccessDenied to a wrong key, too.
    if "AccessDenied" in code and "signature" not in said:
        whom = (
            "this token's issuer and subject" if s3.web_identity_token_file else "this login and external_id"
        )
        return f"Fix: let the role's trust policy name {whom}, and the login's policy allow sts:AssumeRole"
    if s3.web_identity_token_file:
        return (
            "Fix: let what writes the token's file renew it, or correct role_arn or the role's trust policy"
        )
    return login_fix(code, said)
