"""`sluice batches` and `sluice trace`: what batches published, and where a row came from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rich.table import Table

from sluice.cli.base import UsageError, printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import new_console, print_json
from sluice.config import streams
from sluice.ledger.batches import ListedBatch
from sluice.trace.find import StreamTrace
from sluice.trace.rows import RowTrace, SourceTrace


@dataclass(frozen=True)
class Batches:
    """Which batches to list: the newest `limit` of a time span."""

    stream: str
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 20


@dataclass(frozen=True)
class Asked:
    """Which row of ``stream``: by ``partition`` and ``offset`` of the topic; by ``source``, an id of 16 hex
    digits, and ``row``, from 0; or which ``object``, as s3://bucket/key, in this ``version`` (empty: the
    current one). The first of the three that is complete is asked for."""

    stream: str
    partition: int | None = None
    offset: int | None = None
    source: str = ""
    row: int | None = None
    object: str = ""
    version: str = ""


def time_of(text: str | None) -> datetime | None:
    """A time in ISO 8601, in UTC unless it says another zone. Raises UsageError."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text} is no time. Fix: write it as 2026-03-01T12:00") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def show_batches(installation: Installation, asked: Batches, as_json: bool = False) -> int:
    """Print what each batch read and published. Raises UsageError if the stack is down."""
    check_running(installation)
    spec = streams.load(asked.stream)
    log = installation.systems("reader").batch_log(spec.table)
    listed = log.newest(asked.limit, asked.since, asked.until)
    if as_json:
        print_json([{**one.batch.to_json(), "is_lost": one.is_lost} for one in listed])
        return 0
    table = _table("published (UTC)", "batch", "writer", "offsets", "rows", "rejected", "files", "seconds")
    has_more = any(one.batch.without_record.count for one in listed)
    if has_more:
        table.add_column("without a record", overflow="fold")
    table.add_column("snapshot", overflow="fold")
    if any(one.is_lost for one in listed):
        table.add_column("")
    for one in listed:
        table.add_row(*_cells(one, with_more=has_more))
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


def _cells(listed: ListedBatch, *, with_more: bool) -> list[str]:
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
        *([batch.without_record.message()] if with_more else []),
        str(batch.snapshot_id),
        *(["lost: an older catalog was restored"] if listed.is_lost else []),
    ]


def show_trace(installation: Installation, asked: Asked, as_json: bool = False) -> int:
    """Print where a row came from. Raises UsageError if no row is named, or the stack is down."""
    check_running(installation)
    trace = StreamTrace.open(installation.systems("airflow"), streams.load(asked.stream))
    found: RowTrace | SourceTrace
    if asked.partition is not None and asked.offset is not None:
        found = trace.offset(asked.partition, asked.offset)
    elif asked.source and asked.row is not None:
        found = trace.row(asked.source, asked.row)
    elif asked.object:
        found = trace.source(asked.object, asked.version)
    else:
        raise UsageError(
            "no row is named. Fix: --partition 3 --offset 120, --source <id> --row 7, or --object s3://…"
        )
    if as_json:
        print_json(found.to_json())
        return 0
    table = _table("", "")
    table.show_header = False
    for name, value in found.fields():
        table.add_row(name, printable(value))
    new_console().print(table)
    return 0
