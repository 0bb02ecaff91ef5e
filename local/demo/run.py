"""Runs a demo: from `make up` to the file with its figures."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from local.base import UsageError
from local.demo.base import Demo, bucket, s3_calls
from local.demo.checks import DemoResult
from local.demo.feed import FeedDemo
from local.demo.hits import HitsDemo
from local.demo.orders.demo import OrdersDemo
from local.demo.taxi import TaxiDemo
from local.progress import ProgressDisplay
from local.services import airflow as service
from local.stack.base import BaseStack
from sluice.cli.airflow_api import Airflow
from sluice.cli.runs import failures, seconds, watch_run
from sluice.cli.terminal import new_console, print_line
from sluice.config.reading.files import write_private
from sluice.core.addresses import run_page

LIMIT_SECONDS = 900.0
# Measured by the clock, not of a task.
_CLOCK = ("up", "load", "in the lake", "all counted", "total")


def main(stack: BaseStack, demo: Demo) -> int:
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
    url = run_page(service.public_url(stack.context), demo.load, run_id)
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


def show(
    console: Console, stack: BaseStack, demo: Demo, result: DemoResult, took: Mapping[str, float]
) -> None:
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


DEMOS: Mapping[str, Callable[[], Demo]] = {
    "nyc_taxi": TaxiDemo,
    "isp_hits": HitsDemo,
    "wiki_changes": partial(FeedDemo, "wiki_changes"),
    "orders": OrdersDemo,
}
DEFAULT = "nyc_taxi"


def chosen(name: str) -> Demo:
    """The demo of a stream, by default the taxi's. Raises UsageError for an unknown one."""
    if (name or DEFAULT) not in DEMOS:
        raise UsageError(f"no demo of {name}. Fix: give {', '.join(DEMOS)}")
    return DEMOS[name or DEFAULT]()
