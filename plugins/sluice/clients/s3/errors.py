"""S3's errors as client errors, and its URIs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError
from botocore.exceptions import ClientError as S3Error

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable

_MISSING = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NoSuchVersion", "NotFound"})
DENIED = frozenset({"401", "403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
# Codes for keys with a session token: of AWS, and of MinIO.
ENDED = frozenset({"ExpiredToken", "InvalidToken", "InvalidTokenId", "TokenRefreshRequired"})


def error_code(error: S3Error) -> str:
    """S3's own code (``NoSuchKey``), or the HTTP status of an answer without body (HEAD)."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn boto3's errors into Missing, Refused or Unreachable, each beginning with ``what``."""
    try:
        yield
    except S3Error as error:
        code = error_code(error)
        if code in _MISSING:
            raise Missing(f"{what} does not exist ({code})", ErrorCode.OBJECT_NOT_FOUND) from error
        if code in DENIED | ENDED:
            raise denied(what, code) from error
        raise Unreachable(f"{what}: S3 answered {code}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except BotoCoreError as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error


def denied(what: str, code: str) -> Refused:
    """Make the error for an answer whose ``code`` is in DENIED or ENDED."""
    fix = "check [s3] in the role's platform file and the user's policy"
    return Refused(f"{what}: S3 denies access ({code}). Fix: {fix}", ErrorCode.S3_PERMISSION)
