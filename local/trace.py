"""`make batches` and `make trace`: what batches published, and where a row came from."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table

from local.base import UsageError, printable
from local.progress import new_console
from local.stack.systems import Systems
from sluice.config import stream as streams
from sluice.core.errors import ClientError
from sluice.ledger.batches import BatchLog, ListedBatch
from sluice.trace.find import StreamTrace
from sluice.trace.rows import RowTrace, SourceTrace

LIMIT = 20


def main(stack: Systems, command: str, arguments: Sequence[str]) -> int:
    """Print the answer. Raises UsageError if the stack does not run, or with a client's error."""
    parser = _batches_parser() if command == "batches" else _trace_parser()
    args = parser.parse_args(list(arguments))
    if not stack.is_running():
        raise UsageError("the stack does not run. Fix: make up")
    try:
        return _print_batches(stack, args) if command == "batches" else _print_trace(stack, args)
    except ClientError as error:
        failure = UsageError(str(error))
        failure.code = error.code
        raise failure from error


def _parser(command: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"local {command}", description=description, allow_abbrev=False)
    parser.add_argument("stream", help="the stream, as nyc_taxi")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _batches_parser() -> argparse.ArgumentParser:
    parser = _parser("batches", "What each batch read and published, newest first.")
    parser.add_argument("--since", type=_time, help="published at this time or later: 2026-03-01T12:00 (UTC)")
    parser.add_argument("--until", type=_time, help="published at this time or earlier")
    parser.add_argument("--limit", type=_positive, default=LIMIT, help=f"at most this many ({LIMIT})")
    return parser


def _trace_parser() -> argparse.ArgumentParser:
    parser = _parser("trace", "Where a row came from, or where the rows of an object are.")
    parser.add_argument("--partition", type=int, help="with --offset: the record there")
    parser.add_argument("--offset", type=int)
    parser.add_argument("--source", help="with --row: a row of this source id")
    parser.add_argument("--row", type=int, help="its number in the source, from 0")
    parser.add_argument("--object", help="s3://bucket/key: the rows of its current version")
    parser.add_argument("--version", default="", help="with --object: of this version")
    return parser


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _positive(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def _print_batches(stack: Systems, args: argparse.Namespace) -> int:
    spec, platform = streams.load(args.stream), stack.platform("reader")
    log = BatchLog.open(platform.s3, stack.lake("reader").table(spec.table))
    listed = log.newest(args.limit, args.since, args.until)
    if args.json:
        print(json.dumps([{**one.batch.to_json(), "is_lost": one.is_lost} for one in listed], indent=1))
        return 0
    table = _table("published (UTC)", "batch", "writer", "offsets", "rows", "rejected", "files", "seconds")
    table.add_column("snapshot", overflow="fold")
    if any(one.is_lost for one in listed):
        table.add_column("")
    for one in listed:
        table.add_row(*_cells(one))
    console = new_console()
    console.print(table)
    console.print(f"{len(listed)} batches of {spec.name}, newest first", style="dim")
    return 0


def _table(*names: str) -> Table:
    """Whose texts are never cut."""
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _cells(listed: ListedBatch) -> list[str]:
    batch = listed.batch
    return [
        batch.published.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        str(batch.batch_id),
        batch.writer,
        str(batch.ranges),
        str(batch.rows),
        str(batch.rejected),
        str(batch.files),
        "" if batch.seconds is None else f"{batch.seconds:.1f}",
        str(batch.snapshot_id),
        *(["lost: an older catalog was restored"] if listed.is_lost else []),
    ]


def _print_trace(stack: Systems, args: argparse.Namespace) -> int:
    by_offset = args.partition is not None and args.offset is not None
    by_row = args.source is not None and args.row is not None
    if not (by_offset or by_row or args.object):
        raise UsageError(
            "no row is named. Fix: --partition 3 --offset 120, --source <id> --row 7, or --object s3://…"
        )
    trace = StreamTrace.open(stack.platform("airflow"), streams.load(args.stream))
    found: RowTrace | SourceTrace
    if by_offset:
        found = trace.offset(args.partition, args.offset)
    else:
        found = trace.row(args.source, args.row) if by_row else trace.source(args.object, args.version)
    if args.json:
        print(json.dumps(found.to_json(), indent=1))
        return 0
    table = _table("", "")
    table.show_header = False
    for name, value in found.fields():
        table.add_row(name, printable(value))
    new_console().print(table)
    return 0
