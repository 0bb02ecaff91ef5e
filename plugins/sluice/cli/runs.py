"""Shows a DAG's run until it is done, and why it failed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.cli.airflow_api import Airflow
from sluice.cli.base import printable
from sluice.core.error_codes import CODE
from sluice.core.tables.without_record import NAMES

COLOURS = {
    "success": "green",
    "failed": "red",
    "upstream_failed": "red",
    "running": "cyan",
    "deferred": "magenta",
}

# The task that verifies a load.
VALIDATE = "validate"


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
        # Sluice's own words, which name the fix, and not the cause behind them.
        coded = [line for line in reasons if CODE.search(line)]
        reason = (coded or reasons or ["no error line in its log"])[-1]
        said = _words(reason)
        # The log has them once more for each exception on the way.
        tail = "\n".join(f"    {line}" for line in lines[-12:] if not said or said not in line)
        texts.append(f"task {task['task_id']} failed: {reason}\n{tail}")
    return texts


def _words(reason: str) -> str:
    """What Sluice says of an error, from its code on, without the exception's name; empty without a code."""
    code = CODE.search(reason)
    return reason[code.start() :] if code else ""


def proof(airflow: Airflow, dag: str, run_id: str, tasks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The counts of a load's proof, as its task returned them; None of a run that verified nothing."""
    states = {task["task_id"]: task.get("state") for task in tasks}
    return dict(airflow.returned(dag, run_id, VALIDATE)) if states.get(VALIDATE) == "success" else None


def verified(counts: dict[str, Any]) -> str:
    """A proof in a line."""
    without = sum(counts["without_record"].get(name, 0) for name in NAMES)
    parts = [
        f"{counts['published']:,} rows published",
        f"{counts['quarantined']:,} quarantined",
        f"{counts['gaps']:,} gaps",
        f"{counts['duplicates']:,} duplicates",
        *([f"{without:,} offsets without a record"] if without else []),
    ]
    return f"verified: {', '.join(parts)} ({counts['proof']})"
