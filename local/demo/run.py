"""The demo itself, from up to the file with its figures: what the demos of all streams have in common."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.base import REPO, UsageError
from local.demo.base import Demo, bucket, s3_calls
from local.demo.checks import DemoResult
from local.demo.feed import FeedDemo
from local.demo.hits import HitsDemo
from local.demo.taxi import TaxiDemo
from local.progress import ProgressDisplay, screen
from local.runtime.home import write_private
from local.services import airflow as service
from local.stack.airflow_api import Airflow
from local.stack.stack import Stack

LIMIT_SECONDS = 900.0
# What the clock said, and not a task.
_CLOCK = ("up", "load", "in the lake", "all counted", "total")


def main(stack: Stack, demo: Demo) -> int:
    """Runs the demo; 0 when everything is as it must be, else 1 with the reasons on stderr.

    Raises UsageError when the stack does not come up or what the demo needs is not there.
    """
    console = screen()
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
    url = f"{service.url(stack.context)}/dags/{demo.load}/runs/{run_id}"
    console.print(f"run {run_id} of {demo.load}: {url}", highlight=False, soft_wrap=True)
    state, tasks = follow(
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


def show(console: Console, stack: Stack, demo: Demo, result: DemoResult, took: Mapping[str, float]) -> None:
    """The figures, and the way into Airflow's UI."""
    table = Table("what", "figure", "read from", title=f"{demo.load}: success", title_justify="left")
    for one in result.figures:
        table.add_row(one.name, "not counted" if one.value is None else f"{one.value:,}", one.read_from)
    table.add_section()
    for name, spent in took.items():
        table.add_row(name, f"{spent:.1f} s", "the clock" if name in _CLOCK else "the task, in Airflow")
    console.print(table)
    demo.show(stack, console)
    console.print(
        f"Airflow: {service.url(stack.context)}  user: {service.USER}  "
        f"password: {stack.secrets['airflow_operator']}",
        soft_wrap=True,
        highlight=False,
    )
    rows = f"select * from {demo.spec.name} limit 5"
    console.print(
        f"Figures: {demo.result.relative_to(REPO)}   Rows: make sql Q='{rows}'",
        soft_wrap=True,
        highlight=False,
    )


def _failed(api: Airflow, demo: Demo, run_id: str, state: str, tasks: list[dict[str, Any]]) -> int:
    """Says why; and leaves no figures of an earlier run that could be taken for this one's."""
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
    """How long a task has taken, or has been at it until `now`; 0 before it starts."""
    if not task.get("start_date"):
        return 0.0
    end = datetime.fromisoformat(task["end_date"]) if task.get("end_date") else now
    return max(0.0, (end - datetime.fromisoformat(task["start_date"])).total_seconds())


def table(tasks: list[dict[str, Any]], now: datetime) -> Table:
    """The tasks in the order in which they started; those that did not yet, last."""
    shown = Table("task", "state", "seconds", box=None)
    for task in sorted(tasks, key=lambda task: (task.get("start_date") or "9999", task["task_id"])):
        state = task.get("state") or "waiting"
        shown.add_row(task["task_id"], Text(state, COLOURS.get(state, "dim")), f"{seconds(task, now):.1f}")
    return shown


def follow(
    airflow: Airflow,
    dag: str,
    run_id: str,
    console: Console,
    limit: float,
    watch: Callable[[list[dict[str, Any]]], None] = lambda tasks: None,
) -> tuple[str, list[dict[str, Any]]]:
    """Shows the run until it is done; gives its state and its tasks. `watch` sees them each time.

    Raises TimeoutError after `limit` seconds, and what `watch` raises.
    """
    tasks: list[dict[str, Any]] = []
    state = ""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            for run in airflow.follow(dag, run_id, limit):
                state, tasks = run["state"], airflow.tasks(dag, run_id)
                live.update(table(tasks, datetime.now(UTC)))
                watch(tasks)
        return state, tasks
    seen: dict[str, str] = {}
    for run in airflow.follow(dag, run_id, limit):
        state, tasks = run["state"], airflow.tasks(dag, run_id)
        watch(tasks)
        for task in tasks:
            now = task.get("state") or "waiting"
            if seen.get(task["task_id"], "waiting") != now:
                took = seconds(task, datetime.now(UTC))
                console.print(f"  {task['task_id']}: {now} ({took:.1f} s)", highlight=False)
            seen[task["task_id"]] = now
    return state, tasks


def failures(airflow: Airflow, dag: str, run_id: str, tasks: list[dict[str, Any]]) -> list[str]:
    """Per failed task: its one-line reason (the last error in its log) and the last lines of the log."""
    texts: list[str] = []
    for task in tasks:
        if task.get("state") != "failed":
            continue
        lines = [
            line
            for entry in airflow.log(dag, run_id, task["task_id"], max(1, task["try_number"]))
            for line in entry.splitlines()
            if line.strip()
        ]
        reasons = [line for line in lines if " error " in line or "Exception" in line or "Error:" in line]
        reason = reasons[-1] if reasons else "its log holds no error line"
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
    """The demo of a stream, by default the taxi's. Raises UsageError naming those that there are."""
    if (name or DEFAULT) not in DEMOS:
        raise UsageError(f"STREAM={name}: there are demos of {', '.join(DEMOS)}")
    return DEMOS[name or DEFAULT]()
