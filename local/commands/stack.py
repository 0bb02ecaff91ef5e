"""Commands of the embedded stack: `up`, `down`, `status`, `logs`, `demo`, `drill`, `airflow`, `destroy`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from local.base import UsageError, printable_log
from local.containers import stack as containers
from local.stack.base import BaseStack
from local.stack.stack import Stack
from sluice.cli.app import PASSED_ON
from sluice.cli.installation import check_running
from sluice.config import folders, overrides

Catalog = Annotated[
    str, typer.Option(help="sql (PostgreSQL) or rest (Iceberg's REST server before it); default: as before")
]
FreePorts = Annotated[bool, typer.Option("--free-ports", help="Take free ports, not the default ones")]


def opened(**options: Any) -> Stack:
    """The stack of SLUICE_HOME; what is asked of its streams has the values of its own processes."""
    stack = Stack(**options)
    if stack.overrides:
        os.environ[overrides.VARIABLE] = stack.overrides
    if stack.streams:
        os.environ[folders.VARIABLE] = stack.streams
    return stack


def up(free_ports: FreePorts = False, catalog: Catalog = "") -> None:
    """Start PostgreSQL, Kafka, MinIO and Airflow, and wait until they are healthy."""
    from local.status import show

    stack = opened(free_ports=free_ports, catalog=catalog or None)
    stack.up()
    raise typer.Exit(show.main(stack, services_only=True))


def down() -> None:
    """Stop the stack; no process stays behind, the data stays."""
    opened().down()


def status(
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs")] = False,
) -> None:
    """Services and streams: state, health, lag, last event, supervision; exit code 1 if one is unhealthy."""
    from local.status import show

    raise typer.Exit(show.main(opened(), as_json=json))


def logs(
    service: Annotated[str, typer.Argument(help="One of them, as kafka or stream-nyc_taxi")] = "",
) -> None:
    """Follow the logs of all services, or of one."""
    raise typer.Exit(follow_logs(opened(), service))


def demo(
    stream: Annotated[str, typer.Argument(help="nyc_taxi, wiki_changes, isp_hits or orders")] = "nyc_taxi",
    free_ports: FreePorts = False,
) -> None:
    """Run a load end to end, with the proof."""
    from local.demo import run

    chosen = run.chosen(stream)
    if containers.PROFILES_VARIABLE not in os.environ:
        stack = opened(free_ports=free_ports, feed=chosen.feed, folder=chosen.folder)
        raise typer.Exit(run.main(stack, chosen))
    if chosen.folder is not None:
        raise UsageError(f"the demo of {stream} adds a stream. Fix: local/run demo {stream}, without Docker")
    if chosen.feed is not None:
        raise UsageError(f"the demo of {stream} replays a feed. Fix: local/run demo {stream}, without Docker")
    raise typer.Exit(run.main(containers.ContainerStack(), chosen))


def drill(context: typer.Context) -> None:
    """Inject faults and verify the data: build/drills.json; drill --help shows its options."""
    # Becomes the drills' command, which repairs at an interrupt what it broke.
    os.execv(sys.executable, [sys.executable, "-m", "tests.drills", *context.args])  # noqa: S606


def airflow(context: typer.Context) -> None:
    """Airflow's own command on the stack: airflow dags list."""
    stack = containers.ContainerStack() if containers.PROFILES_VARIABLE in os.environ else opened()
    raise typer.Exit(run_airflow(stack, context.args))


def destroy(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False) -> None:
    """Stop the stack and remove its data; asks first."""
    stack = opened()
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("destroy removes all data of the stack. Fix: give --yes, or use a terminal")
        answer = input(f"Remove the stack in {stack.home.root} with all its data? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise typer.Exit(1)
    stack.destroy()


PANEL = "The embedded stack"
COMMANDS: tuple[Callable[..., None], ...] = (up, down, status, logs, demo, drill, airflow, destroy)
# Settings of the commands whose options are another program's.
SETTINGS: dict[str, dict[str, Any]] = dict.fromkeys(("airflow", "drill", "python"), PASSED_ON)


def run_airflow(stack: BaseStack, arguments: list[str]) -> int:
    """Airflow's own command, with the environment of the stack's Airflow: it uses its database directly."""
    from local.services import airflow as service

    check_running(stack)
    command = stack.context.python_env / "bin" / "airflow"
    return subprocess.run(
        [command, *arguments], env={**os.environ, **service.environment(stack.context)}
    ).returncode


def follow_logs(stack: Stack, service: str = "") -> int:
    """Print the end of the logs and what comes, until it is interrupted. Raises UsageError without a log."""
    found = sorted(stack.home.logs.glob("*.log"))
    names = [log.stem for log in found]
    if service:
        found = [log for log in found if log.stem == service]
        if not found:
            raise UsageError(f"no log of {service}. Fix: give one of {', '.join(names) or '(none yet)'}")
    if not found:
        raise UsageError(f"no logs in {stack.home.logs}. Fix: make up")
    command = ["tail", "-n", "50", "-F", *map(str, found)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="backslashreplace") as tail:
        # Its end is that of the loop; an interrupt ends both.
        for line in tail.stdout or ():
            print(printable_log(line.rstrip("\n")), flush=True)
    return tail.returncode
