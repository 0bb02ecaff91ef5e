"""The command line: which commands there are, how they are called, and how they end."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from typer.core import TyperGroup

from sluice.cli.base import UsageError, exit_code
from sluice.cli.installation import Host, check_running
from sluice.config.reading.toml import ConfigError
from sluice.core.errors import ClientError

# A module with more commands: `local.commands` in a checkout and in its images.
VARIABLE = "SLUICE_COMMANDS"
PANEL = "Records, wherever the systems are"
OF_A_CHECKOUT = ("up", "down", "status", "logs", "demo", "drill", "airflow", "destroy")
# Until the dag-processor has found the DAGs of a folder that is new.
NEW_DAG_SECONDS = 120
ONLY_THERE = "only in a checkout of Sluice, by local/run"
NEEDS_CHECKOUT = "needs the embedded stack of a checkout of Sluice. Fix: there, local/run"
EXIT_CODES = (
    "Exit codes: 0 done and well, 1 refused, failed or unhealthy, 2 wrong command line, "
    "3 the run goes on, 130 interrupted."
)
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream, as nyc_taxi")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, for programs")]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="KEY=VALUE", help="A field of the DAG's form; may be repeated"),
]
Wait = Annotated[bool, typer.Option(help="Show the run until it is done; exit code 0 only if it succeeded")]
Unpause = Annotated[bool, typer.Option("--unpause", help="Unpause the DAG first")]
Timeout = Annotated[float | None, typer.Option(metavar="MINUTES", help="Stop waiting; the run goes on (3)")]


class Commands(Protocol):
    """The module that SLUICE_COMMANDS names."""

    def add(self, app: typer.Typer) -> Host:
        """Add its commands; give what they run on."""


class Group(TyperGroup):
    """Says of a command that is not for here where it is."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        host = cast("Host", ctx.obj)
        if args and args[0] in host.elsewhere and self.get_command(ctx, args[0]) is None:
            raise UsageError(f"{args[0]} {host.elsewhere[args[0]]}")
        return super().resolve_command(ctx, args)


def run(arguments: Sequence[str]) -> int:
    """Run a command; give its exit code. Raises UsageError."""
    app, host = build()
    try:
        app(args=list(arguments) or ["--help"], prog_name=host.program, obj=host)
    except SystemExit as end:
        return int(end.code or 0)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except ClientError as error:
        failure = UsageError(str(error))
        failure.code = error.code
        raise failure from error
    raise AssertionError("Typer ends with an exit code")


def build() -> tuple[typer.Typer, Host]:
    """The app with the commands of this package and of SLUICE_COMMANDS, and what it runs on."""
    given = os.environ.get(VARIABLE)
    app = typer.Typer(
        cls=Group,
        help="Records from Kafka to the lake, each load verified.",
        epilog=EXIT_CODES if given else f"{', '.join(OF_A_CHECKOUT)}: {ONLY_THERE}. {EXIT_CODES}",
        add_completion=not given,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    host = Host(elsewhere={name: f"{NEEDS_CHECKOUT} {name}" for name in OF_A_CHECKOUT})
    if given:
        host = cast("Commands", importlib.import_module(given)).add(app)
    add(app)
    return app, host


def names(app: typer.Typer) -> set[str]:
    """The names of its commands."""
    commands = {info.name or _name(info.callback) for info in app.registered_commands}
    return commands | {str(group.name) for group in app.registered_groups}


def _name(callback: Any) -> str:
    return str(callback.__name__).replace("_", "-")


def host_of(context: typer.Context) -> Host:
    """What the command runs on."""
    return cast("Host", context.obj)


def main() -> None:
    """Run `sluice`; ends the process."""
    sys.exit(exit_code(run))


def add(app: typer.Typer) -> None:
    """Add the commands that need the systems only."""
    for command in (load, change, sql, put, batches, trace, schema):
        app.command(rich_help_panel=PANEL)(command)
    app.command("catalog-check", rich_help_panel=PANEL)(catalog_check)
    app.command("check-connections", rich_help_panel=PANEL)(check_connections)
    app.command("new-stream", rich_help_panel=PANEL)(new_stream)


def load(
    context: typer.Context,
    stream: Stream,
    param: Params = None,
    wait: Wait = True,
    unpause: Unpause = False,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Load a source's records: trigger STREAM_load, and show its tasks until every record is verified."""
    from sluice.cli import loads

    request = loads.Request(f"{stream}_load", param or [], wait, unpause, timeout, json)
    raise typer.Exit(loads.main(host_of(context).installation(), request))


def change(
    context: typer.Context,
    stream: Stream,
    param: Params = None,
    wait: Wait = True,
    unpause: Unpause = False,
    timeout: Timeout = None,
    json: AsJson = False,
) -> None:
    """Change published rows: replay, revert, redo, replace, remove, retry_quarantine, fill_columns (-p
    action=…)."""
    from sluice.cli import loads

    request = loads.Request(f"{stream}_change", param or [], wait, unpause, timeout, json)
    raise typer.Exit(loads.main(host_of(context).installation(), request))


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help='As "select count(*) from nyc_taxi"')],
    json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="Most rows that are shown")] = 100,
) -> None:
    """Query the lake with DuckDB and the reader's rights."""
    from sluice.cli import sql as command

    raise typer.Exit(command.main(host_of(context).installation(), query, json, limit))


