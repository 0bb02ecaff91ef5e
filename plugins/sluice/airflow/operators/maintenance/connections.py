"""Look at each end of the platform files, at the databases of results, and at mail servers."""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Variable
from airflow.sdk.exceptions import AirflowException

from sluice.airflow import callbacks, connections
from sluice.airflow.failures import failed_over, final_failures
from sluice.airflow.hook import PlatformHook
from sluice.config import notifications, streams
from sluice.config.connection import Database
from sluice.config.notifications import CLASSES, INSTALLATION, SMTP
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.messages import counted, quoted
from sluice.maintenance.airflow_cleaning import RECORD, STARTED, Cleaning

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.connection_check.rows import Row
    from sluice.connection_check.run import End

# The role of Airflow's tasks.
OWN_ROLE = "airflow"


class CheckConnectionsOperator(BaseOperator):
    """Look at every end that the platform files of this machine name, and at Airflow's own connections."""

    does = (
        "asks each end of the platform files, each database of results and each mail server for its login, "
        "certificates, clock and rights, and whether Airflow's database is cleaned; the table is in the "
        "task's log"
    )
    fails_if = (
        "an end does not answer, refuses the login, lacks a right or has another clock, or a certificate or "
        "token has ended or is about to, or the cleaning of Airflow's database keeps failing, or does not "
        "begin"
    )

    # For the callbacks: what concerns all streams.
    stream = INSTALLATION

    def execute(self, context: Context) -> dict[str, int]:
        with final_failures():
            return self._check(context)

    def _check(self, context: Context) -> dict[str, int]:
        # What each DAG file would import else, at each parsing.
        from sluice.connection_check.check import check, elsewhere, roles_here
        from sluice.connection_check.needs import needs
        from sluice.connection_check.probing.ends import database_ends
        from sluice.connection_check.rows import failures, not_looked_at, outcome, remarks, table

        declared = streams.load_valid()
        needed, roles = needs(declared.specs), roles_here()
        # Here, and not in the threads that ask: a task has one channel to Airflow.
        databases = {name: _read(name) for name in needed.tables or {}}
        further = database_ends(needed.tables or {}, lambda name: databases[name]())
        further += mail_ends(list(streams.names()))
        rows = check(
            roles,
            PlatformHook().load,
            needed,
            further,
            lambda text: self.log.info("%s", text),
            own=(OWN_ROLE,),
        )
        rows += [*elsewhere(roles), cleaning_row()]
        self.log.info("%s", f"\n{table(rows, time.time())}")
        told = remarks(rows) + [f"stream not looked at: {reason}" for reason in declared.reasons]
        for line in told:
            self.log.info("remark: %s", line)
        missed = not_looked_at(rows)
        for line in missed:
            self.log.warning("%s", line)
        callbacks.not_looked_at(context, missed)
        problems = failures(rows)
        for line in problems:
            self.log.error("%s", line)
        if problems:
            head = f"{outcome(rows)}, {counted(len(problems), 'finding')}"
            raise failed_over(ErrorCode.CONNECTION_FINDING, head, problems)
        return {"ends": len(rows) - len(missed), "remarks": len(told), "not_looked_at": len(missed)}


def cleaning_row() -> Row:
    """What became of the cleanings of Airflow's database, which no task may reach."""
    from sluice.connection_check.rows import Row

    row = Row(OWN_ROLE, "database", "Airflow's own")
    try:
        _look_at_cleaning(row)
    except ConfigError as error:
        row.problems.append(str(error))
    except Exception as error:
        # Airflow's failures, and what a text of a person's may do: the other ends are shown all the same.
        row.problems.append(f"not looked at: {type(error).__name__}: {quoted(str(error), 300)}")
    return row


