"""Errors that end a process for good, and the one line that says why a process failed."""

from __future__ import annotations

import importlib
import re

from sluice.core.error_codes import LOGINS, PERMANENT, ErrorCode, code_in, code_of
from sluice.core.tables.file_removal import missing_message

# The last line of a worker's traceback: module, class and text of one of our exceptions.
_IN_WORKER = re.compile(r"((?:spark_jobs|sluice)\.[\w.]+)\.(\w+): (.+)")
# Text of Iceberg's S3InputStream. Other files, such as a checkpoint's, are not in these folders.
_MISSING_FILE = re.compile(r"Location does not exist: (s3[an]?://\S+/(?:metadata|data)/\S+)")
# Errors of a catalog's database, by the drivers of MariaDB and PostgreSQL; sinks have no other in Java.
_SQL_ERROR = r"(?:java\.sql\.SQL\w*Exception|org\.postgresql\.util\.PSQLException): (?:\(conn=\d+\) )?"
_MYSQL_DENIED = r"Access denied for user '[^']*'@'[^']*'"
_SQL_REFUSED = re.compile(
    rf"{_SQL_ERROR}((?:FATAL: |ERROR: )?(?:{_MYSQL_DENIED} to database|\w+ command denied|"
    r"Unknown database|permission denied).*)"
)
_SQL_LOGIN = re.compile(
    rf"{_SQL_ERROR}((?:FATAL: )?(?:{_MYSQL_DENIED}(?! to database)|\w+ authentication failed|"
    r"no pg_hba\.conf entry|connection requires a valid client certificate).*)"
)
# Java's words for a server's answer to a client's certificate; and whose clients had it, by the stack.
_ALERT = re.compile(r"(Received fatal alert: (?:unknown_ca|\w*certificate\w*).*)")
_NOT_TRUSTED = re.compile(
    r"((?:PKIX path building failed|unable to find valid certification path|Certificate for <|"
    r"No subject alternative|Unsupported or unrecognized SSL message).*)"
)
CATALOG_CLIENT = re.compile(r"org\.postgresql\.|org\.mariadb\.|org\.apache\.iceberg\.(?:rest|jdbc)\.")
_SQL_NOT_VERIFIED = re.compile(
    rf"{_SQL_ERROR}(.*(?:certification path|hostname verification failed|could not be verified by|"
    r"ssl not enabled|does not support SSL).*)"
)
# Texts of the AWS SDK's exceptions; keys with a session token end with status 400.
_DENIED = re.compile(
    r"S3Exception: ((?:[^\n(]*\(Service: S3, Status Code: 403|"
    r"[^\n(]*\b[Tt]oken\b[^\n(]*\(Service: S3, Status Code: 400)[^)\n]*\))"
)
_GLUE = re.compile(r"services\.glue\.model\.(\w+): (.*?\(Service: Glue, Status Code: (\d+)[^)\n]*\))")
# Most of Glue's own codes are not in a text: what AWS says in their place.
_GLUE_DENIED = re.compile(r"not authorized|security token|signature|access key", re.IGNORECASE)
_GLUE_BUSY = re.compile(r"Rate exceeded|Throttling|InternalService|OperationTimeout")
DENIED_FIX = (
    "Fix: check [s3] in the role's platform file and the user's policy; with access_delegation, the role's "
    "right to the table's files in the catalog (docs/catalogs.md, Vended credentials)"
)
# What the endpoint of this process answered to the SDK, instead of credentials.
_NO_CREDENTIALS = re.compile(rf"SdkServiceException: {ErrorCode.S3_LOGIN} (.+)")
# A REST catalog's, by Iceberg's client.
_REFUSED = re.compile(r"org\.apache\.iceberg\.exceptions\.ForbiddenException: (.+)")
_LOGIN = re.compile(r"org\.apache\.iceberg\.exceptions\.NotAuthorizedException: (.+)")
# Texts of Py4J and of Java's stack traces, in which the last cause is the first error.
_FAILED_CALL, _CAUSE = "An error occurred while calling", "Caused by: "


class Fenced(RuntimeError):
    """A later writer, of ``epoch`` if that is known, has the lease; this process must end and not be
    restarted."""

    code = ErrorCode.FENCED

    def __init__(self, message: str, epoch: int = 0) -> None:
        super().__init__(message)
        self.epoch = epoch


def check_epoch(writer: str, epoch: int, newest: int | None, place: str, *, opening: bool = False) -> None:
    """Raise Fenced if ``newest``, the epoch in ``place`` (None: none there), is above the writer's.

    ``opening``: the writer has not put its epoch there yet, so the same one is another writer's: a catalog
    that was restored issues an epoch again. Or the writer's own, if the answer to that was lost.
    """
    if newest is None or newest < epoch:
        return
    if newest > epoch:
        raise Fenced(f"{writer}: fenced: writer epoch {epoch}, newer epoch {newest} ({place})", newest)
    if opening:
        raise Fenced(f"{writer}: fenced: writer epoch {epoch} is another writer's ({place})", newest)


