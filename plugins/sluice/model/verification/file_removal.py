"""Which files of a table may be deleted: those that no state of the catalog younger than the horizon names.

The base is the newest record that is as old as the horizon. States after it come from the recorded one by
commits, and a commit adds files that were written shortly before. So they name files of the base's metadata,
and younger ones; records after the base cover what a restored catalog brought back. Neither the names of
metadata files nor their log would do: a refused commit leaves a metadata file that was never current, and
the log is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

# A commit may name files that are younger than this: a write that began MAX_WRITE_AGE ago is not published,
# and the rest is for clocks that differ.
SLACK = timedelta(days=1)
MAX_WRITE_AGE = timedelta(hours=12)
# Of an error about files that the metadata names and the bucket does not have.
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
    """``location``: the table's metadata file in the catalog at this time."""

    at: datetime
    location: str


def missing_message(path: str) -> str:
    """Of an error about a file that the catalog's metadata names and the bucket does not have."""
    return f"{path}: the catalog's metadata names it, and it is gone. Fix: {MISSING_FIX}"


def path_of(uri: str) -> str:
    """``bucket/key``: Iceberg's clients write one object with s3:// or s3a://."""
    return _SCHEME.sub("", uri)


def needed_records(
    records: Iterable[MetadataRecord], now: datetime, horizon: timedelta
) -> list[MetadataRecord]:
    """The records whose files must stay, the base first; empty if none is as old as the horizon."""
    ordered = sorted(records, key=lambda record: record.at)
    base = next((record for record in reversed(ordered) if record.at <= now - horizon), None)
    return [] if base is None else [record for record in ordered if record.at >= base.at]


def removable(
    files: Iterable[StoredFile], referenced: Collection[str], records: Sequence[MetadataRecord]
) -> list[StoredFile]:
    """The files that may be deleted, sorted. ``referenced``: paths that the current metadata names, or that
    of the ``records`` (of :func:`needed_records`)."""
    if not records:
        return []
    before = records[0].at - SLACK
    found = (file for file in files if file.modified < before and file.path not in referenced)
    return sorted(found, key=lambda file: file.path)


def size_problem(size: int, expected: int | None) -> str | None:
    """Why an object of ``size`` bytes is not the one that the metadata names; ``expected``: if it tells."""
    return None if expected in (None, size) else f"has {size} bytes, and the metadata says {expected}"


def missing(
    referenced: Mapping[str, int | None], files: Mapping[str, StoredFile], folders: Sequence[str]
) -> list[str]:
    """Why current metadata cannot be read as a whole: a line per file in ``folders`` that it names, and that
    is gone or has another size. ``referenced``: path -> size in bytes if the metadata tells."""
    problems = []
    for path, size in referenced.items():
        if not path.startswith(tuple(folders)):
            continue
        file = files.get(path)
        if file is None:
            problems.append(f"{path} is missing")
        elif problem := size_problem(file.size, size):
            problems.append(f"{path} {problem}")
    return problems


def kind_of(path: str) -> str:
    """The kind of a table's file, by its name."""
    name = path.rsplit("/", 1)[-1]
    if "/metadata/" not in path:
        return "data file"
    if name.endswith(".metadata.json"):
        return "metadata file"
    if name.endswith(".avro"):
        return "manifest list" if name.startswith("snap-") else "manifest"
    return "other metadata"


def usage(files: Iterable[StoredFile]) -> list[tuple[str, int, int]]:
    """(kind, number, bytes) of files, sorted by kind."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in files:
        kind = kind_of(file.path)
        number[kind] += 1
        size[kind] += file.size
    return [(kind, number[kind], size[kind]) for kind in sorted(number)]
