"""Checkpoint folders: read back, verify, copy.

Which files of a checkpoint hold what. Pure: names and texts in, names out.

A checkpoint has the plan of a batch in ``offsets/<batch>``, its completion in ``commits/<batch>``, and its
state as version ``batch + 1`` of every store. Spark's two kinds of store name their files alike: a base holds
a whole version (``7.snapshot``, ``7.zip``), a change what came to the one before (``7.delta``,
``7.changelog``); version 0 is empty and has no file.

Where a query's checkpoint lies: one folder per owner, ``<root>/<stream>/w<epoch>``, so that whatever a
zombie still writes, it writes into its own.

A consumer throws it away with every take-over: its offsets are in the table. A query that keeps state
cannot, since its state is nowhere else. So its next owner *forks*: it copies what was published, and nothing
that is newer, into a folder of its own, and goes on from there.

A checkpoint in the bucket needs Spark's AbortableStreamBasedCheckpointFileManager, which writes a file whole
or not at all; but where a write fails, it logs that and goes on as if the file were there. A batch without
its plan is planned anew after a restart, over other offsets and under the same number, and a sink that knows
batches by their number loses records. So nothing is believed to be there until it was seen: the plan of a
batch before it is written, its state before it is published.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from pyspark.sql import SparkSession

from sluice.model.error_codes import ErrorCode
from spark_jobs.common.spark.filesystem import Files

BASES = ("zip", "snapshot")
CHANGES = ("delta", "changelog")
_VERSIONED = re.compile(rf"(\d+)\.({'|'.join(BASES + CHANGES)})")


class CheckpointIncomplete(LookupError):
    """A checkpoint does not hold all of what it should."""

    code = ErrorCode.CHECKPOINT_CORRUPTED


def store_folders(metadata: str, where: str) -> list[str]:
    """The folders of an operator's state stores, relative to its own, from its ``_metadata/metadata``.

    Raises CheckpointIncomplete where the text has another form.
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
        raise CheckpointIncomplete(f"{where}: not an operator's metadata: {error!r}") from error
    if not folders:
        raise CheckpointIncomplete(
            f"{where}: version {version!r} without stores; expected v1 with at least one"
        )
    return folders


def chain(names: Iterable[str], version: int) -> list[str]:
    """The files of a store from which Spark loads a version: the newest base, and every change since.

    Raises CheckpointIncomplete, naming the version that is missing.
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
            raise CheckpointIncomplete(f"version {step} is not there")
        base = next((kinds[kind] for kind in BASES if kind in kinds), None)
        found.append(base or next(kinds[kind] for kind in CHANGES if kind in kinds))
        if base is not None:
            break
    return found


def files_to_copy(names: Sequence[str], stores: Sequence[str], batch: int, begun: int) -> list[str]:
    """What a successor copies of a checkpoint with these files, so that its query goes on behind ``batch``.

    ``begun`` (``batch``, or one more) is the last batch whose plan comes along: where it is not completed, it
    runs again over the same offsets. A batch that was published but not completed does too, and finds that it
    is there. Nothing newer comes along. Raises CheckpointIncomplete, naming what is missing.
    """
    present = set(names)
    plans = [f"offsets/{number}" for number in (begun - 1, begun) if number >= 0]
    missing = [name for name in plans if name not in present]
    if missing:
        raise CheckpointIncomplete(f"{missing[-1]} is not there")
    # Of Iceberg's source, where it began is asked for before its first batch only.
    logs = [name for name in names if re.fullmatch(r"sources/\d+/(?!0$|offsets/0$).*", name)]
    if logs:
        raise CheckpointIncomplete(
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
        except CheckpointIncomplete as error:
            raise CheckpointIncomplete(f"{store}: {error}") from error
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


log = logging.getLogger(__name__)

# Says that a folder is a whole copy, and of what. Spark leaves it alone.
SUCCESS_MARKER = "sluice-copy.json"
FIX = "see the file system's error above in the log, and start the stream again"


class CheckpointCorrupted(LookupError):
    """A checkpoint lacks what Spark took for written; the batch is not published."""

    code = ErrorCode.CHECKPOINT_CORRUPTED


class Checkpoint:
    """One owner's folder. ``uri`` is what Spark is given as ``checkpointLocation``."""

    def __init__(self, files: Files, uri: str) -> None:
        self.uri = uri
        self._files = files
        self._kinds = [*CHANGES, *BASES]
        self._stores: list[str] = []

    def plan(self, batch: int) -> list[str]:
        """The lines of a batch's plan, read back. Raises CheckpointCorrupted where it was never written."""
        try:
            return self._files.read(f"{self.uri}/offsets/{batch}").splitlines()
        except FileNotFoundError as error:
            raise CheckpointCorrupted(
                f"{error}; batch {batch} was planned and its plan is lost, so it is not written: {FIX}"
            ) from error

    def verify(self, batch: int) -> None:
        """See that a batch's state was written: a file of its version in every store of the query.

        One look per store, since the version before was seen here too. Raises CheckpointCorrupted, naming the
        first that is not there.
        """
        self._stores = self._stores or self.stores()
        for store in self._stores:
            if not self._has(store, batch + 1):
                raise CheckpointCorrupted(
                    f"{self.uri}/{store}: version {batch + 1} is not there, so batch {batch} is not "
                    f"published: {FIX}"
                )

    def _has(self, store: str, version: int) -> bool:
        for kind in self._kinds:
            if self._files.exists(f"{self.uri}/{store}/{version}.{kind}"):
                # Most likely the others are of this kind too.
                self._kinds.remove(kind)
                self._kinds.insert(0, kind)
                return True
        return False

    def stores(self) -> list[str]:
        """The folders of the query's state stores, relative to ``uri``, from its operators' metadata.

        Raises CheckpointCorrupted where those are not there or have another form.
        """
        numbers = [int(name) for name in self._files.names(f"{self.uri}/state") if name.isdecimal()]
        found = []
        for operator in range(max(numbers, default=0) + 1):
            where = f"{self.uri}/state/{operator}/_metadata/metadata"
            try:
                folders = store_folders(self._files.read(where), where)
            except (FileNotFoundError, CheckpointIncomplete) as error:
                raise CheckpointCorrupted(
                    f"{error}; without it nobody knows which state the query keeps: {FIX}"
                ) from error
            found += [f"state/{operator}/{folder}" for folder in folders]
        return found


