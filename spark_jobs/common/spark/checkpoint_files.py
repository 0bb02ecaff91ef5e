"""Which files of a checkpoint hold what. Pure: names and texts in, names out.

A checkpoint has the plan of a batch in ``offsets/<batch>``, its completion in ``commits/<batch>``, and its
state as version ``batch + 1`` of every store. Spark's two kinds of store name their files alike: a base holds
a whole version (``7.snapshot``, ``7.zip``), a change what came to the one before (``7.delta``,
``7.changelog``); version 0 is empty and has no file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

BASES = ("zip", "snapshot")
CHANGES = ("delta", "changelog")
_VERSIONED = re.compile(rf"(\d+)\.({'|'.join(BASES + CHANGES)})")


class Incomplete(LookupError):
    """A checkpoint does not hold all of what it should."""


def store_folders(metadata: str, where: str) -> list[str]:
    """The folders of an operator's state stores, relative to its own, from its ``_metadata/metadata``.

    Raises Incomplete where the text has another form.
    """
    version, _, document = metadata.partition("\n")
    try:
        stores = json.loads(document)["stateStoreInfo"] if version == "v1" else []
        folders = [
            str(partition) if store["storeName"] == "default" else f"{partition}/{store['storeName']}"
            for store in stores
            for partition in range(store["numPartitions"])
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise Incomplete(f"{where}: not an operator's metadata: {error!r}") from error
    if not folders:
        raise Incomplete(f"{where}: version {version!r} without stores; expected v1 with at least one")
    return folders


def chain(names: Iterable[str], version: int) -> list[str]:
    """The files of a store from which Spark loads a version: the newest base, and every change since.

    Raises Incomplete, naming the version that is missing.
    """
    there: dict[int, dict[str, str]] = {}
    for name in names:
        match = _VERSIONED.fullmatch(name)
        if match:
            there.setdefault(int(match[1]), {})[match[2]] = name
    found: list[str] = []
    for step in range(version, 0, -1):
        kinds = there.get(step, {})
        if not kinds:
            raise Incomplete(f"version {step} is not there")
        base = next((kinds[kind] for kind in BASES if kind in kinds), None)
        found.append(base or next(kinds[kind] for kind in CHANGES if kind in kinds))
        if base is not None:
            break
    return found


def to_fork(names: Sequence[str], stores: Sequence[str], batch: int, begun: int) -> list[str]:
    """What a successor copies of a checkpoint with these files, so that its query goes on behind ``batch``.

    ``begun`` (``batch``, or one more) is the last batch whose plan comes along: where it is not completed, it
    runs again over the same offsets. A batch that was published but not completed does too, and finds that it
    is there. Nothing newer comes along. Raises Incomplete, naming what is missing.
    """
    present = set(names)
    plans = [f"offsets/{number}" for number in (begun - 1, begun) if number >= 0]
    missing = [name for name in plans if name not in present]
    if missing:
        raise Incomplete(f"{missing[-1]} is not there")
    # Of Iceberg's source, where it began is asked for before its first batch only.
    logs = [name for name in names if re.fullmatch(r"sources/\d+/(?!0$|offsets/0$).*", name)]
    if logs:
        raise Incomplete(
            f"{logs[0]}: its source keeps a log of its own, which cannot be forked; read from Kafka"
        )
    completed = [name for name in (f"commits/{batch - 1}", f"commits/{batch}") if name in present]
    runs_again = begun == batch and f"commits/{batch}" not in present
    version = batch if runs_again else batch + 1
    in_folder: dict[str, list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        in_folder.setdefault(str(path.parent), []).append(path.name)
    state = []
    for store in stores:
        try:
            state += [f"{store}/{name}" for name in chain(in_folder.get(store, ()), version)]
        except Incomplete as error:
            raise Incomplete(f"{store}: {error}") from error
    return [
        *plans,
        *completed,
        *(name for name in names if re.fullmatch(r"sources/\d+/0", name)),
        *state,
        *(name for name in names if name.startswith("state/") and _is_timeless(name)),
    ]


def _is_timeless(name: str) -> bool:
    """Whether a file below ``state/`` is of no version: schemas, metadata, RocksDB's own files (each of them
    is written once, under a name of its own). What Spark has not finished writing begins with a dot."""
    last = PurePosixPath(name).name
    return not last.startswith(".") and not _VERSIONED.fullmatch(last)


def may_go(name: str) -> bool:
    """Whether a file may vanish while it is copied: its owner's Spark tidies RocksDB's files up that only
    versions of long ago need."""
    return "/SSTs/" in name or "/logs/" in name
