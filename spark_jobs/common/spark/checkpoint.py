"""Checkpoint folders, one per writer (``<root>/<stream>/w<epoch>_<random>``): read back, verify, copy.

A checkpoint has the plan of a batch in ``offsets/<batch>``, its completion in ``commits/<batch>``, and its
state as version ``batch + 1`` of every store. Both kinds of store of Spark name their files alike: a base
(``7.snapshot``, ``7.zip``) holds a whole version, a change (``7.delta``, ``7.changelog``) the difference to
the version before; version 0 is empty and has no file.

Spark's AbortableStreamBasedCheckpointFileManager, for checkpoints in the bucket, writes a file completely or
not at all, but only logs a failed write and continues. A batch without its plan is planned again after a
restart, over other offsets under the same number, and a sink that knows batches by number loses records. So
the plan of a batch is read back before it is written, and its state is verified before it is published.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from pyspark.sql import SparkSession

from sluice.core.error_codes import ErrorCode
from sluice.core.tables.writers import epoch_of
from spark_jobs.common.spark.filesystem import Files

log = logging.getLogger(__name__)

BASES = ("zip", "snapshot")
CHANGES = ("delta", "changelog")
_VERSIONED = re.compile(rf"(\d+)\.({'|'.join(BASES + CHANGES)})")
# In a complete copy, with its origin. Spark ignores it.
SUCCESS_MARKER = "sluice-copy.json"
FIX = "Fix: read the file system's error above in the log and start the stream again"


class CheckpointCorrupted(LookupError):
    """Files of a checkpoint are missing; nothing that needs them is published."""

    code = ErrorCode.CHECKPOINT_CORRUPTED


def store_folders(metadata: str, where: str) -> list[str]:
    """Return the folders of an operator's state stores, relative to its own, from its ``_metadata/metadata``.

    Raises CheckpointCorrupted if the text has another form.
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
        raise CheckpointCorrupted(f"{where}: not an operator's metadata: {error!r}") from error
    if not folders:
        raise CheckpointCorrupted(
            f"{where}: version {version!r} without stores; expected v1 with at least one"
        )
    return folders


def chain(names: Iterable[str], version: int) -> list[str]:
    """Return the files from which Spark loads a version of a store: the newest base and all later changes.

    Raises CheckpointCorrupted, naming the missing version.
    """
    existing: dict[int, dict[str, str]] = {}
    for name in names:
        match = _VERSIONED.fullmatch(name)
        if match:
            existing.setdefault(int(match[1]), {})[match[2]] = name
    files: list[str] = []
    for step in range(version, 0, -1):
        kinds = existing.get(step, {})
        if not kinds:
            raise CheckpointCorrupted(f"version {step} is missing")
        base = next((kinds[kind] for kind in BASES if kind in kinds), None)
        files.append(base or next(kinds[kind] for kind in CHANGES if kind in kinds))
        if base is not None:
            break
    return files


def files_to_copy(names: Sequence[str], stores: Sequence[str], batch: int, started: int) -> list[str]:
    """Return the files that a query needs to continue after the published ``batch``, and nothing newer.

    ``started`` (``batch``, or one more): the last batch whose plan is copied; if it is not completed, it runs
    again over the same offsets. Raises CheckpointCorrupted, naming the missing file.
    """
    present = set(names)
    plans = [f"offsets/{number}" for number in (started - 1, started) if number >= 0]
    missing = [name for name in plans if name not in present]
    if missing:
        raise CheckpointCorrupted(f"{missing[-1]} is missing")
    # Iceberg's source keeps its start position alone, offsets/0, which its first batch reads.
    logs = [name for name in names if re.fullmatch(r"sources/\d+/(?!0$|offsets/0$).*", name)]
    if logs:
        raise CheckpointCorrupted(
            f"{logs[0]}: its source keeps a log, which cannot be copied. Fix: read from Kafka"
        )
    completed = [name for name in (f"commits/{batch - 1}", f"commits/{batch}") if name in present]
    runs_again = started == batch and f"commits/{batch}" not in present
    version = batch if runs_again else batch + 1
    in_folder: dict[str, list[str]] = {}
    for name in names:
        path = PurePosixPath(name)
        in_folder.setdefault(str(path.parent), []).append(path.name)
    state = []
    for store in stores:
        try:
            state += [f"{store}/{name}" for name in chain(in_folder.get(store, ()), version)]
        except CheckpointCorrupted as error:
            raise CheckpointCorrupted(f"{store}: {error}") from error
    return [
        *plans,
        *completed,
        *(name for name in names if re.fullmatch(r"sources/\d+/(offsets/)?0", name)),
        *state,
        *(name for name in names if name.startswith("state/") and _has_no_version(name)),
    ]


def _has_no_version(name: str) -> bool:
    # Schemas, metadata, RocksDB's own files (written once each). Unfinished files begin with a dot.
    last = PurePosixPath(name).name
    return not last.startswith(".") and not _VERSIONED.fullmatch(last)


def may_vanish(name: str) -> bool:
    """Whether the earlier writer's Spark may delete a file during the copy: RocksDB's, for old versions."""
    return "/SSTs/" in name or "/logs/" in name


