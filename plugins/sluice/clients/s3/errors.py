"""S3's errors as client errors: what is missing, what is denied, which login is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, HTTPClientError, SSLError
from botocore.exceptions import ClientError as S3Error
from botocore.exceptions import ConnectionError as NotConnected

from sluice.clients.tls import words
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.http_dates import http_date

_MISSING = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NoSuchVersion", "NotFound"})
# Codes for keys with a session token: of AWS, and of MinIO.
ENDED = frozenset({"ExpiredToken", "InvalidToken", "InvalidTokenId", "TokenRefreshRequired"})
# A machine's clock that is more than a quarter of an hour off.
_CLOCK = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
LOGIN = ENDED | _CLOCK | {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId"}
NO_RIGHT = frozenset({"401", "403", "AccessDenied"})
DENIED = LOGIN | NO_RIGHT
CLOCK_FIX = "Fix: set this machine's clock, or the server's"
# How far off S3 takes it.
_CLOCK_SECONDS = 300.0
# What STS says of them, beside its codes.
_CLOCK_WORDS = ("too skewed", "Signature expired", "Signature not yet current", "too large")
# What is said of a connection if the file with the CA cannot be used.
_CA_FILE = ("[Errno", "[X509", "TLS CA certificate bundle")
_IN = "in [s3] of the role's platform file"


class S3LoginRefused(Refused):
    """S3, or who gives the credentials for it, refuses the login; or its certificate is not trusted. A retry
    succeeds after it was corrected."""

    code = ErrorCode.S3_LOGIN


def error_code(error: S3Error) -> str:
    """S3's own code (``NoSuchKey``), or the HTTP status of an answer without body (HEAD)."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


def error_message(error: S3Error) -> str:
    """S3's own words, without a full stop."""
    return str(error.response.get("Error", {}).get("Message", "no message")).rstrip(".")


def login_fix(code: str, said: str = "") -> str:
    """What a person does after a login was refused with this code and these words."""
    if is_of_clock(code, said):
        return CLOCK_FIX
    if "Expired" in code or code in ENDED:
        return (
            "Fix: write keys that have not ended, or a login that is renewed (role_arn, profile, none), "
            f"{_IN}"
        )
    return f"Fix: correct the login {_IN}"


def is_of_clock(code: str, said: str) -> bool:
    """Whether this code and these words say that a clock is wrong."""
    return code in _CLOCK or any(word in said for word in _CLOCK_WORDS)


def is_clock_off(error: S3Error) -> bool:
    """Whether the answer is of another time than this machine's: not every server says that this is why."""
    said = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
    at = http_date(said)
    return at is not None and abs((at - _now()).total_seconds()) > _CLOCK_SECONDS


def _now() -> datetime:
    return datetime.now(UTC)


def is_unverified(error: BotoCoreError) -> bool:
    """Whether a connection's error is of the server's certificate, or of the CA's file."""
    text = str(error)
    return words.is_unverified(text) or (
        isinstance(error, SSLError) and any(word in text for word in _CA_FILE)
    )


def unverified(error: BotoCoreError) -> str:
    if words.is_other_host(str(error)):
        fix = "correct the host's name in endpoint or sts_endpoint, or give the server a certificate of it,"
    else:
        fix = "write the path of its CA, a PEM file, as ca_location,"
    return f"the certificate is not trusted ({error}). Fix: {fix} {_IN}"


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn boto3's errors into Missing, Refused or Unreachable, each beginning with ``what``."""
    try:
        yield
    except S3Error as error:
        code = error_code(error)
        if code in _MISSING:
            raise Missing(f"{what} does not exist ({code})", ErrorCode.OBJECT_NOT_FOUND) from error
        if code in DENIED:
            raise denied(what, error) from error
        raise Unreachable(f"{what}: S3 answered {code}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except BotoCoreError as error:
        raise not_asked(what, error) from error


def denied(what: str, error: S3Error) -> Refused:
    """Make the error for an answer whose code is in DENIED."""
    code = error_code(error)
    if code in LOGIN:
        said = error_message(error)
        return S3LoginRefused(f"{what}: S3 refuses the login ({code}: {said}). {login_fix(code, said)}")
    fix = "check [s3] in the role's platform file and the user's policy"
    return Refused(f"{what}: S3 denies access ({code}). Fix: {fix}", ErrorCode.S3_PERMISSION)


def not_asked(what: str, error: BotoCoreError) -> Refused | Unreachable:
    """Make the error for a request without an answer."""
    if isinstance(error, NotConnected | HTTPClientError) and is_unverified(error):
        return S3LoginRefused(f"{what}: {unverified(error)}")
    return Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE)
