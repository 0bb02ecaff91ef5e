"""The verbs that need a set-up environment: `python -m local.cli <verb>`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from rich.table import Table

from local.errors import Problem
from local.screen import screen
from local.stack import Stack
from local.verbs import VERBS, usage


def main(arguments: list[str]) -> int:
    """Runs a verb; gives the exit code."""
    parser = argparse.ArgumentParser(prog="local", usage=f"make <verb>\n\n{usage()}")
    parser.add_argument("verb", choices=list(VERBS))
    parser.add_argument("--free-ports", action="store_true", help="up: take free ports, not the default ones")
    parser.add_argument("--query", default=os.environ.get("Q", ""), help="sql: the query")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.verb not in ("test", "lint"):
        parser.error(f"unknown arguments: {' '.join(rest)}")
    stack = Stack(free_ports=options.free_ports)
    if options.verb == "up":
        stack.up()
        return _status(stack)
    if options.verb == "down":
        stack.down()
        return 0
    if options.verb == "status":
        return _status(stack)
    if options.verb == "logs":
        return _logs(stack, os.environ.get("SERVICE", ""))
    if options.verb == "wipe":
        return _wipe(stack)
    if options.verb == "demo":
        from local.demo import run as demo

        return demo.main(stack)
    if options.verb == "sql":
        from local import sql

        return sql.main(stack, options.query)
    from local import checks

    return checks.main(tests=options.verb == "test", pytest_arguments=rest)


def _status(stack: Stack) -> int:
    console = screen()
    rows = stack.status()
    if not rows:
        console.print(
            f"The stack in {stack.home.root} does not run: make up", soft_wrap=True, highlight=False
        )
        return 1
    table = Table("service", "state", "address", "health")
    colours = {True: "green", False: "red", None: "dim"}
    for row in rows:
        table.add_row(row.name, row.state, row.address, row.health, style=colours[row.fine])
    console.print(table)
    password = stack.home.secrets_file
    console.print(
        f"Airflow: http://127.0.0.1:{stack.ports['airflow']}  user: operator  "
        f"password: airflow_operator in {password}",
        soft_wrap=True,
        highlight=False,
    )
    return 1 if any(row.fine is False for row in rows) else 0


def _logs(stack: Stack, service: str) -> int:
    logs = sorted(stack.home.logs.glob("*.log"))
    names = [log.stem for log in logs]
    if service:
        logs = [log for log in logs if log.stem == service]
        if not logs:
            raise Problem(f"SERVICE={service}: no such log; there are {', '.join(names) or '(none yet)'}")
    if not logs:
        raise Problem(f"no logs in {stack.home.logs}: make up")
    return subprocess.run(["tail", "-n", "50", "-F", *logs]).returncode


def _wipe(stack: Stack) -> int:
    if os.environ.get("YES") != "1":
        if not sys.stdin.isatty():
            raise Problem("wipe removes all data of the stack; without a terminal say so with YES=1")
        answer = input(f"Remove the stack in {stack.home.root} with all its data? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    stack.wipe()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        sys.exit(f"sluice: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
