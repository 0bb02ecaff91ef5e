"""Shows the status: two tables, or JSON for programs."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.progress import screen
from local.services import streams
from local.stack import health
from local.stack.stack import Stack
from local.status.observe import look
from local.status.rows import HEADERS, StreamRow, component_row


def main(stack: Stack, services_only: bool = False) -> int:
    """Prints it; 0 when everything is as it should be, 1 when something is not or could not be looked at.

    `services_only`: for the exit code, since right after `make up` a stream is still to be started.
    JSON=1 in the environment: one JSON document instead of the tables.
    """
    as_json = os.environ.get("JSON") == "1"
    console = screen()
    services = stack.status()
    if not services:
        text = f"The stack in {stack.home.root} does not run: make up"
        if as_json:
            print(json.dumps({"home": str(stack.home.root), "running": False}))
        else:
            console.print(text, soft_wrap=True, highlight=False)
        return 1
    states = {row.name: row.state for row in services}
    specs = streams.specs()
    seen = look(stack, specs)
    now = time.time()
    rows = [
        component_row(spec, component, states[component.program], seen[component.program], now)
        for spec in specs
        for component in spec.components.values()
    ]
    services = [row for row in services if not row.is_stream]
    fine = all(row.fine is not False for row in services) and (services_only or all(row.fine for row in rows))
    if as_json:
        document = {
            "home": str(stack.home.root),
            "running": True,
            "fine": fine,
            "services": [asdict(row) for row in services],
            "streams": [row.to_json() for row in rows],
        }
        print(json.dumps(document, indent=2))
        return 0 if fine else 1
    _services(console, stack, services)
    _streams(console, rows)
    return 0 if fine else 1


def _services(console: Console, stack: Stack, rows: list[health.Row]) -> None:
    table = Table("service", "state", "address", "health")
    colours = {True: "green", False: "red", None: "dim"}
    for row in rows:
        table.add_row(row.name, row.state, row.address, row.health, style=colours[row.fine])
    console.print(table)
    console.print(
        f"Airflow: http://127.0.0.1:{stack.ports['airflow']}  user: operator  "
        f"password: airflow_operator in {stack.home.secrets_file}",
        soft_wrap=True,
        highlight=False,
    )


def _streams(console: Console, rows: list[StreamRow]) -> None:
    table = Table(*HEADERS)
    for row in rows:
        cells = [Text(row.name)]
        for cell in row.cells:
            style = row.colour if cell is row.health else {True: "green", False: "red", None: ""}[cell.fine]
            cells.append(Text(cell.text, style))
        table.add_row(*cells)
    console.print(table)
    for row in rows:
        if row.message:
            text = Text(f"{row.name}: {row.message}", row.colour)
            console.print(text, soft_wrap=True, highlight=False)
