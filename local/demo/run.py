"""Runs a demo: from `make up` to the file with its figures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.base import UsageError, printable
from local.demo.base import Demo, bucket, s3_calls
from local.demo.checks import DemoResult
from local.demo.feed import FeedDemo
from local.demo.hits import HitsDemo
from local.demo.taxi import TaxiDemo
from local.progress import ProgressDisplay, new_console, print_line
from local.runtime.home import write_private
from local.services import airflow as service
from local.stack.airflow_api import Airflow
from local.stack.systems import Systems

LIMIT_SECONDS = 900.0
# Measured by the clock, not of a task.
_CLOCK = ("up", "load", "in the lake", "all counted", "total")


def main(stack: Systems, demo: Demo) -> int:
    """Run the demo; 0 if every check holds, else 1 with the failures on stderr.

    Raises UsageError if the stack does not start or a prerequisite is missing.
    """
    console = new_console()
    began = time.monotonic()
    took: dict[str, float] = {}
    with ProgressDisplay() as board:
        stack.up(board)
        took["up"] = time.monotonic() - began
        demo.prepare(stack, board)
        api = stack.airflow()
        with board.step(f"Airflow reads {demo.load} and {demo.supervision}"):
            for dag in (demo.load, demo.supervision):
                api.wait_for_dag(dag)
            demo.ready(api)
    calls_before = s3_calls(stack)
    loading = time.monotonic()
    run_id = api.trigger(demo.load, demo.params(), run_id=f"demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    url = f"{service.public_url(stack.context)}/dags/{demo.load}/runs/{run_id}"
    print_line(console, f"run {run_id} of {demo.load}: {url}")
    state, tasks = watch_run(
        api, demo.load, run_id, console, LIMIT_SECONDS, lambda tasks: demo.watch(stack, api, tasks)
    )
    took["load"] = time.monotonic() - loading
    took |= {task["task_id"]: seconds(task, datetime.now(UTC)) for task in tasks}
    calls = s3_calls(stack)
    spent = None if calls is None or calls_before is None else calls - calls_before
    if state != "success":
        return _failed(api, demo, run_id, state, tasks)
    own, shared = demo.collect(stack, console, took), bucket(stack, spent)
    result = DemoResult([*own.figures, *shared.figures], [*own.checks, *shared.checks], own.more)
    took["total"] = time.monotonic() - began
    show(console, stack, demo, result, took)
    document = {"state": state, **result.to_json(), "seconds": {n: round(s, 1) for n, s in took.items()}}
    write_private(demo.result, json.dumps(document, indent=2) + "\n")
    for failure in result.failures:
        print(f"sluice: {failure}", file=sys.stderr)
    return 1 if result.failures else 0


def show(console: Console, stack: Systems, demo: Demo, result: DemoResult, took: Mapping[str, float]) -> None:
    """Print the figures and Airflow's address."""
    table = Table("what", "figure", "read from", title=f"{demo.load}: success", title_justify="left")
    for one in result.figures:
        table.add_row(one.name, "not counted" if one.value is None else f"{one.value:,}", one.read_from)
    table.add_section()
    for name, spent in took.items():
        table.add_row(name, f"{spent:.1f} s", "the clock" if name in _CLOCK else "the task, in Airflow")
    console.print(table)
    demo.show(stack, console)
    login = f"user: {service.USER}  password: {stack.secrets['airflow_operator']}"
    print_line(console, f"Airflow: {service.public_url(stack.context)}  {login}")
    print_line(console, stack.next_steps(demo.result, f"select * from {demo.spec.name} limit 5"))


def _failed(api: Airflow, demo: Demo, run_id: str, state: str, tasks: list[dict[str, Any]]) -> int:
    # The figures of an earlier run could be taken for this one's.
    demo.result.unlink(missing_ok=True)
    print(f"sluice: run {run_id} of {demo.load} ended as {state!r}", file=sys.stderr)
    for text in failures(api, demo.load, run_id, tasks):
        print(f"sluice: {text}", file=sys.stderr)
    return 1


COLOURS = {
    "success": "green",
    "failed": "red",
    "upstream_failed": "red",
    "running": "cyan",
    "deferred": "magenta",
}


def seconds(task: dict[str, Any], now: datetime) -> float:
    """A task's duration, until `now` if it runs; 0 before it starts."""
    if not task.get("start_date"):
        return 0.0
    end = datetime.fromisoformat(task["end_date"]) if task.get("end_date") else now
    return max(0.0, (end - datetime.fromisoformat(task["start_date"])).total_seconds())


def table(tasks: list[dict[str, Any]], now: datetime) -> Table:
    """The tasks in the order of their start; those that did not start last."""
    shown = Table("task", "state", "seconds", box=None)
    for task in sorted(tasks, key=lambda task: (task.get("start_date") or "9999", task["task_id"])):
        state = task.get("state") or "waiting"
        shown.add_row(task["task_id"], Text(state, COLOURS.get(state, "dim")), f"{seconds(task, now):.1f}")
    return shown


def watch_run(
    airflow: Airflow,
    dag: str,
    run_id: str,
    console: Console,
    limit: float,
    watch: Callable[[list[dict[str, Any]]], None] = lambda tasks: None,
) -> tuple[str, list[dict[str, Any]]]:
    """Show the run until it is done; give its state and tasks. `watch` gets the tasks each time.

    Raises TimeoutError after `limit` seconds, and what `watch` raises.
    """
    tasks: list[dict[str, Any]] = []
    state = ""
    shown: dict[str, str] = {}
    with Live(console=console, refresh_per_second=4) if console.is_terminal else nullcontext() as live:
        for run in airflow.watch_run(dag, run_id, limit):
            state, tasks = run["state"], airflow.tasks(dag, run_id)
            if live is not None:
                live.update(table(tasks, datetime.now(UTC)))
            watch(tasks)
            for task in tasks if live is None else ():
                now = task.get("state") or "waiting"
                if shown.get(task["task_id"], "waiting") != now:
                    took = seconds(task, datetime.now(UTC))
                    console.print(f"  {task['task_id']}: {now} ({took:.1f} s)", highlight=False)
                shown[task["task_id"]] = now
    return state, tasks


def failures(airflow: Airflow, dag: str, run_id: str, tasks: list[dict[str, Any]]) -> list[str]:
    """Per failed task the last error in its log, and the log's last lines."""
    texts: list[str] = []
    for task in tasks:
        if task.get("state") != "failed":
            continue
        lines = [
            printable(line)
            for entry in airflow.log(dag, run_id, task["task_id"], max(1, task["try_number"]))
            for line in entry.splitlines()
            if line.strip()
        ]
        reasons = [line for line in lines if " error " in line or "Exception" in line or "Error:" in line]
        reason = reasons[-1] if reasons else "no error line in its log"
        tail = "\n".join(f"    {line}" for line in lines[-12:])
        texts.append(f"task {task['task_id']} failed: {reason}\n{tail}")
    return texts


DEMOS: Mapping[str, Callable[[], Demo]] = {
    "nyc_taxi": TaxiDemo,
    "isp_hits": HitsDemo,
    "wiki_changes": partial(FeedDemo, "wiki_changes"),
}
DEFAULT = "nyc_taxi"


def chosen(name: str) -> Demo:
    """The demo of a stream, by default the taxi's. Raises UsageError for an unknown one."""
    if (name or DEFAULT) not in DEMOS:
        raise UsageError(f"no demo of STREAM={name}. Fix: give {', '.join(DEMOS)}")
    return DEMOS[name or DEFAULT]()
