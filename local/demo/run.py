"""The demo itself, from `up` to the file with its figures: what the demos of all streams have in common."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from local.airflow_client import Airflow
from local.demo import bucket
from local.demo.demo import Demo, Result, Run
from local.demo.follow import failures, follow, seconds
from local.home import write_private
from local.paths import REPO
from local.progress import Board, screen
from local.services import airflow as service
from local.stack import Stack

LIMIT_SECONDS = 900.0
# What the clock said, and not a task.
_CLOCK = ("up", "load", "in the lake", "all counted", "total")


def main(stack: Stack, demo: Demo) -> int:
    """Runs the demo; 0 when everything is as it must be, else 1 with the reasons on stderr.

    Raises Problem when the stack does not come up or what the demo needs is not there.
    """
    console = screen()
    began = time.monotonic()
    took: dict[str, float] = {}
    with Board() as board:
        stack.up(board)
        took["up"] = time.monotonic() - began
        demo.prepare(stack, board)
        api = stack.airflow()
        with board.step(f"Airflow reads {demo.load} and {demo.supervision}"):
            for dag in (demo.load, demo.supervision):
                api.wait_for_dag(dag)
            demo.ready(api)
    calls_before = bucket.s3_calls(stack)
    loading = time.monotonic()
    run_id = api.trigger(demo.load, demo.params(), run_id=f"demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    url = f"{service.url(stack.context)}/dags/{demo.load}/runs/{run_id}"
    console.print(f"run {run_id} of {demo.load}: {url}", highlight=False, soft_wrap=True)
    state, tasks = follow(
        api, demo.load, run_id, console, LIMIT_SECONDS, lambda tasks: demo.watch(stack, api, tasks)
    )
    took["load"] = time.monotonic() - loading
    took |= {task["task_id"]: seconds(task, datetime.now(UTC)) for task in tasks}
    calls = bucket.s3_calls(stack)
    spent = None if calls is None or calls_before is None else calls - calls_before
    if state != "success":
        return _failed(api, demo, run_id, state, tasks)
    result = demo.collect(stack, console, Run(state, spent, took, began))
    show(console, stack, demo, state, result)
    write_private(demo.result, json.dumps(result.to_json(), indent=2) + "\n")
    found = result.complaints()
    for complaint in found:
        print(f"sluice: {complaint}", file=sys.stderr)
    return 1 if found else 0


def show(console: Console, stack: Stack, demo: Demo, state: str, result: Result) -> None:
    """The figures, and the way into Airflow's UI."""
    table = Table("what", "figure", "read from", title=f"{demo.load}: {state}", title_justify="left")
    for name, value, origin in result.lines():
        table.add_row(name, "not counted" if value is None else f"{value:,}", origin)
    table.add_section()
    for name, spent in result.seconds.items():
        table.add_row(name, f"{spent:.1f} s", "the clock" if name in _CLOCK else "the task, in Airflow")
    console.print(table)
    demo.show(stack, console, result)
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
