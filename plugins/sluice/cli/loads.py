"""`sluice load` and `sluice change`: trigger a DAG of a stream, and show its run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console

from sluice.cli.airflow_api import Airflow, AirflowError
from sluice.cli.base import STILL_RUNS, UsageError
from sluice.cli.installation import Installation, check_running
from sluice.cli.runs import failures, proof, seconds, verified, watch_run
from sluice.cli.terminal import new_console, print_json, print_line
from sluice.core.addresses import answer_page, run_page

# Until the dag-processor has read a DAG whose stream is new.
DAG_SECONDS = 10
AWAITING_INPUT = "awaiting_input"


@dataclass(frozen=True)
class Request:
    """The run of a ``dag`` to trigger, with ``params`` as KEY=VALUE. Without ``wait`` it is not followed;
    after ``timeout_minutes`` no longer (None: until it ends), and it goes on. ``unpause``: a DAG that is
    paused, instead of refusing it. ``as_json``: one document on stdout, all else on stderr."""

    dag: str
    params: Sequence[str]
    wait: bool
    unpause: bool
    timeout_minutes: float | None
    as_json: bool


def main(installation: Installation, request: Request, dag_seconds: float = DAG_SECONDS) -> int:
    """Trigger, show, and give the exit code: 0 only if the run succeeded, or was not waited for. Waits
    `dag_seconds` for a DAG that is new.

    Raises UsageError if Airflow has no such DAG, it is paused, or a param is not of its form.
    """
    check_running(installation)
    api, console = installation.airflow(), new_console(stderr=request.as_json)
    try:
        api.wait_for_dag(request.dag, dag_seconds)
        params = conf(request.dag, api.params(request.dag), request.params)
        _check_unpaused(api, request)
        run_id = api.trigger(request.dag, params)
    except AirflowError as error:
        raise UsageError(f"{error}. Fix: correct the params, or the user's rights") from error
    url = run_page(api.url, request.dag, run_id)
    print_line(console, f"run {run_id} of {request.dag}: {url}")
    if not request.wait:
        return _end(request, {"dag": request.dag, "run_id": run_id, "state": "queued", "url": url}, 0)
    limit = math.inf if request.timeout_minutes is None else request.timeout_minutes * 60
    tell = _approvals(console, partial(answer_page, api.url, request.dag, run_id))
    try:
        state, tasks = watch_run(api, request.dag, run_id, console, limit, tell)
    except TimeoutError as error:
        print_line(console, f"{error}; it goes on")
        document = {"dag": request.dag, "run_id": run_id, "state": "running", "url": url}
        return _end(request, document, STILL_RUNS)
    reasons = failures(api, request.dag, run_id, tasks)
    for text in reasons:
        print_line_block(console, text)
    counts = None
    try:
        counts = proof(api, request.dag, run_id, tasks)
    except AirflowError as error:
        print_line(console, f"the figures of the proof are not shown: {error}")
    if counts is not None:
        print_line(console, verified(counts))
    print_line(console, f"run {run_id} of {request.dag}: {state}")
    now = datetime.now(UTC)
    listed = [
        {"task": task["task_id"], "state": task.get("state"), "seconds": round(seconds(task, now), 1)}
        for task in tasks
    ]
    result = {
        "dag": request.dag,
        "run_id": run_id,
        "state": state,
        "url": url,
        "tasks": listed,
        "proof": counts,
    }
    return _end(request, result | {"failures": reasons}, 0 if state == "success" else 1)


def print_line_block(console: Console, text: str) -> None:
    """Print lines as they are."""
    for line in text.splitlines():
        print_line(console, line)


def _end(request: Request, document: dict[str, Any], code: int) -> int:
    if request.as_json:
        print_json(document)
    return code


def _check_unpaused(api: Airflow, request: Request) -> None:
    if not api.is_paused(request.dag):
        return
    if not request.unpause:
        raise UsageError(f"{request.dag} is paused, so its run would wait unseen. Fix: give --unpause")
    api.unpause(request.dag)


def _approvals(console: Console, page: Callable[[str], str]) -> Callable[[list[dict[str, Any]]], None]:
    told: set[str] = set()

    def tell(tasks: list[dict[str, Any]]) -> None:
        for task in tasks:
            name = str(task["task_id"])
            if task.get("state") == AWAITING_INPUT and name not in told:
                told.add(name)
                print_line(console, f"{name} waits for a person's answer: {page(name)}")

    return tell


def conf(dag: str, form: dict[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """The values of KEY=VALUE texts by the form's types: a text stays one where the form wants a text.

    Raises UsageError for a text without `=`, and for a key that the form does not have.
    """
    values = {}
    for text in given:
        name, is_pair, value = text.partition("=")
        if not is_pair or name not in form:
            raise UsageError(f"no param {name!r} of {dag}. Fix: give KEY=VALUE, KEY one of {', '.join(form)}")
        values[name] = _value(value, form[name])
    return values


def _value(text: str, param: dict[str, Any]) -> Any:
    declared = (param.get("schema") or {}).get("type", [])
    types = [declared] if isinstance(declared, str) else declared
    try:
        value = json.loads(text)
    except ValueError:
        return [text] if "array" in types and "string" not in types else text
    if value is None and "null" in types:
        return None
    kind = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}.get(type(value))
    is_wanted = kind in types or (kind == "integer" and "number" in types)
    return text if "string" in types and not is_wanted else value