class Checkpoints:
    """The folders of all owners of one stream. ``root``: a folder on a volume, or an ``s3a://`` address."""

    def __init__(self, spark: SparkSession, root: str, stream: str) -> None:
        self.stream = stream
        self._files = Files(spark)
        self._base = f"{root.rstrip('/') if '://' in root else Path(root).as_uri()}/{stream}"

    def of(self, epoch: int) -> Checkpoint:
        return Checkpoint(self._files, f"{self._base}/w{epoch}")

    def create(self, epoch: int) -> Checkpoint:
        """An empty one, for a query without state, or without a past. Those of earlier owners are removed."""
        self._make_room(epoch)
        self._cleanup(epoch)
        return self.of(epoch)

    def restore(
        self,
        epoch: int,
        owners: Sequence[int],
        batch: int,
        begun: int | None = None,
        *,
        stateful: bool = True,
    ) -> Checkpoint:
        """A copy of what was published, up to ``batch``, in the folder of ``epoch``.

        ``owners``: whose folders may hold it, the latest first, down to the one who published it. ``begun``:
        the batch after it, where one of several sinks has that already and another has not: its plan comes
        along. ``stateful``: whether the query keeps state. Raises LookupError when no folder holds all of it.
        The folder that was copied from is kept until the next time, the others of earlier owners are removed.
        """
        self._make_room(epoch)
        reasons = []
        for owner in owners:
            try:
                last = batch if begun is None else begun
                self._copy(owner, epoch, batch, last, owner == owners[-1], stateful)
            except (CheckpointIncomplete, CheckpointCorrupted) as reason:
                log.warning("%s: the checkpoint of owner %d is of no use: %s", self.stream, owner, reason)
                reasons.append(f"w{owner}: {reason}")
                continue
            self._cleanup(epoch, keep=owner)
            log.info("%s: forked the checkpoint of owner %d behind batch %d", self.stream, owner, batch)
            return self.of(epoch)
        raise LookupError(
            f"{self.stream}: no checkpoint below {self._base} holds the published batch {batch} "
            f"({'; '.join(reasons) or 'no owner is known'}); restore it, or begin anew with a new name and "
            "table"
        )

    def _copy(self, owner: int, epoch: int, batch: int, begun: int, published: bool, stateful: bool) -> None:
        source, target = self.of(owner), self.of(epoch)
        names = self._files.walk(source.uri)
        if not published and SUCCESS_MARKER not in names:
            raise CheckpointIncomplete("its owner ended before it was whole")
        wanted = files_to_copy(names, source.stores() if stateful and batch >= 0 else (), batch, begun)
        gone = self._files.copy(source.uri, target.uri, wanted)
        lost = [name for name in gone if not may_go(name)]
        if lost:
            raise CheckpointIncomplete(f"{lost[0]} was removed while it was copied")
        # A query of its own: two of one id would not run beside each other.
        self._files.write(f"{target.uri}/metadata", json.dumps({"id": str(uuid.uuid4())}))
        self._files.write(
            f"{target.uri}/{SUCCESS_MARKER}", json.dumps({"from": owner, "batch": batch, "begun": begun})
        )

    def _make_room(self, epoch: int) -> None:
        """Remove what lies where this owner's will be: it is of a lake that is no more, and Spark would go on
        from it."""
        if self._files.exists(self.of(epoch).uri):
            self._files.remove(self.of(epoch).uri)

    def _cleanup(self, epoch: int, keep: int | None = None) -> None:
        """Remove the folders of earlier owners. A zombie may still write into its own, and in a bucket the
        right to delete may be missing, so of those as much goes as goes. Later owners' are left alone: this
        one may have been suspended just here."""
        for name in self._files.names(self._base):
            match = re.fullmatch(r"w(\d+)", name)
            if match and int(match[1]) < epoch and int(match[1]) != keep:
                try:
                    self._files.remove(f"{self._base}/{name}")
                except OSError as error:
                    log.info("left behind: %s", error)
