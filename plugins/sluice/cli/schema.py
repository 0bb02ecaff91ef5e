"""`sluice schema`: what a stream's schema is, and where the registry is ahead of it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sluice.cli.base import printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import new_console, print_json
from sluice.config import streams
from sluice.core.schema_versions.stream import StreamSchema
from sluice.trace.stream_schema import stream_schema


def show_schema(installation: Installation, stream: str, as_json: bool = False) -> int:
    """Print the columns of a stream's table, and the versions of its records. Raises UsageError if the stack
    is down."""
    check_running(installation)
    spec, systems = streams.load(stream), installation.systems("airflow")
    systems.tables(spec.name).check(spec.table, spec.quarantine_table)
    found = stream_schema(spec, systems.lake.table(spec.table), systems.s3, lambda: systems.registry)
    if as_json:
        print_json(found.to_json())
        return 0
    console = new_console()
    columns = _table("column", "type", "came (UTC)")
    for one in found.columns:
        columns.add_row(printable(one.name), printable(one.type), one.came)
    console.print(columns)
    if found.has_registry:
        _print_versions(console, found)
    return 0


def _print_versions(console: Console, found: StreamSchema) -> None:
    latest = found.latest
    if latest is not None:
        said = f"subject {latest.subject}, newest version {latest.version} (id {latest.schema_id})"
        console.print(printable(f"{said}: {latest.result}"))
        for one in latest.differences:
            console.print(printable(f"  {one}"))
    if found.problem:
        console.print(printable(f"the registry does not say: {found.problem}"))
    versions = _table("schema id", "version", "first published (UTC)", "offsets by partition", "came with it")
    for each in found.versions:
        came, place = printable(", ".join(each.columns)), printable(each.place)
        versions.add_row(str(each.schema_id), place, each.first, each.offsets, came)
    console.print(versions)
    console.print(printable(found.count_text), style="dim")


def _table(*names: str) -> Table:
    """Whose texts are never cut."""
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table
