"""Read the Iceberg table of a query's results: all of it to compare sinks, its changes for the results page.

Iceberg never changes a file, so manifests and data files are cached by path: a refresh reads new metadata,
new manifests, and the windows that changed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import ManifestContent, ManifestFile

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import MAIN, ancestors, summary_of
from sluice.clients.lake.errors import asking
from sluice.clients.lake.reading import files
from sluice.clients.lake.results.positions import read_positions
from sluice.clients.s3.requests import at_once
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.core.queries.result import WINDOW
from sluice.core.tables.summary import BATCH_ID, KIND

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.config.stream import StreamSpec

MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the query in one window, by the columns of its page. ``name`` is untrusted input, empty for
    null; ``kind`` is False without such a column; ``value`` is the first aggregate."""

    name: str
    kind: bool
    value: int


@dataclass(frozen=True)
class Window:
    """[start, end), in seconds since 1970. ``groups``: all of them, in any order."""

    start: float
    end: float
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Results:
    """The results as committed ``at``; times in seconds since 1970, None before the first batch.

    ``source_at``: when the newest counted rows were published; ``watermark``: windows that end until then are
    final; ``late``: rows that came later; ``early``: rows dated ahead. ``windows``: newest first.
    """

    at: float | None = None
    source_at: float | None = None
    watermark: float | None = None
    late: int = 0
    early: int = 0
    windows: tuple[Window, ...] = ()


def last_batch(table: Table) -> int | None:
    """The newest batch in the table; None before the first."""
    batches = (summary_of(snapshot).get(BATCH_ID) for snapshot in ancestors(table))
    newest = next((batch for batch in batches if batch is not None), None)
    return int(newest) if newest else None


def read(table: Table, query: Query, windows: tuple[int, int] | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield keys and aggregates. ``windows``: first and last start (seconds since 1970), all by default."""
    rows = files.between(WINDOW, [(windows[0], windows[1] + 1)]) if windows else AlwaysTrue()
    columns = (*query.keys, *query.aggregates)
    for batch in files.read(table, rows, columns):
        yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


@dataclass(frozen=True)
class _File:
    """A data file, and the start of its one window (seconds since 1970)."""

    path: str
    start: float


class ResultsReader:
    """Reader of query ``name`` of ``spec``, which has a page. One thread reads, others wait."""

    def __init__(self, lake: Lake, spec: StreamSpec, name: str) -> None:
        self._lake, self._spec, self._query = lake, spec, name
        query = spec.queries[name]
        if query.page is None or query.window is None:
            raise ConfigError(f"stream {spec.name!r}: query {name!r} has no page. Fix: declare one")
        self._name = query.results_table
        self._seconds = query.window.size_minutes * 60
        self._columns = (*query.page.columns, next(iter(query.aggregates)))
        self._lock = threading.Lock()
        self._known: Table | None = None
        self._manifests: dict[str, list[_File]] = {}
        self._pieces: dict[str, Window] = {}

    def read(self, since: float) -> Results:
        """The current results, with the windows that start at ``since`` (seconds since 1970) or later.

        Raises Missing before the table exists, Unreachable if the catalog or S3 does not answer, Refused for
        a table with row-level deletes, ConfigError for a query whose declaration has changed.
        """
        with self._lock:
            table = self._refreshed()
            files = [file for files in self._manifests.values() for file in files]
            self._read(table, [file for file in files if file.start >= since], {file.path for file in files})
            return replace(self._progress(table), windows=self._windows(since))

    def _progress(self, table: Table) -> Results:
        state_table = self._lake.table(self._spec.queries_table)
        positions = read_positions(state_table, self._spec.queries)
        if positions is None or positions.states[self._query].source_snapshot_id is None:
            return Results()
        state = positions.states[self._query]
        at = next((s.timestamp_ms for s in ancestors(table) if summary_of(s).get(KIND) == "batch"), None)
        return Results(
            at=None if at is None else at / 1000,
            source_at=state.source_snapshot_at / 1000,
            watermark=state.watermark / 1000 if state.watermark else None,
            late=state.late_rows,
            early=state.early_rows,
        )

    def _refreshed(self) -> Table:
        if self._lake.location(self._name) is None:
            raise Missing(
                f"table {self._name} not found; the stream's queries create it when they start. Fix: start "
                "them; if it had results: docs/operating.md, Table lost by the catalog",
                ErrorCode.TABLE_NOT_FOUND,
            )
        table = self._lake.table(self._name)
        if table is not self._known:
            self._manifests = self._listed(table)
            self._known = table
        return table

    def _listed(self, table: Table) -> dict[str, list[_File]]:
        with asking(f"manifests of table {self._name}"):
            snapshot = table.snapshot_by_name(MAIN)
            manifests = {m.manifest_path: m for m in (snapshot.manifests(table.io) if snapshot else [])}
            new = [manifest for path, manifest in manifests.items() if path not in self._manifests]
            read = dict(
                zip([m.manifest_path for m in new], at_once(new, lambda m: _files(table, m)), strict=True)
            )
        known = self._manifests | read
        return {path: known[path] for path in manifests}

    def _read(self, table: Table, wanted: Iterable[_File], live: set[str]) -> None:
        new = [file for file in wanted if file.path not in self._pieces]
        with asking(f"{len(new)} files of table {self._name}"):
            pieces = at_once(new, lambda file: self._piece(table, file))
        self._pieces = {path: piece for path, piece in self._pieces.items() if path in live}
        self._pieces |= {file.path: piece for file, piece in zip(new, pieces, strict=True)}

    def _piece(self, table: Table, file: _File) -> Window:
        # The file is small: one request.
        with table.io.new_input(file.path).open() as stream:
            rows = pq.read_table(pa.BufferReader(stream.read()), columns=list(self._columns))
        names, *kinds, values = (rows.column(name).to_pylist() for name in self._columns)
        # The same groups are in many windows.
        groups = tuple(
            Group("" if name is None else sys.intern(str(name)), any(kind), value)
            for name, value, *kind in zip(names, values, *kinds, strict=True)
        )
        return Window(file.start, file.start + self._seconds, groups)

    def _windows(self, since: float) -> tuple[Window, ...]:
        """Newest first. A window may be in several files, a group's row in one of them."""
        windows: dict[float, Window] = {}
        for piece in self._pieces.values():
            if piece.start >= since:
                known = windows.get(piece.start)
                whole = replace(known, groups=known.groups + piece.groups) if known else piece
                windows[piece.start] = whole
        return tuple(windows[start] for start in sorted(windows, reverse=True))


def _files(table: Table, manifest: ManifestFile) -> list[_File]:
    if manifest.content == ManifestContent.DELETES:
        raise Refused(f"table {'.'.join(table.name())} has row-level deletes. Fix: compact it")
    return [
        _File(entry.data_file.file_path, entry.data_file.partition[0] / MICROSECONDS)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
