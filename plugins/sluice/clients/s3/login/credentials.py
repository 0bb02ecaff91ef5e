"""A login that ends, renewed by botocore: AWS's default chain, a profile, a role, a web identity."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    AssumeRoleWithWebIdentityCredentialFetcher,
    Credentials,
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

from sluice.clients.backoff import Backoff
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
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Unreachable
from sluice.core.messages import age

if TYPE_CHECKING:
    from botocore.session import Session

log = logging.getLogger(__name__)

SESSION_NAME = "sluice"
# What is renewed before its end, at most; and the last part of a shorter time.
RENEWED_SECONDS, RENEWED_PART = 900.0, 1 / 4
# The part of the rest of its time after which a renewal that failed is tried again.
RETRIED_AFTER = 1 / 5
# Nothing is signed with what ends within these, at most: a request may wait before it is sent.
LAST_SECONDS, LAST_PART = 60.0, 1 / 16
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 10, 3
_LONGEST_FILE = 1 << 20
# The end of keys that do not end.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
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
# A machine's endpoint, which botocore asks once: no answer would look like no role.
_METADATA_ATTEMPTS = "metadata_service_num_attempts", "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 3


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
        self._ask: Callable[[], dict[str, Any]] | None = None
        # When they end, once they are there; None if they do not.
        self.ends: datetime | None = None
        # With nothing that is valid, each request would ask.
        self._backoff, self._failure = Backoff(), ClientError("")

    def _renew(self) -> dict[str, Any]:
        """What botocore calls, under its lock."""
        if self._backoff.left:
            raise type(self._failure)(str(self._failure), self._failure.code) from self._failure
        try:
            found = self._asked()
        except ClientError as error:
            if self.ends is None or self._left(self.ends) <= 0:
                self._failure = error
                self._backoff.failed()
            else:
                # Not with each request; those that there are go on.
                self._advisory_refresh_timeout = int(self._left(self.ends) * (1 - RETRIED_AFTER))
                log.warning("credentials for S3 not renewed: %s", error)
            raise
        self._backoff.succeeded()
        ends = datetime.fromisoformat(found["expiry_time"])
        if (left := self._left(ends)) <= 0:
            raise S3LoginRefused(
                f"{_name(self._s3)}: what was given ended {age(-left)} ago, by this machine's clock. Fix: "
                "set the clock, or renew the login"
            )
        self.ends = ends if ends != _NEVER else None
        self._advisory_refresh_timeout = int(min(RENEWED_SECONDS, left * RENEWED_PART))
        self._mandatory_refresh_timeout = int(min(LAST_SECONDS, left * LAST_PART))
        return found

    def _left(self, ends: datetime) -> float:
        return (ends - self._now()).total_seconds()

    def _asked(self) -> dict[str, Any]:
        with _explained(self._s3):
            if self._ask is None:
                self._ask = _asking(self._s3)
            return self._ask()


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
    except (*_NOT_GIVEN, RuntimeError) as error:
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


def _asking(s3: S3) -> Callable[[], dict[str, Any]]:
    """What gives credentials, as botocore's refreshable ones take them."""
    if not s3.role_arn:
        found = _source(s3)
        return lambda: _metadata(found)
    name = s3.role_session_name or SESSION_NAME
    if s3.web_identity_token_file:
        fetcher: Any = AssumeRoleWithWebIdentityCredentialFetcher(
            _sts(s3), _token_of(s3), s3.role_arn, {"RoleSessionName": name}
        )
    else:
        more = {"RoleSessionName": name} | ({"ExternalId": s3.external_id} if s3.external_id else {})
        fetcher = AssumeRoleCredentialFetcher(_sts(s3), _source(s3), s3.role_arn, more)
    # Its own cache gives nothing again within 15 minutes of its end, when it is asked first.
    fetch: Callable[[], dict[str, Any]] = fetcher.fetch_credentials
    return fetch


def _source(s3: S3) -> Credentials:
    if s3.access_key:
        return Credentials(s3.access_key, s3.secret_key, s3.session_token or None)
    session = botocore.session.Session(profile=s3.profile or None)
    name, variable, attempts = _METADATA_ATTEMPTS
    if variable not in os.environ:
        session.set_config_variable(name, attempts)
    found = session.get_credentials()
    if found is None:
        where = "the profile has no login" if s3.profile else "they are none: no keys, no profile and no role"
        raise ValueError(where)
    return found


def _metadata(found: Credentials) -> dict[str, Any]:
    keys = found.get_frozen_credentials()
    ends = getattr(found, "_expiry_time", None) or _NEVER
    return {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "token": keys.token,
        "expiry_time": ends.isoformat(),
    }


def _sts(s3: S3) -> Callable[..., Any]:
    """Makes clients of STS, as botocore's own fetchers ask for them."""

    def create(service: str, **arguments: Any) -> Any:
        bounds = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        )
        given = arguments.pop("config", None)
        return plain_session().create_client(
            service,
            region_name=s3.region,
            endpoint_url=s3.sts_endpoint or None,
            verify=s3.ca_location or None,
            config=bounds.merge(given) if given else bounds,
            **arguments,
        )

    return create


def _token_of(s3: S3) -> Callable[[], str]:
    def read() -> str:
        with Path(s3.web_identity_token_file).open("rb") as file:
            text = file.read(_LONGEST_FILE).decode().strip()
        if not text:
            raise ValueError("the file is empty")
        return text

    return read


@cache
def plain_session() -> Session:
    """Without a login of its own; all clients share its descriptions of services."""
    return botocore.session.get_session()