class Unrecoverable(RuntimeError):
    """Table and topic no longer match: a restart finds the same, a user must decide."""

    code = ErrorCode.UNRECOVERABLE


class LakeFileMissing(Unrecoverable):
    """The catalog names a file that is gone: it was restored to a state older than the horizon."""

    code = ErrorCode.LAKE_FILE_MISSING


class S3Denied(RuntimeError):
    """S3 refuses what Spark or Iceberg asks for."""

    code = ErrorCode.S3_PERMISSION


def known(error: Exception) -> Exception:
    """LakeFileMissing if a file of a table is gone, by the error's code, or if Iceberg did not find one, by
    its text; S3Denied if S3 refuses it, by its text; S3LoginRefused if there are no credentials for it;
    Refused or Unreachable if the catalog refuses the login, is not verified, or limits requests, by their
    texts; else the error itself."""
    if code_of(error) is ErrorCode.LAKE_FILE_MISSING:
        return LakeFileMissing(str(error))
    if found := _MISSING_FILE.search(str(error)):
        return LakeFileMissing(missing_message(found[1]))
    if refused := _NO_CREDENTIALS.search(str(error)):
        # Imports botocore, which not every process has.
        from sluice.clients.s3.errors import S3LoginRefused

        return S3LoginRefused(refused[1])
    if refused := _DENIED.search(str(error)):
        return S3Denied(f"S3 denies access: {refused[1]}. {DENIED_FIX}")
    return _of_catalog(str(error)) or error


def _of_catalog(text: str) -> Exception | None:
    refusal, unverified = _REFUSED.search(text) or _SQL_REFUSED.search(text), _SQL_NOT_VERIFIED.search(text)
    login, glue = _LOGIN.search(text) or _SQL_LOGIN.search(text), _GLUE.search(text)
    if CATALOG_CLIENT.search(text):
        login, unverified = login or _ALERT.search(text), unverified or _NOT_TRUSTED.search(text)
    if refusal is login is unverified is glue is None:
        return None
    # Imports the clients of catalogs, which not every process has.
    from sluice.clients.catalogs import errors

    what = "the lake's catalog"
    if refusal is not None:
        return errors.denied(what, refusal[1])
    if login is not None:
        return errors.login_refused(what, login[1])
    if unverified is not None:
        return errors.not_verified(what, unverified[1])
    return _of_glue(what, *glue.groups()) if glue else None


def _of_glue(what: str, name: str, said: str, status: str) -> Exception | None:
    """None for what concerns one request alone, as a commit that came second."""
    from sluice.clients.catalogs import errors

    if name in errors.DENIED_BY_AWS or _GLUE_DENIED.search(said):
        return errors.denied(what, f"{name}: {said}")
    if _GLUE_BUSY.search(f"{name}: {said}") or status.startswith("5"):
        return errors.unreachable(what, f"{name}: {said}")
    return None


def failure_line(error: Exception) -> str:
    """``<code> <class>: <first line>``; of an error in a Python worker, known by its traceback, its own."""
    error = known(error)
    for line in reversed(str(error).splitlines()):
        if match := _IN_WORKER.match(line):
            code = getattr(getattr(importlib.import_module(match[1]), match[2], None), "code", None)
            if isinstance(code, ErrorCode):
                return f"{code} {match[2]}: {match[3]}"
    if text := java_cause(error):
        # The class of that is Py4J's.
        return f"{code_of(error)} {text}"
    return f"{code_of(error)} {type(error).__name__}: {first_line(error)}"


def needs_traceback(line: str) -> bool:
    """Whether a :func:`failure_line` says less than the traceback: not if the cause is in data, a declaration
    or a login, which it names."""
    return code_in(line) not in PERMANENT | LOGINS


def first_line(error: Exception) -> str:
    """The message of a Spark or Java error without its stack."""
    # Asked like this, a producer without Spark need not import Spark's errors.
    condition = getattr(error, "getCondition", lambda: None)()
    message = str(error).strip().splitlines()
    return f"{condition or ''} {message[0] if message else ''}".strip()


def java_cause(error: Exception) -> str:
    """Class and message of the first Java error behind one of Py4J, whose own only says which call failed;
    empty for another error."""
    lines = str(error).strip().splitlines()
    if not lines or not lines[0].startswith(_FAILED_CALL):
        return ""
    named = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return (named or [line.lstrip(": ") for line in lines[1:2]] or [lines[0]])[-1]
