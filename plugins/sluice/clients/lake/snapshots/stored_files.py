"""Which content a stored file has, without reading it: what was read of one counts only for that content."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFile

from sluice.clients.lake.file_io import ObjectInput
from sluice.clients.s3.requests import at_once


def states(io: FileIO, locations: Iterable[str]) -> list[str | None]:
    """A text of each file that is another one if the file was overwritten: of an object its version, ETag,
    size and time. None if it is gone, or its store does not say. One HEAD each, several at once.

    Raises as the FileIO does.
    """
    return at_once(locations, lambda one: _state(io, one))


def _state(io: FileIO, location: str) -> str | None:
    file = io.new_input(location)
    if isinstance(file, ObjectInput):
        return file.state()
    if isinstance(file, PyArrowFile):
        found = file._filesystem.get_file_info(file._path)
        return f"{found.size} {found.mtime_ns}" if found.is_file and found.mtime_ns is not None else None
    return None