def _look_at_cleaning(row: Row) -> None:
    # Airflow's `get` takes an Airflow that does not answer for one without the Variable; `keys` raises.
    names = set(Variable.keys(prefix="sluice_airflow_"))
    found = Cleaning()
    if RECORD in names:
        found = Cleaning.read(Variable.get(RECORD))
    started = Variable.get(STARTED) if STARTED in names else None
    if problem := found.problem(datetime.now(UTC), started):
        row.problems.append(problem)
    elif not found.succeeded:
        row.remarks.append("no cleaning of it has succeeded yet (docs/operating.md, Airflow's database)")


def _read(name: str) -> Callable[[], Database]:
    """The database of a connection, or what it raises: that end's problem alone."""
    try:
        found = connections.database(name)
    except Exception as error:
        # Airflow's failure of a connection that is missing, and ConfigError; the text has its own code.
        return partial(_refuse, str(error))
    return lambda: found


def _refuse(text: str) -> Database:
    raise ConfigError(text)


def mail_ends(names: list[str]) -> list[End]:
    """The mail servers of ``notifications.toml``; of a file that is invalid a row that says so."""
    from sluice.connection_check.rows import Row
    from sluice.connection_check.run import End

    try:
        declared = notifications.load(names, is_strict=False).notify
    except ConfigError as error:
        # No one is told by mail of this one: the table, the task and its log have it.
        return [End(Row(OWN_ROLE, "notifications", notifications.FILE, problems=[str(error)]), _nothing)]
    rules = [rule for rule in declared if rule.class_path == CLASSES[SMTP]]
    # Two rules may log in to one server in two ways.
    ids = [
        (str(rule.values.get("smtp_conn_id", "smtp_default")), str(rule.values.get("auth_type", "basic")))
        for rule in rules
    ]
    found = []
    for name, kind in dict.fromkeys(ids):
        row = Row(OWN_ROLE, "smtp", name)
        connection = _mail_connection(row)
        ask = partial(_ask_mail, connection, kind) if connection else _nothing
        found.append(End(row, ask, [connection.password or ""] if connection else []))
    return found


def _nothing(rows: list[Row]) -> None:
    """Its row says already what is wrong."""


def _mail_connection(row: Row) -> Any:
    """The connection that the row names; None if it cannot be read, which is then its problem."""
    try:
        connection = connections.get(row.address)
        notifications.check_mail_server(row.address, connection.host or "", connection.extra_dejson)
    except Exception as error:
        row.problems.append(str(error))
        return None
    row.address = f"{connection.host}:{connection.port or ''}".rstrip(":")
    row.login = f"user {connection.login}" if connection.login else "none"
    return connection


def _ask_mail(connection: Any, kind: str, rows: list[Row]) -> None:
    """TLS and login, as the notifier's; nothing is sent. Raises ClientError."""
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    from sluice.connection_check.probing.certificates import note

    class Hook(SmtpHook):
        # No question to Airflow from this thread.
        def get_connection(self, conn_id: str) -> Any:  # type: ignore[override]
            return connection

        # The check is repeated by itself, and waits once for a server that does not answer.
        smtp_retry_limit = 0

    hook = Hook(connection.conn_id, auth_type=kind)
    where = f"mail server {connection.host}"
    try:
        with hook.get_conn():
            client: Any = hook._smtp_client
            note(rows[0], client.sock)
            client.noop()
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{where}: its certificate is not trusted: {error.verify_message}. Fix: correct the connection's "
            "host, or let this machine trust its CA"
        ) from error
    except smtplib.SMTPAuthenticationError as error:
        said = error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else ""
        raise Refused(f"{where} refuses the login: {said}. Fix: correct the connection's login") from error
    except (OSError, smtplib.SMTPException) as error:
        raise Unreachable(f"{where} does not answer: {error}. Fix: start it, or correct its host") from error
    except AirflowException as error:
        # The hook's word for a server that ends the connection, and for a login that is not complete.
        raise Unreachable(
            f"{where} does not take the login: {error}. Fix: see the server's log, or correct the connection"
        ) from error
