"""Errors of a database driver by class, transient or not."""

from __future__ import annotations

from enum import StrEnum

from sluice.clients.tls.certificates import CertificateUnusable
from sluice.clients.tls.words import is_certificate_refused, is_unverified
from sluice.config.connection import POSTGRESQL


class DatabaseError(StrEnum):
    """The value completes a sentence that begins with the database."""

    UNREACHABLE = "does not answer"
    TOO_MANY_CONNECTIONS = "has no connection free"
    LOCK_TIMEOUT = "waits for a lock that another session holds"
    STATEMENT_TIMEOUT = "took too long for a statement"
    DISK_FULL = "has no room left"
    READ_ONLY = "takes no writes now"
    LOGIN = "refuses the login"
    UNVERIFIED = "is not verified, and got no login"
    DENIED = "denies a right"
    NO_DATABASE = "does not exist"
    NO_TABLE = "has no such table"
    NO_COLUMN = "has no such column"
    DIFFERENT = "has a table that differs from what is declared"
    VALUE = "refuses a value"
    OTHER = "failed"


# May be over at the next attempt.
TRANSIENT = frozenset(
    {
        DatabaseError.UNREACHABLE,
        DatabaseError.TOO_MANY_CONNECTIONS,
        DatabaseError.LOCK_TIMEOUT,
        DatabaseError.STATEMENT_TIMEOUT,
        DatabaseError.DISK_FULL,
        DatabaseError.READ_ONLY,
    }
)

# What a person does, of a sink's database.
LOGIN_FIXES = {
    DatabaseError.LOGIN: "correct login, password or the certificate's files in the Airflow connection",
    DatabaseError.UNVERIFIED: "let the server encrypt, or correct the CA's file (sslrootcert, ssl_ca) or the "
    "host in the Airflow connection",
}
# SQLSTATE, or the class of it: its first two characters.
_POSTGRESQL = {
    "08": DatabaseError.UNREACHABLE,
    "57P": DatabaseError.UNREACHABLE,  # being shut down, starting up, ended by an administrator
    "25P03": DatabaseError.UNREACHABLE,  # a transaction stood still for too long
    "53": DatabaseError.TOO_MANY_CONNECTIONS,
    "53300": DatabaseError.TOO_MANY_CONNECTIONS,
    "53100": DatabaseError.DISK_FULL,
    "58": DatabaseError.UNREACHABLE,  # its disk, not ours to tell
    "55P03": DatabaseError.LOCK_TIMEOUT,
    "40": DatabaseError.LOCK_TIMEOUT,  # a deadlock, or a conflict that a repetition solves
    "57014": DatabaseError.STATEMENT_TIMEOUT,
    "25006": DatabaseError.READ_ONLY,
    "28": DatabaseError.LOGIN,
    "42501": DatabaseError.DENIED,
    "3D000": DatabaseError.NO_DATABASE,
    "42P01": DatabaseError.NO_TABLE,
    "3F000": DatabaseError.NO_TABLE,
    "42703": DatabaseError.NO_COLUMN,
    "42P10": DatabaseError.DIFFERENT,  # no key that an upsert could go by
    "42804": DatabaseError.DIFFERENT,
    "22": DatabaseError.VALUE,
    "23": DatabaseError.VALUE,
}
# Before a session starts libpq gives no SQLSTATE, only text; text in another language counts as transient.
_POSTGRESQL_WORDS = (
    ("root certificate file", DatabaseError.UNVERIFIED),
    ("certificate verify failed", DatabaseError.UNVERIFIED),
    ("does not match host name", DatabaseError.UNVERIFIED),
    ("server does not support SSL", DatabaseError.UNVERIFIED),
    ("private key file", DatabaseError.LOGIN),
    ("certificate file", DatabaseError.LOGIN),
    ("requires a valid client certificate", DatabaseError.LOGIN),
    ("password authentication failed", DatabaseError.LOGIN),
    ("no password supplied", DatabaseError.LOGIN),
    ("no pg_hba.conf entry", DatabaseError.LOGIN),
    ("authentication failed", DatabaseError.LOGIN),
    ("is not permitted to log in", DatabaseError.LOGIN),
    ("permission denied for database", DatabaseError.DENIED),
    ("too many connections", DatabaseError.TOO_MANY_CONNECTIONS),
    ("too many clients", DatabaseError.TOO_MANY_CONNECTIONS),
    ("remaining connection slots", DatabaseError.TOO_MANY_CONNECTIONS),
)
_MYSQL = {
    DatabaseError.UNREACHABLE: (
        *(0, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1317, 1927, 2000, 2002, 2003),
        *(2005, 2006, 2012, 2013, 2014, 2027, 2055, 3169, 4031),
    ),
    DatabaseError.TOO_MANY_CONNECTIONS: (1040, 1041, 1203, 1226, 1135),
    DatabaseError.LOCK_TIMEOUT: (1020, 1205, 1206, 1213, 1614),
    DatabaseError.STATEMENT_TIMEOUT: (1969, 3024),
    DatabaseError.DISK_FULL: (1021, 1114, 3, 1026, 1030),
    DatabaseError.READ_ONLY: (1290, 1792, 1836, 3100),
    DatabaseError.LOGIN: (1045, 1129, 1130, 1251, 1524, 1698, 1862, 2049, 2059, 2061, 3118, 3159),
    DatabaseError.DENIED: (1044, 1142, 1143, 1227, 1370),
    DatabaseError.NO_DATABASE: (1049,),
    DatabaseError.NO_TABLE: (1146, 1051, 1932),
    DatabaseError.NO_COLUMN: (1054,),
    DatabaseError.VALUE: (1048, 1062, 1264, 1265, 1292, 1366, 1364, 1406, 1690, 3140, 3819, 4025),
}
# PyMySQL's codes for an encrypted connection that cannot be, and for one that ends while it begins.
_SSL_ERROR, _CONNECTING = 2026, frozenset({2003, 2013})
_MYSQL_CODES = {code: error_class for error_class, codes in _MYSQL.items() for code in codes}


