"""A stream's report out of its table, again and again: what is known already is not read again.

What an Iceberg table has written stays as it is, so manifests and data files are remembered by their path. A
refresh reads the table's new metadata, its new manifests, and the windows that changed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestContent, ManifestFile

from sluice.clients.errors import Missing, Refused
from sluice.clients.table import MAIN, Lake, asking, facts_of, lineage
from sluice.model.report import Editor, Progress, Report, Window, pace

if TYPE_CHECKING:
    from pyiceberg.table import Table

COLUMNS = ("window_end", "user", "bot", "edits", "late")
READ_AT_ONCE = 8
MICROSECONDS = 1_000_000

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class _File:
    """A data file, and the start of the one window that is in it (seconds since 1970)."""

    path: str
    start: float


class ReportReader:
    """Reads the report in ``table``. For several threads: one of them reads, the others wait for it.

    ``clock``: seconds since 1970.
    """

    def __init__(self, lake: Lake, table: str, clock: Callable[[], float] = time.time) -> None:
        self._lake, self._name, self._clock = lake, table, clock
        self._lock = threading.Lock()
        self._known: Table | None = None
        self._said = Report(None, None, None, None, 0, 0, None, ())
        self._progress: list[Progress] = []
        self._manifests: dict[str, list[_File]] = {}
        self._pieces: dict[str, Window] = {}

    def read(self, since: float) -> Report:
        """The report as it is now, with the windows that begin at ``since`` (seconds since 1970) or later.

        Raises Missing before there is a table, Unreachable where the catalog or S3 does not answer, Refused
        for a table with rows that were deleted one by one.
        """
        with self._lock:
            table = self._refreshed()
            files = [file for files in self._manifests.values() for file in files]
            self._read(table, [file for file in files if file.start >= since], {file.path for file in files})
            windows = self._windows(since)
            return replace(self._said, windows=windows, pace=pace(self._progress, self._clock()))

    def _refreshed(self) -> Table:
        if self._lake.location(self._name) is None:
            raise Missing(f"table {self._name} does not exist; the stream's report makes it at its start")
        table = self._lake.table(self._name)
        if table is not self._known:
            self._manifests = self._listed(table)
            self._said, self._progress = _said(table)
            self._known = table
        return table

    def _listed(self, table: Table) -> dict[str, list[_File]]:
        """Manifest -> the data files that are in it; new ones are read."""
        with asking(f"manifests of table {self._name}"):
            snapshot = table.snapshot_by_name(MAIN)
            manifests = {m.manifest_path: m for m in (snapshot.manifests(table.io) if snapshot else [])}
            new = [manifest for path, manifest in manifests.items() if path not in self._manifests]
            read = dict(
                zip([m.manifest_path for m in new], _at_once(new, lambda m: _files(table, m)), strict=True)
            )
        known = self._manifests | read
        return {path: known[path] for path in manifests}

    def _read(self, table: Table, wanted: Iterable[_File], live: set[str]) -> None:
        """What ``wanted`` files hold, as far as it is not known; what is no longer ``live`` is forgotten."""
        new = [file for file in wanted if file.path not in self._pieces]
        with asking(f"{len(new)} files of table {self._name}"):
            pieces = _at_once(new, lambda file: _piece(table, file))
        self._pieces = {path: piece for path, piece in self._pieces.items() if path in live}
        self._pieces |= {file.path: piece for file, piece in zip(new, pieces, strict=True)}

    def _windows(self, since: float) -> tuple[Window, ...]:
        """The newest first. A window may lie in several files, and a user's row in one of them."""
        windows: dict[float, Window] = {}
        for piece in self._pieces.values():
            if piece.start >= since:
                there = windows.get(piece.start)
                whole = replace(there, editors=there.editors + piece.editors) if there else piece
                windows[piece.start] = whole
        return tuple(windows[start] for start in sorted(windows, reverse=True))


def _said(table: Table) -> tuple[Report, list[Progress]]:
    """What the snapshots say, without the windows, and the report's steps, the newest first."""
    said = [(snapshot, facts_of(snapshot)) for snapshot in lineage(table)]
    # Before the first count they say that nothing is counted.
    steps = [(snapshot, facts) for snapshot, facts in said if facts.get("source")]
    if not steps:
        return Report(None, None, None, None, 0, 0, None, ()), []
    facts = steps[0][1]
    report = Report(
        at=next((snapshot.timestamp_ms / 1000 for snapshot, f in steps if f["kind"] == "report"), None),
        source_at=_seconds(facts["source_at"]),
        newest=_seconds(facts["newest"]),
        watermark=_seconds(facts["watermark"]),
        records=int(facts["records"]),
        late=int(facts["late"]),
        pace=None,
        windows=(),
    )
    return report, [Progress(int(f["source_at"]) / 1000, int(f["records"])) for _, f in steps]


def _seconds(milliseconds: str) -> float | None:
    return int(milliseconds) / 1000 if milliseconds else None


def _files(table: Table, manifest: ManifestFile) -> list[_File]:
    if manifest.content == ManifestContent.DELETES:
        raise Refused(f"table {'.'.join(table.name())} has rows that were deleted one by one; compact it")
    return [
        _File(entry.data_file.file_path, entry.data_file.partition[0] / MICROSECONDS)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]


def _piece(table: Table, file: _File) -> Window:
    """The file's rows. It is small, and read in one request."""
    with table.io.new_input(file.path).open() as stream:
        rows = pq.read_table(pa.BufferReader(stream.read()), columns=list(COLUMNS))
    ends, users, *others = (rows.column(name).to_pylist() for name in COLUMNS)
    # The same users are in many windows.
    editors = tuple(Editor(*row) for row in zip(map(sys.intern, users), *others, strict=True))
    return Window(file.start, ends[0].timestamp(), editors)


def _at_once(items: list[Item], make: Callable[[Item], Made]) -> list[Made]:
    """``make`` of each, in their order."""
    if len(items) < 2:
        return [make(item) for item in items]
    with ThreadPoolExecutor(READ_AT_ONCE) as pool:
        return list(pool.map(make, items))
