"""How every client connects to a catalog in MySQL or MariaDB: as to PostgreSQL, by the same declared values.

PyMySQL (PyIceberg, SQLAlchemy) and MariaDB's JDBC driver (Iceberg in Spark), which connects to MySQL as well.
MySQL's own wants the CA in a key store of Java's, and ends a session with SQL states that Iceberg does not
know, so that it would keep a connection that is gone.
"""

from __future__ import annotations

from sluice.config.postgresql import CONNECT_SECONDS, DISABLE, VERIFY_FULL, VERIFYING

PORT = 3306
_JDBC_MODES = {DISABLE: "disable", "require": "trust", "verify-ca": "verify-ca", VERIFY_FULL: "verify-full"}


def _first_statement(seconds: int) -> str:
    """What a session begins with. Without the strict mode a location that is too long is cut silently.

    MariaDB alone reads what is in /*M! */: MySQL has no deadline for statements that write. There a statement
    of one row can wait for a lock only, and the lock's deadlines hold.
    """
    return (
        f"set session sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = {seconds}, "
        f"innodb_lock_wait_timeout = {seconds} /*M!100100 , max_statement_time = {seconds} */"
    )


def pymysql(mode: str, ca: str, statement_seconds: int, answer_seconds: int) -> dict[str, str]:
    """Arguments of PyMySQL, as the query of an SQLAlchemy URL. ``mode``: of ``postgresql.SSL_MODES``."""
    if mode == DISABLE:
        ssl = {"ssl_disabled": "true"}
    elif mode in VERIFYING:
        ssl = {"ssl_ca": ca, "ssl_check_hostname": str(mode == VERIFY_FULL).lower()}
    else:
        # Any option makes it insist on encryption; without a CA it verifies nothing.
        ssl = {"ssl_check_hostname": "false"}
    return ssl | {
        "charset": "utf8mb4",
        "connect_timeout": str(CONNECT_SECONDS),
        "read_timeout": str(answer_seconds),
        "write_timeout": str(answer_seconds),
        "init_command": _first_statement(statement_seconds),
    }


def jdbc(mode: str, ca: str, statement_seconds: int, answer_seconds: int) -> dict[str, str]:
    """Properties of MariaDB's JDBC driver."""
    # Without TLS a password goes to MySQL 8 by the key that the server sends; PyMySQL asks for it likewise.
    plain = {"allowPublicKeyRetrieval": "true"} if mode == DISABLE else {}
    return {
        **plain,
        "sslMode": _JDBC_MODES[mode],
        **({"serverSslCert": ca} if mode in VERIFYING else {}),
        "connectTimeout": str(CONNECT_SECONDS * 1000),
        "socketTimeout": str(answer_seconds * 1000),
        "tcpKeepAlive": "true",
        "initSql": _first_statement(statement_seconds),
        # Iceberg counts on it, and a server may have another default.
        "autocommit": "true",
        # Iceberg asks whether its tables exist without naming a database: not those of another lake.
        "nullDatabaseMeansCurrent": "true",
    }