def put(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="As rides.csv")],
    key: Annotated[str, typer.Argument(help="Its key in the source bucket, as rides/rides.csv")],
) -> None:
    """Upload a file to the source bucket, for a load to read."""
    from sluice.cli import put as command

    raise typer.Exit(command.main(host_of(context).installation(), file, key))


def batches(
    context: typer.Context,
    stream: Stream,
    since: Annotated[str | None, typer.Option(help="Published then or later: 2026-03-01T12:00 (UTC)")] = None,
    until: Annotated[str | None, typer.Option(help="Published then or earlier")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many")] = 20,
    json: AsJson = False,
) -> None:
    """What each batch read and published, newest first."""
    from sluice.cli import trace as command

    asked = command.Batches(stream, command.time_of(since), command.time_of(until), limit)
    raise typer.Exit(command.show_batches(host_of(context).installation(), asked, json))


def trace(
    context: typer.Context,
    stream: Stream,
    partition: Annotated[int | None, typer.Option(help="With --offset: the record there")] = None,
    offset: Annotated[int | None, typer.Option(help="With --partition")] = None,
    source: Annotated[str, typer.Option(help="With --row: a row of this source id")] = "",
    row: Annotated[int | None, typer.Option(help="Its number in the source, from 0")] = None,
    object_: Annotated[
        str, typer.Option("--object", help="s3://bucket/key: the rows of its current version")
    ] = "",
    version: Annotated[str, typer.Option(help="With --object: of this version")] = "",
    json: AsJson = False,
) -> None:
    """Where a row came from, or where the rows of an object are."""
    from sluice.cli import trace as command

    asked = command.Asked(stream, partition, offset, source, row, object_, version)
    raise typer.Exit(command.show_trace(host_of(context).installation(), asked, json))


def schema(context: typer.Context, stream: Stream, json: AsJson = False) -> None:
    """A table's columns, the versions of its records' schema, and the registry's newest against it."""
    from sluice.cli import schema as command

    raise typer.Exit(command.show_schema(host_of(context).installation(), stream, json))


def catalog_check(
    context: typer.Context,
    role: Annotated[str, typer.Option(help="Whose login is used: one that writes tables")] = "consumer",
    json: AsJson = False,
) -> None:
    """Try on a scratch table whether the catalog keeps what a writer relies on; exit code 1 if not."""
    from sluice.cli import catalog_check as command

    raise typer.Exit(command.check_catalog(host_of(context).installation(), role, json))


def check_connections(
    context: typer.Context,
    role: Annotated[
        list[str] | None,
        typer.Option(help="Whose platform file; may be repeated; default: each that is here"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Ask each end of the platform files: login, TLS, certificates' ends, clock, rights; exit code 1 if
    something is refused, missing or about to end."""
    from sluice.cli import check_connections as command

    raise typer.Exit(command.check_connections(host_of(context).installation(), role or [], json))


def new_stream(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and _: rides")],
    kind: Annotated[str, typer.Option(help="Its source: csv, generator, feed or topic")] = "csv",
    into: Annotated[
        Path | None,
        typer.Option(help="The folder of streams; default: the first of SLUICE_STREAMS, else spark_jobs"),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="A CSV file: infer its columns; load it if none is unsure"
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="A topic that others fill: look at it, and read it as it is")
    ] = "",
    load: Annotated[bool, typer.Option(help="With --from: load the file, if the stack runs")] = True,
) -> None:
    """Write a stream's folder: stream.toml with comments, a schema, and the code that a source needs."""
    from sluice.cli import new_stream as command

    # Before the stack is opened, which names its own folders too.
    host, root = host_of(context), command.root_of(into, host_of(context).streams)
    if topic:
        from sluice.cli.topics import look as topic_look

        installation = host.installation()
        check_running(installation)
        found = topic_look.look(installation.systems(topic_look.ROLE), topic, host.allow_reading)
        command.main(name, "topic", root, file=from_, found=found)
    else:
        doubts = command.main(name, kind, root, file=from_)
    stack = host.installation() if host.add_streams is not None else None
    steps = command.steps_to_know(root)
    airflow = "" if "airflow" in host.elsewhere else f"{host.program} airflow"
    if topic:
        steps += ["make up"] if host.add_streams else []
        print("Next: " + "; ".join([*steps, f"{host.program} load {name} --unpause"]))
        command.print_paused(name, airflow)
    elif from_ is None:
        if steps:
            print(f"First: {steps[0]}")
    elif doubts or steps or not load or host.add_streams is None or stack is None or not stack.is_running():
        steps += ["make up"] if host.add_streams else []
        print("Next: " + "; ".join([*steps, *command.steps_to_load(host.program, name, from_)]))
        command.print_paused(name, airflow)
    else:
        from sluice.cli import loads
        from sluice.cli import put as upload

        host.add_streams()
        upload.main(stack, from_, command.key_of(name, from_))
        request = loads.Request(f"{name}_load", [], True, True, None, False)
        code = loads.main(stack, request, NEW_DAG_SECONDS)
        command.print_paused(name, airflow)
        raise typer.Exit(code)


if __name__ == "__main__":
    main()
