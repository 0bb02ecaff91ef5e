"""Files of a table as DuckDB's file system: their bytes come through the table's own FileIO.

DuckDB's own client of S3 is an extension, which is downloaded at run time, and would need the catalog's keys
a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from fsspec import AbstractFileSystem
from pyiceberg.io import FileIO

from sluice.clients.s3.requests import at_once

PROTOCOL = "table"
_NEVER = datetime.fromtimestamp(0, UTC)


class OpenedFiles(AbstractFileSystem):
    """Some files of a table at a time, each opened once. ``failures``: why reads of them failed, of which
    DuckDB keeps only the text."""

    protocol = PROTOCOL
    # Not fsspec's: an instance for each connection.
    cachable = False

    def __init__(self, io: FileIO) -> None:
        super().__init__()
        self._io = io
        self._files: dict[str, _File] = {}
        self.failures: list[Exception] = []

    def opened(self, locations: Iterable[str]) -> list[str]:
        """Open these instead of those before, several at once; their names for DuckDB. Raises as the FileIO
        does."""
        files = at_once(locations, lambda one: _File(self._io, one, self.failures))
        # Not their locations, which may have characters that mean something in a pattern.
        self._files = {f"{number}.parquet": file for number, file in enumerate(files)}
        return [f"{PROTOCOL}://{name}" for name in self._files]

    def location(self, name: str) -> str:
        """The location of a name in DuckDB's answers."""
        return self._of(name).location

    def _of(self, path: str) -> _File:
        return self._files[self._strip_protocol(path)]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> _Handle:
        return _Handle(self._of(path))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": self._of(path).size, "type": "file"}

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path]

    def modified(self, path: str) -> datetime:
        """Never: a file of a table does not change."""
        return _NEVER


class _File:
    """One opened file, for all threads."""

    def __init__(self, io: FileIO, location: str, failures: list[Exception]) -> None:
        self.location, self._failures, self._lock = location, failures, Lock()
        self._stream = io.new_input(location).open()
        self.size = self._stream.seek(0, 2)

    def read(self, begin: int, size: int) -> bytes:
        try:
            with self._lock:
                self._stream.seek(begin)
                return self._stream.read(size)
        except Exception as error:
            self._failures.append(error)
            raise


class _Handle:
    """A place in a file, as DuckDB reads."""

    def __init__(self, file: _File) -> None:
        self._file, self._at = file, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = {0: 0, 1: self._at, 2: self._file.size}[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(self._at, self._file.size - self._at if size < 0 else size)
        self._at += len(found)
        return found

    def close(self) -> None:
        """Nothing: the file stays open for others."""
