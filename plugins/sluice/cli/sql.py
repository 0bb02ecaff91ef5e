"""`sluice sql`: SQL over the lake by DuckDB, with the reader's rights."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

import duckdb
from pyiceberg.expressions import AlwaysTrue
from rich.console import Console
from rich.table import Table

from sluice.cli.base import UsageError, printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import new_console, print_json
from sluice.clients.lake.reading.data_files import TEXT_FIX
from sluice.clients.lake.reading.files import read
from sluice.clients.lake.reading.unreadable import unreadable
from sluice.config import streams
from sluice.core.errors import Missing

ROW_LIMIT = 100
_ENDS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def main(stack: Installation, query: str, as_json: bool = False) -> int:
    """Print the result, at most ROW_LIMIT rows, as a table or for a program; 1 with DuckDB's error.

    Raises UsageError without a query, if the stack does not run, or if a table does not exist yet.
    """
    if not query.strip():
        raise UsageError(f"no query. Fix: give one; its tables are {', '.join(tables())}")
    check_running(stack)
    # It warns at every load that the catalog has no views.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        for name in sorted(named(query, tables())):
            again = reads_again(query, name)
            connection.register(f"{name}_stream" if again else name, _reader(stack, tables()[name]))
            if again:
                # A stream of batches can be read once: the second time it would silently be empty.
                connection.execute(f'create table "{name}" as from "{name}_stream"')
        result = connection.execute(query)
        rows = result.fetchmany(ROW_LIMIT + 1)
    except duckdb.Error as error:
        print(f"sluice: {printable(' '.join(str(error).split()))}", file=sys.stderr)
        if _is_of_a_value(error):
            _name_unreadable(stack, query)
        return 1
    if as_json:
        names = [str(column[0]) for column in result.description or []]
        print_json({"columns": names, "rows": rows[:ROW_LIMIT], "has_more": len(rows) > ROW_LIMIT})
        return 1 if any(map(_may_be_infinite, rows)) and _name_unreadable(stack, query) else 0
    console = new_console()
    columns = [printable(str(column[0])) for column in result.description or []]
    for table in _rendered(columns, rows[:ROW_LIMIT], console):
        console.print(table)
    if any(map(_may_be_infinite, rows)) and _name_unreadable(stack, query):
        return 1
    more = f"the first {ROW_LIMIT} rows; there are more" if len(rows) > ROW_LIMIT else f"{len(rows)} rows"
    console.print(f"{more} (at most {ROW_LIMIT} are shown)", style="dim")
    return 0


def _is_of_a_value(error: duckdb.Error) -> bool:
    """Text that is not UTF-8, or a time beyond Python's range: the message does not say in which row."""
    return isinstance(error, duckdb.DataError) or "unicode" in str(error) or TEXT_FIX in str(error)


def _may_be_infinite(value: object) -> bool:
    """DuckDB takes the largest and the least number of microseconds or days for infinity, and gives Python's
    last and first time in its place."""
    if isinstance(value, dict):
        return any(map(_may_be_infinite, [*value.keys(), *value.values()]))
    if isinstance(value, list | tuple):
        return any(map(_may_be_infinite, value))
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) in _ENDS
    return isinstance(value, date) and value in (date.min, date.max)


def _name_unreadable(stack: Installation, query: str) -> bool:
    """Whether there are such records in the tables of the query."""
    is_any = False
    for spec in streams.load_valid().specs:
        found = {
            table.rpartition(".")[2]: offsets
            for table in (spec.table, spec.quarantine_table)
            if table.rpartition(".")[2] in named(query, tables())
            and (offsets := unreadable(stack.systems("reader").lake.table(table)))
        }
        is_any |= bool(found)
        for name, offsets in found.items():
            print(
                f"sluice: {name}: no reader can read the records at {offsets}. Fix: take them out with "
                f"{spec.name}_change, action remove (docs/operating.md, A table cannot be read)",
                file=sys.stderr,
            )
    return is_any


def _rendered(columns: list[str], rows: list[tuple[object, ...]], console: Console) -> Iterator[Table]:
    # One table; if it is wider than the screen, a small table per row.
    texts = [["" if value is None else printable(str(value)) for value in row] for row in rows]
    wide = Table(*columns)
    for row in texts:
        wide.add_row(*row)
    # Measured on an endless screen: on the real one rich shrinks it until it fits.
    endless = console.options.update(max_width=1_000_000)
    if console.measure(wide, options=endless).maximum <= console.width:
        yield wide
        return
    for number, row in enumerate(texts, start=1):
        record = Table("column", "value", title=f"row {number}", title_justify="left", show_header=False)
        for column, text in zip(columns, row, strict=True):
            record.add_row(column, text)
        yield record
    if not texts:
        console.print(f"columns: {', '.join(columns)}")


def tables() -> dict[str, str]:
    """Name in the query → table in the catalog, for every valid stream."""
    found: list[str] = []
    for spec in streams.load_valid().specs:
        results = (query.results_table for query in spec.queries.values() if query.results_table)
        found += [spec.table, spec.quarantine_table, *results]
    return {table.rpartition(".")[2]: table for table in found}


def named(query: str, known: Iterable[str]) -> set[str]:
    """The tables that a query names; one that is only named in a string is opened, but not read."""
    return {name for name in known if _mentions(query, name)}


def reads_again(query: str, name: str) -> bool:
    """Whether a query may read a table more than once: named twice, or in a `with` that is used twice."""
    return _mentions(query, name) > 1 or _mentions(query, "with") > 0


def _mentions(query: str, word: str) -> int:
    return len(re.findall(rf"\b{re.escape(word)}\b", query, re.IGNORECASE))


def _reader(stack: Installation, table: str) -> object:
    try:
        # Not by PyIceberg's scan, which makes an empty one of a list of records that is null.
        return read(stack.systems("reader").lake.table(table), AlwaysTrue(), ("*",))
    except Missing as error:
        raise UsageError(
            f"table {table} does not exist. Fix: start the stream, which creates it (make demo); if it had "
            "rows: docs/operating.md, Table lost by the catalog"
        ) from error