class Checkpoint:
    """The folder of one writer; ``uri`` is its ``checkpointLocation``."""

    def __init__(self, files: Files, uri: str) -> None:
        self.uri = uri
        self._files = files
        self._kinds = [*CHANGES, *BASES]
        self._stores: list[str] = []

    def plan(self, batch: int) -> list[str]:
        """Read the lines of a batch's plan. Raises CheckpointCorrupted if Spark did not write it."""
        try:
            return self._files.read(f"{self.uri}/offsets/{batch}").splitlines()
        except FileNotFoundError as error:
            raise CheckpointCorrupted(
                f"{error}; the plan of batch {batch} is lost, so the batch is not written. {FIX}"
            ) from error

    def write_first_plan(self, start: str, plan: Sequence[str]) -> None:
        """Plan batch 0 of a new checkpoint before Spark does, which then runs it as after a restart.

        ``start``: the start position of Iceberg's source. Raises OSError.
        """
        self._files.write(f"{self.uri}/sources/0/offsets/0", start)
        self._files.write(f"{self.uri}/offsets/0", "\n".join(plan))

    def verify(self, batch: int) -> None:
        """Verify that every store has a file of the batch's version; earlier ones were verified before.

        Raises CheckpointCorrupted, naming the first missing file.
        """
        self._stores = self._stores or self.stores()
        for store in self._stores:
            if not self._has(store, batch + 1):
                raise CheckpointCorrupted(
                    f"{self.uri}/{store}: version {batch + 1} is missing, so batch {batch} is not published. "
                    f"{FIX}"
                )

    def _has(self, store: str, version: int) -> bool:
        for kind in self._kinds:
            if self._files.exists(f"{self.uri}/{store}/{version}.{kind}"):
                # Most likely the other stores' files are of this kind too.
                self._kinds.remove(kind)
                self._kinds.insert(0, kind)
                return True
        return False

    def stores(self) -> list[str]:
        """Return the folders of the query's state stores, relative to ``uri``, from its operators' metadata.

        Raises CheckpointCorrupted if metadata are missing or have another form.
        """
        numbers = [int(name) for name in self._files.names(f"{self.uri}/state") if name.isdecimal()]
        stores = []
        for operator in range(max(numbers, default=0) + 1):
            where = f"{self.uri}/state/{operator}/_metadata/metadata"
            try:
                folders = store_folders(self._files.read(where), where)
            except (FileNotFoundError, CheckpointCorrupted) as error:
                raise CheckpointCorrupted(f"{error}; the query's state stores are unknown. {FIX}") from error
            stores += [f"state/{operator}/{folder}" for folder in folders]
        return stores


class Checkpoints:
    """The folders of all writers of one stream. ``root``: a folder, or an ``s3a://`` address."""

    def __init__(self, spark: SparkSession, root: str, stream: str) -> None:
        self.stream = stream
        self._files = Files(spark)
        self._base = f"{root.rstrip('/') if '://' in root else Path(root).as_uri()}/{stream}"

    def of_writer(self, writer: str) -> Checkpoint:
        return Checkpoint(self._files, f"{self._base}/{writer}")

    def create(self, writer: str) -> Checkpoint:
        """Create an empty checkpoint and remove those of earlier epochs."""
        # Spark would continue from a folder of the same name.
        self._files.remove(self.of_writer(writer).uri)
        self._cleanup(writer)
        return self.of_writer(writer)

    def restore(
        self, writer: str, writers: Sequence[str], batch: int, started: int, *, stateful: bool
    ) -> Checkpoint:
        """Copy the state published with ``batch`` into the folder of ``writer``.

        ``writers``: whose folders may hold it, the latest first, down to the one that published it.
        ``started``: ``batch``, or the next one if one of several sinks has it already; its plan is copied
        too. Keeps the folder that was copied until the next time and removes those of other earlier epochs.
        Raises CheckpointCorrupted if no folder holds all files.
        """
        self._files.remove(self.of_writer(writer).uri)
        reasons = []
        for earlier in writers:
            try:
                self._copy(earlier, writer, batch, started, earlier == writers[-1], stateful)
            except CheckpointCorrupted as error:
                log.warning("checkpoint not usable stream=%s writer=%s: %s", self.stream, earlier, error)
                reasons.append(f"{earlier}: {error}")
                continue
            self._cleanup(writer, keep=earlier)
            log.info("checkpoint copied stream=%s writer=%s batch=%d", self.stream, earlier, batch)
            return self.of_writer(writer)
        raise CheckpointCorrupted(
            f"{self.stream}: no checkpoint below {self._base} holds the published batch {batch} "
            f"({'; '.join(reasons) or 'no writer has one'}). Fix: restore it, or use a new name and table"
        )

    def _copy(
        self, earlier: str, writer: str, batch: int, last: int, published: bool, stateful: bool
    ) -> None:
        source, target = self.of_writer(earlier), self.of_writer(writer)
        names = self._files.walk(source.uri)
        if not published and SUCCESS_MARKER not in names:
            raise CheckpointCorrupted("the copy is incomplete: its writer ended before")
        files = files_to_copy(names, source.stores() if stateful and batch >= 0 else (), batch, last)
        lost = [name for name in self._files.copy(source.uri, target.uri, files) if not may_vanish(name)]
        if lost:
            raise CheckpointCorrupted(f"{lost[0]} was removed during the copy")
        # Two queries with one id cannot run at once.
        self._files.write(f"{target.uri}/metadata", json.dumps({"id": str(uuid.uuid4())}))
        origin = {"from": earlier, "batch": batch, "started": last}
        self._files.write(f"{target.uri}/{SUCCESS_MARKER}", json.dumps(origin))

    def _cleanup(self, writer: str, keep: str | None = None) -> None:
        """Remove the folders of earlier epochs as far as possible: a zombie may still write into its own, and
        the right to delete may be missing. Later epochs may exist if this process was suspended."""
        for name in self._files.names(self._base):
            if 0 < epoch_of(name) < epoch_of(writer) and name != keep:
                try:
                    self._files.remove(f"{self._base}/{name}")
                except OSError as error:
                    log.info("checkpoint not removed: %s", error)