def diagnose(kind: str, error: BaseException) -> DatabaseError:
    """The class of an error of psycopg2 or PyMySQL; OTHER, not transient, if it is unknown."""
    if isinstance(error.__cause__, CertificateUnusable):
        return DatabaseError.LOGIN
    return _postgresql(error) if kind == POSTGRESQL else _mysql(error)


def server_message(error: BaseException) -> str:
    """The first line of the driver's message; later ones may contain a row."""
    text = str(error.args[-1] if error.args else error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _postgresql(error: BaseException) -> DatabaseError:
    state = getattr(error, "pgcode", None)
    if state:
        for length in (5, 3, 2):
            if state[:length] in _POSTGRESQL:
                return _POSTGRESQL[state[:length]]
        return DatabaseError.OTHER
    text = str(error)
    for words, error_class in _POSTGRESQL_WORDS:
        if words in text:
            return error_class
    if is_certificate_refused(text):
        return DatabaseError.LOGIN
    if "FATAL" in text and 'database "' in text and "does not exist" in text:
        return DatabaseError.NO_DATABASE
    # These say that the connection is lost. Others without a state are the driver's own, about our values.
    lost = ("OperationalError", "InterfaceError", "DatabaseError")
    return DatabaseError.UNREACHABLE if type(error).__name__ in lost else DatabaseError.VALUE


def _mysql(error: BaseException) -> DatabaseError:
    code = error.args[0] if error.args else None
    if not isinstance(code, int):
        return DatabaseError.UNREACHABLE if type(error).__name__ == "InterfaceError" else DatabaseError.VALUE
    text = str(error.args[-1])
    if code in _CONNECTING and is_certificate_refused(text):
        return DatabaseError.LOGIN
    if code == _SSL_ERROR or (code in _CONNECTING and is_unverified(text)):
        return DatabaseError.UNVERIFIED
    return _MYSQL_CODES.get(code, DatabaseError.OTHER)
