"""The commands that need a set-up environment: `python -m local.cli <command>`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from local import checks
from local.base import UsageError, exit_code, printable_log
from local.commands import COMMANDS, usage
from local.containers import stack as containers
from local.services import airflow
from local.stack.stack import Stack
from local.stack.systems import Systems
from local.status import show as status
from sluice.config import stream as streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import overrides

TRACES = ("batches", "trace")
# Commands with options of their own.
WITH_OPTIONS = ("airflow", *TRACES)
# Commands that need nothing but the systems, wherever they run.
IN_CONTAINERS = ("airflow", *TRACES, "put", "sql")


def main(arguments: list[str]) -> int:
    try:
        return _main(arguments)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="local", usage=f"make <command>\n\n{usage()}")
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("--free-ports", action="store_true", help="up: take free ports, not the default ones")
    parser.add_argument("--query", default=os.environ.get("Q", ""), help="sql: the query")
    options, rest = parser.parse_known_args(arguments)
    if containers.PROFILES_VARIABLE in os.environ:
        return _in_container(options, rest)
    if options.command == "python":
        return checks.python(rest)
    if options.command == "bench":
        return checks.bench(rest)
    if options.command == "drill":
        checks.drill(rest)
    if options.command == "k8s-render":
        from local.kubernetes import command as kubernetes

        return kubernetes.main([*checks.arguments_given(), *rest])
    if options.command in checks.COMMANDS:
        return checks.main(options.command, rest)
    if rest and options.command not in WITH_OPTIONS:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    stack = Stack(free_ports=options.free_ports)
    # A stream's health is assessed with the values that the stack's own processes have.
    if stack.overrides:
        os.environ[overrides.VARIABLE] = stack.overrides
    if stack.streams:
        os.environ[streams.VARIABLE] = stack.streams
    if options.command == "up":
        stack.up()
        return status.main(stack, services_only=True)
    if options.command == "down":
        stack.down()
        return 0
    if options.command == "status":
        return status.main(stack)
    if options.command == "logs":
        return _logs(stack, os.environ.get("SERVICE", ""))
    if options.command == "destroy":
        return _destroy(stack)
    if options.command == "demo":
        from local.demo import run

        demo = run.chosen(os.environ.get("STREAM", ""))
        return run.main(Stack(free_ports=options.free_ports, feed=demo.feed), demo)
    return _on_running(stack, options, rest)


def _in_container(options: argparse.Namespace, rest: list[str]) -> int:
    """`docker compose run --rm tools <command>`."""
    stack = containers.ContainerStack()
    if options.command in IN_CONTAINERS:
        return _on_running(stack, options, rest)
    if options.command == "demo":
        from local.demo import run

        demo = run.chosen(os.environ.get("STREAM", ""))
        if demo.feed is not None:
            raise UsageError(f"the demo of {demo.spec.name} replays a feed. Fix: make demo, without Docker")
        return run.main(stack, demo)
    if options.command == "python":
        stack.up()
        return checks.python(rest)
    if options.command == "help":
        print(f"docker compose run --rm tools COMMAND: {', '.join((*IN_CONTAINERS, 'demo', 'python'))}")
        return 0
    raise UsageError(
        f"{options.command} is not for containers. "
        f"Fix: use docker compose itself; here there are {', '.join(IN_CONTAINERS)}, demo and python"
    )


def _on_running(stack: Systems, options: argparse.Namespace, rest: list[str]) -> int:
    if options.command == "airflow":
        return run_airflow(stack, [*checks.arguments_given(), *rest])
    if options.command in TRACES:
        from local import trace

        return trace.main(stack, options.command, [*checks.arguments_given(), *rest])
    if options.command == "put":
        from local import put

        return put.main(stack, os.environ.get("FILE", ""), os.environ.get("KEY", ""))
    from local import sql

    return sql.main(stack, options.query)


def run_airflow(stack: Systems, arguments: list[str]) -> int:
    """Airflow's own command, with the environment of the stack's Airflow: it uses its database directly."""
    if not stack.is_running():
        raise UsageError("the stack does not run. Fix: make up")
    command = stack.context.python_env / "bin" / "airflow"
    return subprocess.run(
        [command, *arguments], env={**os.environ, **airflow.environment(stack.context)}
    ).returncode


def _logs(stack: Stack, service: str) -> int:
    logs = sorted(stack.home.logs.glob("*.log"))
    names = [log.stem for log in logs]
    if service:
        logs = [log for log in logs if log.stem == service]
        if not logs:
            raise UsageError(
                f"no log of SERVICE={service}. Fix: give one of {', '.join(names) or '(none yet)'}"
            )
    if not logs:
        raise UsageError(f"no logs in {stack.home.logs}: make up")
    command = ["tail", "-n", "50", "-F", *map(str, logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as tail:
        # Its end is that of the loop; an interrupt ends both.
        for line in tail.stdout or ():
            print(printable_log(line.rstrip("\n")), flush=True)
    return tail.returncode


def _destroy(stack: Stack) -> int:
    if os.environ.get("YES") != "1":
        if not sys.stdin.isatty():
            raise UsageError(
                "destroy removes all data of the stack. Fix: confirm with YES=1 or on a terminal"
            )
        answer = input(f"Remove the stack in {stack.home.root} with all its data? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    stack.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
