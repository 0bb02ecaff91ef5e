"""The errors of PyIceberg and its clients, of a catalog, as Sluice's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    UnauthorizedError,
)
from requests import RequestException
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from sluice.clients.catalogs.signing import is_login
from sluice.clients.databases.errors import DatabaseError, diagnose, server_message
from sluice.clients.s3.errors import DENIED, error_code
from sluice.clients.tls.words import is_certificate_refused, is_unverified
from sluice.config.connection import MYSQL, POSTGRESQL
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.messages import MAX_QUOTED, quoted

# By OpenSSL, of a REST server without encryption.
_PLAIN_TEXT = re.compile(r"(?i)wrong_version_number|record_layer_failure")
_NOT_ALLOWED = (DatabaseError.DENIED, DatabaseError.NO_DATABASE)

# AWS Glue's, and those that each of AWS's services has.
DENIED_BY_AWS = DENIED | {
    *("AccessDeniedException", "UnrecognizedClientException", "InvalidClientTokenId", "OptInRequired"),
    *("ExpiredTokenException", "IncompleteSignatureException", "InvalidSignatureException"),
    "MissingAuthenticationTokenException",
}
_NOT_FOUND = "EntityNotFoundException"
# A server, or a proxy before it, says: too slow, locked, too early, too many. The same may be sent again.
_LATER = frozenset({408, 423, 425, 429})
# Longest text of a catalog's refusal, which names the right that is missing at its end.
_MAX_REFUSAL = 500


class LoginRefused(Refused):
    """The catalog, or who gives the tokens or keys for it, refuses the login, or is not verified. A retry
    succeeds after it was corrected."""

    code = ErrorCode.CATALOG_LOGIN


class NotFromCatalog(RequestException):
    """An answer that PyIceberg would take for the catalog's. Its text says what it was, and the fix."""

    code = ErrorCode.CATALOG_UNREACHABLE


def missing(what: str) -> Missing:
    message = (
        f"{what} does not exist; the stream's consumer creates it. Fix: start the consumer; if it had rows: "
        "docs/operating.md, Table lost by the catalog"
    )
    return Missing(message, ErrorCode.TABLE_NOT_FOUND)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """The errors of PyIceberg and its clients of a catalog as Missing (no such table), Refused (access is
    denied, or the catalog does not take the request) or Unreachable; no connection string."""
    try:
        yield
    except NoSuchTableError as error:
        raise missing(what) from error
    except DBAPIError as error:
        raise _of_database(what, error.orig or error) from error
    except PoolTimeout as error:
        # Each connection waits for an answer.
        message = f"{what}: the catalog's database does not answer: no connection is free"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error
    except (UnauthorizedError, AuthorizationExpiredError, OAuthError) as error:
        raise login_refused(what, str(error)) from error
    except ForbiddenError as error:
        raise denied(what, str(error)) from error
    except ClientError as error:
        if (code := error_code(error)) in DENIED_BY_AWS:
            raise denied(what, f"{code}: {error.response['Error'].get('Message', '')}") from error
        if code == _NOT_FOUND:
            raise missing(what) from error
        # Throttled requests among them, which the client has sent several times.
        raise unreachable(what, str(error)) from error
    except NotFromCatalog as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.CATALOG_UNREACHABLE) from error
    except ValidationError as error:
        # As the page of a proxy, with status 200, in place of the server's configuration.
        # Its text has the answer, in which a token may be.
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise _request_refused(what, f"its answer is none of Iceberg's: {said}") from None
    except (RESTError, RequestException, BotoCoreError) as error:
        if found := _of_certificates(what, str(error)):
            raise found from error
        if _is_final(error):
            raise _request_refused(what, str(error)) from error
        message = f"{what}: the catalog does not answer: {_line(str(error))}"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error


def _of_certificates(what: str, text: str) -> Refused | None:
    """A connection's error that is about the certificate of either side, by OpenSSL's words."""
    if _PLAIN_TEXT.search(text) or is_unverified(text):
        return not_verified(what, text)
    return login_refused(what, text) if is_certificate_refused(text) else None


def _line(text: str, limit: int = MAX_QUOTED) -> str:
    return quoted(" ".join(text.split()), limit)


def _is_final(error: BaseException) -> bool:
    """Whether a server has answered, and the same request fails again."""
    # PyIceberg raises its errors from those of requests.
    response = getattr(error.__cause__, "response", None)
    status = 0 if response is None else response.status_code
    return 400 <= status < 500 and status not in _LATER


def _of_database(what: str, error: BaseException) -> Missing | Refused | Unreachable:
    """The error of a database's driver."""
    reason = server_message(error)
    found = diagnose(MYSQL if type(error).__module__.startswith("pymysql") else POSTGRESQL, error)
    if "iceberg_tables" in reason and (found is DatabaseError.NO_TABLE or "no such table" in reason):
        message = f"{what}: the catalog's database has no tables yet"
        return Missing(message, ErrorCode.TABLE_NOT_FOUND)
    if found in _NOT_ALLOWED:
        return refused(what, reason)
    if found is DatabaseError.LOGIN:
        return login_refused(what, reason)
    if found is DatabaseError.UNVERIFIED:
        return not_verified(what, reason)
    message = f"{what}: the catalog's database does not answer: {reason}"
    return Unreachable(message, ErrorCode.CATALOG_UNREACHABLE)


def not_verified(what: str, reason: str) -> LoginRefused:
    """The error for a catalog that is not the one that its certificate must name, or is not encrypted."""
    message = (
        f"{what}: the catalog is not verified, and got no login: {_line(reason, _MAX_REFUSAL)}. "
        "Fix: correct sslrootcert, the file with the CA of its certificate, or the host's name in uri"
    )
    return LoginRefused(message)


def denied(what: str, reason: str, remark: str = "") -> Refused:
    """:func:`login_refused` if AWS's words say that, else :func:`refused`."""
    return login_refused(what, reason, remark) if is_login(reason) else refused(what, reason)


def login_refused(what: str, reason: str, remark: str = "") -> LoginRefused:
    """The error for a login or a certificate that the catalog refuses, and for one that cannot be used;
    ``reason``: its words; ``remark``: what this process knows of it, with the fix."""
    said = f"{what}: the catalog refuses the login: {_line(reason, _MAX_REFUSAL)}"
    if remark:
        return LoginRefused(f"{said}; {remark}")
    return LoginRefused(
        f"{said}. Fix: correct the login, or the certificate, in [lake.catalog] of the role's platform file"
    )


def refused(what: str, reason: str) -> Refused:
    """The error for a right that the catalog refuses; ``reason``: its words."""
    message = (
        f"{what}: the catalog refuses this role: {_line(reason, _MAX_REFUSAL)}. Fix: correct the login in "
        "[lake.catalog] of the role's platform file, or give it this right"
    )
    return Refused(message, ErrorCode.CATALOG_PERMISSION)


def unreachable(what: str, reason: str) -> Unreachable:
    """The error for a catalog that answers so, and may answer otherwise later."""
    return Unreachable(f"{what}: the catalog: {_line(reason)}", ErrorCode.CATALOG_UNREACHABLE)


def _request_refused(what: str, reason: str) -> Refused:
    # Not one that ends a process for good: a proxy may answer so for a while.
    message = (
        f"{what}: the catalog refuses the request: {_line(reason, _MAX_REFUSAL)}. Fix: correct uri, "
        "warehouse or prefix in [lake.catalog] of the role's platform file"
    )
    return Refused(message, ErrorCode.CATALOG_PERMISSION)
