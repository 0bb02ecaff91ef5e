"""Shows the status: two tables, or JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.base import printable
from local.stack import health
from local.stack.stack import Stack
from local.status import observe
from local.status.rows import HEADERS, StreamRow, component_row
from sluice.cli.terminal import new_console
from sluice.config import notifications, streams
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.config.platform_sections.catalog import REST, SQL
from sluice.config.stream import StreamSpec
from sluice.core.messages import age
from sluice.supervision.observer.component_view import LastCheck, component_views
from sluice.supervision.observer.live import Live


def main(stack: Stack, services_only: bool = False, as_json: bool = False) -> int:
    """Print it; 0 if everything is ok, 1 if something is not or is unknown.

    `services_only`: for the exit code, since right after `make up` no stream is started yet. `as_json`: one
    JSON document instead of the tables.
    """
    console = new_console()
    if not stack.is_running():
        if as_json:
            print(json.dumps({"home": str(stack.home.root), "running": False}))
        else:
            text = f"The stack in {stack.home.root} does not run: make up"
            console.print(text, soft_wrap=True, highlight=False)
        return 1
    states = stack.daemon.states()
    services = health.rows(stack.context, states)
    declared = streams.load_valid()
    known = observe.read(stack, declared.specs)
    told = [f"{rule.id}: {', '.join(rule.events)}" for rule in _rules(stack)]
    now = time.time()
    rows = [row for spec in declared.specs for row in stream_rows(spec, known, states, now)]
    is_ok = all(row.is_ok is not False for row in services) and (
        services_only or (all(row.is_ok for row in rows) and not declared.reasons and not known.errors)
    )
    observed_at = known.observed_at()
    if as_json:
        document = {
            "home": str(stack.home.root),
            "running": True,
            "is_ok": is_ok,
            "services": [asdict(row) for row in services],
            "catalog": catalog(stack),
            "notifications": told,
            "observed_seconds_ago": None if observed_at is None else round(now - observed_at, 1),
            "streams": [row.to_json() for row in rows],
            "errors": dict(known.errors),
            "invalid": dict(declared.invalid),
            "problems": list(declared.problems),
        }
        print(json.dumps(document, indent=2))
        return 0 if is_ok else 1
    _services(console, stack, services)
    _streams(console, rows)
    if observed_at is not None:
        console.print(f"Observed {age(now - observed_at)} ago by the observer", style="dim", highlight=False)
    errors = [f"{system}: {why}" for system, why in known.errors.items()]
    for reason in (*errors, *declared.reasons):
        console.print(Text(printable(reason), "red"), soft_wrap=True, highlight=False)
    no_recipient = "none, no person is told. Fix: set SLUICE_NOTIFICATIONS (docs/operating.md, Notifications)"
    console.print(f"Notifications: {'; '.join(told) or no_recipient}", soft_wrap=True, highlight=False)
    return 0 if is_ok else 1


def catalog(stack: Stack) -> str:
    """The kind of catalog by which roles find tables."""
    if stack.context.external is not None:
        return "external"
    return SQL if stack.context.rest_catalog is None else REST


def stream_rows(
    spec: StreamSpec, known: observe.Known, states: Mapping[str, Mapping[str, Any]], now: float
) -> list[StreamRow]:
    """`states`: program → supervisord's, which also knows which process runs if the observer says nothing."""
    lives, check = known.lives.get(spec.name, {}), known.checks.get(spec.name)
    views = component_views(spec, lives, check or LastCheck(f"{spec.name}_stream"), now)
    return [
        component_row(spec, view, lives.get(view.name, Live()), check, _state(states, spec, view.name), now)
        for view in views
    ]


def _state(states: Mapping[str, Mapping[str, Any]], spec: StreamSpec, component: str) -> str:
    return str(states[spec.component(component).program]["statename"])


def _rules(stack: Stack) -> list[notifications.Rule]:
    folder = {DIRECTORY_VARIABLE: str(stack.home.platform)}
    return notifications.load(streams.names(), folder).notify


def _services(console: Console, stack: Stack, rows: list[health.ServiceRow]) -> None:
    table = Table("service", "state", "address", "health")
    styles = {True: "green", False: "red", None: "dim"}
    for row in rows:
        table.add_row(row.name, row.state, row.address, printable(row.health), style=styles[row.is_ok])
    console.print(table)
    console.print(
        f"Airflow: http://127.0.0.1:{stack.ports['airflow']}  user: operator  "
        f"password: airflow_operator in {stack.home.secrets_file}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(f"Catalog: {catalog(stack)}", highlight=False)


def _streams(console: Console, rows: list[StreamRow]) -> None:
    table = Table(*HEADERS)
    for row in rows:
        cells = [Text(row.name)]
        for cell in row.cells:
            style = row.style if cell is row.health else {True: "green", False: "red", None: ""}[cell.is_ok]
            cells.append(Text(printable(cell.text), style))
        table.add_row(*cells)
    console.print(table)
    for row in rows:
        if row.message:
            text = Text(printable(f"{row.name}: {row.message}"), row.style)
            console.print(text, soft_wrap=True, highlight=False)
