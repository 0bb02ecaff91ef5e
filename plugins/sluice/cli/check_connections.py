"""`sluice check-connections`: each end of the platform files, with its login, certificates and rights."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sluice.cli.base import UsageError, printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import new_console, print_json, print_line
from sluice.config import connection as databases
from sluice.config import streams
from sluice.config.platform import ROLES
from sluice.connection_check.check import check, elsewhere, roles_here
from sluice.connection_check.needs import needs
from sluice.connection_check.probing.ends import database_ends
from sluice.connection_check.rows import documents, failures, not_looked_at, remarks, summary, table

# Its task reads Airflow's connections.
DAG = "sluice_connections"


def check_connections(installation: Installation, roles: Sequence[str], as_json: bool = False) -> int:
    """Print a row for each end, and a line for each problem and remark: 1 if there is a problem, or if the
    files of a role whose platform file is here are not for this process; else 0.

    ``roles``: which this process is, whose platform files are read; none: of all roles whose files are here,
    and a row for each other one. Raises UsageError if
    the stack is down, or for another role; ConfigError without any file.
    """
    check_running(installation)
    for role in roles:
        if role not in ROLES:
            raise UsageError(f"role {role!r} is unknown. Fix: use one of {', '.join(ROLES)}")
    environ = installation.systems(ROLES[0]).environ
    chosen = list(dict.fromkeys(roles)) or roles_here(environ)
    declared = streams.load_valid()
    needed = needs(declared.specs)
    folder = (os.environ if environ is None else environ).get(databases.DIRECTORY_VARIABLE, "")
    tables = needed.tables or {}
    exported = {name: found for name, found in tables.items() if Path(folder, f"{name}.toml").exists()}
    console = new_console(stderr=True)
    rows = check(
        chosen,
        lambda role: installation.systems(role).platform,
        needed,
        database_ends(exported if folder else {}, lambda name: databases.load(name, environ)),
        # A file, or a program, is told the result alone.
        (lambda text: print_line(console, text)) if sys.stderr.isatty() else lambda _: None,
        own=roles,
    )
    problems, told = failures(rows), remarks(rows)
    code = 1 if problems or not_looked_at(rows) else 0
    rows += [] if roles else elsewhere(chosen)
    told += [f"stream not looked at: {reason}" for reason in declared.reasons]
    if left := sorted(set(tables) - set(exported if folder else {})):
        told.append(
            f"connection {', '.join(left)}: not exported to this machine yet; DAG {DAG} asks what Airflow has"
        )
    if as_json:
        print_json({"is_ok": code == 0, "ends": documents(rows), "remarks": told})
        return code
    print(printable_lines(table(rows, time.time())))
    for line in told:
        print(printable(f"remark: {line}"))
    for line in [*not_looked_at(rows), *(f"FAILED: {problem}" for problem in problems)]:
        print(printable(line))
    print(summary(rows))
    return code


def printable_lines(text: str) -> str:
    """A table, whose cells may be others' texts."""
    return "\n".join(map(printable, text.splitlines()))
