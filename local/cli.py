"""The verbs that need a set-up environment: `python -m local.cli <verb>`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from local import checks
from local.base import VERBS, UsageError, end_with, usage
from local.stack.stack import Stack
from local.status import show as status
from sluice.model.spec import overrides
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError


def main(arguments: list[str]) -> int:
    """Runs a verb; gives the exit code."""
    try:
        return _main(arguments)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="local", usage=f"make <verb>\n\n{usage()}")
    parser.add_argument("verb", choices=list(VERBS))
    parser.add_argument("--free-ports", action="store_true", help="up: take free ports, not the default ones")
    parser.add_argument("--query", default=os.environ.get("Q", ""), help="sql: the query")
    parser.add_argument("--in-place", metavar="DRILLS", help="drill: these, on the stack that runs")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.verb not in checks.VERBS:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    stack = Stack(free_ports=options.free_ports)
    if stack.overrides and options.verb not in checks.VERBS:
        # What judges a stream here must judge by the values that the stack's own processes have.
        os.environ[overrides.VARIABLE] = stack.overrides
    if stack.streams and options.verb not in checks.VERBS:
        os.environ[streams.VARIABLE] = stack.streams
    if options.verb == "up":
        stack.up()
        return status.main(stack, services_only=True)
    if options.verb == "down":
        stack.down()
        return 0
    if options.verb == "status":
        return status.main(stack)
    if options.verb == "logs":
        return _logs(stack, os.environ.get("SERVICE", ""))
    if options.verb == "destroy":
        return _destroy(stack)
    if options.verb == "demo":
        from local.demo import run

        demo = run.chosen(os.environ.get("STREAM", ""))
        return run.main(Stack(free_ports=options.free_ports, feed=demo.feed), demo)
    if options.verb == "drill":
        from local.drills import command

        trigger_immediately = os.environ.get("AT_ONCE") == "1"
        if options.in_place is not None:
            return command.main(options.in_place, trigger_immediately, stack)
        return command.main(os.environ.get("DRILL", ""), trigger_immediately)
    if options.verb == "sql":
        from local import sql

        return sql.main(stack, options.query)
    return checks.main(options.verb, rest)


def _logs(stack: Stack, service: str) -> int:
    logs = sorted(stack.home.logs.glob("*.log"))
    names = [log.stem for log in logs]
    if service:
        logs = [log for log in logs if log.stem == service]
        if not logs:
            raise UsageError(f"SERVICE={service}: no such log; there are {', '.join(names) or '(none yet)'}")
    if not logs:
        raise UsageError(f"no logs in {stack.home.logs}: make up")
    return subprocess.run(["tail", "-n", "50", "-F", *logs]).returncode


def _destroy(stack: Stack) -> int:
    if os.environ.get("YES") != "1":
        if not sys.stdin.isatty():
            raise UsageError("destroy removes all data of the stack; without a terminal say so with YES=1")
        answer = input(f"Remove the stack in {stack.home.root} with all its data? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    stack.destroy()
    return 0


if __name__ == "__main__":
    end_with(main)
