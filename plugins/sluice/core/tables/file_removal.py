"""Which files of a table may be deleted: those that no state of the catalog younger than the horizon names.

The base is the newest record that is as old as the horizon, also if a clock stepped. States after it come
from the recorded one by commits, and a commit adds files that were written shortly before. So they name files
of the base's metadata, and files that are younger than its metadata file, less SLACK; records after the base
cover what a restored catalog brought back. The ages of files are those of S3's clock alone. Neither the names
of metadata files nor their log would do: a refused commit leaves a metadata file that was never current, and
the log is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from sluice.core.error_codes import ErrorCode
from sluice.core.schema_versions.followed import FOLDER as SCHEMAS
from sluice.core.schema_versions.offsets import FOLDER as OFFSETS

# A commit may name files that are younger than this: a write that began MAX_WRITE_AGE ago is not published,
# and the rest is for clocks that differ.
SLACK = timedelta(days=1)
MAX_WRITE_AGE = timedelta(hours=12)
# The fix for files that the metadata names and the bucket does not have.
MISSING_FIX = (
    "restore a state of the catalog that is younger than restore_horizon_days, or the object's previous "
    "version (docs/operating.md, File of a table is gone)"
)
_SCHEME = re.compile(r"^s3[an]?://")


@dataclass(frozen=True)
class StoredFile:
    """An object of a table's folder. ``path``: as of :func:`path_of`; ``size`` in bytes."""

    path: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class MetadataRecord:
    """``tables``: name -> the metadata file that the catalog had at this time. ``run``: of maintenance."""

    at: datetime
    tables: Mapping[str, str]
    run: str


class Timed(Protocol):
    """A record of maintenance, by the time that it says."""

    @property
    def at(self) -> datetime: ...


R = TypeVar("R", bound=Timed)


class ClockChanged(ValueError):
    """A record's time is not the one at which it was written."""


class FutureRecord(ClockChanged):
    """``at``: the record's time."""

    code = ErrorCode.CLOCK_SET_BACK

    def __init__(self, at: datetime, now: datetime) -> None:
        self.at = at
        super().__init__(f"the record of {_text(at)} is from the future, it is {_text(now)}")


def missing_message(path: str) -> str:
    """Say that the catalog's metadata names a file which the bucket does not have."""
    return f"{path}: the catalog's metadata names it, and it is gone. Fix: {MISSING_FIX}"


def path_of(uri: str) -> str:
    """``bucket/key``: Iceberg's clients write one object with s3:// or s3a://."""
    return _SCHEME.sub("", uri)


def needed_records(
    newest_first: Iterable[R], now: datetime, horizon: timedelta, longest_gap: timedelta
) -> list[R]:
    """The records whose files must stay, the base first; empty if they do not cover the horizon.

    The clock may have stepped forward between two records, or since the newest: a gap counts as at most
    ``longest_gap``, and the longest one does not count at all. So a pause of maintenance keeps files longer.
    Raises FutureRecord.
    """
    found: list[R] = []
    gaps: list[timedelta] = []
    for record in newest_first:
        if record.at > now:
            raise FutureRecord(record.at, now)
        gaps.append(min((found[-1].at if found else now) - record.at, longest_gap))
        found.append(record)
        if sum(gaps, timedelta(0)) - max(gaps) >= horizon:
            return found[::-1]
    return []


def _text(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def removable(
    files: Iterable[StoredFile], needed: Container[str], base: datetime, metadata: StoredFile
) -> Iterator[StoredFile]:
    """Those of ``files`` that may be deleted. ``needed``: paths that the current metadata names, or that of
    the records that :func:`needed_records` returned; ``base``, ``metadata``: time and metadata file of their
    first.

    Raises ClockChanged if that file was written after it was recorded, so that the record may be younger.
    """
    # Not ``base``: the clock may have been ahead, and files of the time between are of later states.
    written = metadata.modified
    if written > base + SLACK:
        raise ClockChanged(f"{metadata.path} is of {_text(written)}, and was recorded at {_text(base)}")
    return (file for file in files if file.modified < written - SLACK and file.path not in needed)


def size_problem(size: int, expected: int | None) -> str | None:
    """Why an object of ``size`` bytes is not the one that the metadata names; ``expected``: if it tells."""
    return None if expected in (None, size) else f"has {size} bytes, and the metadata says {expected}"


def missing(
    referenced: Mapping[str, int | None], files: Iterable[StoredFile], folders: Sequence[str]
) -> list[str]:
    """Why a table's state cannot be read as a whole: a line per file in ``folders`` that it names, and that
    ``files`` lacks or has with another size. ``referenced``: path -> size in bytes if the metadata tells."""
    left = {path for path in referenced if path.startswith(tuple(folders))}
    problems = []
    for file in files:
        if file.path in left:
            left.discard(file.path)
            if problem := size_problem(file.size, referenced[file.path]):
                problems.append(f"{file.path} {problem}")
    return [*problems, *(f"{path} is missing" for path in sorted(left))]


def kind_of(path: str) -> str:
    """The kind of a table's file, by its name."""
    name = path.rsplit("/", 1)[-1]
    if {SCHEMAS, OFFSETS}.intersection(path.split("/")[-2:-1]):
        return "schema document"
    if "/metadata/" not in path:
        return "data file"
    if name.endswith(".metadata.json"):
        return "metadata file"
    if name.endswith(".avro"):
        return "manifest list" if name.startswith("snap-") else "manifest"
    return "other metadata"


class Usage:
    """Counts files by kind."""

    def __init__(self) -> None:
        self._number: Counter[str] = Counter()
        self._size: Counter[str] = Counter()

    def counting(self, files: Iterable[StoredFile]) -> Iterator[StoredFile]:
        """The files, each counted when it is asked for."""
        for file in files:
            kind = kind_of(file.path)
            self._number[kind] += 1
            self._size[kind] += file.size
            yield file

    @property
    def number(self) -> int:
        return self._number.total()

    def rows(self) -> list[tuple[str, int, int]]:
        """(kind, number, bytes), sorted by kind."""
        return [(kind, self._number[kind], self._size[kind]) for kind in sorted(self._number)]
