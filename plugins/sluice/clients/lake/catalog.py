"""The lake's tables through PyIceberg: the catalog, and what snapshots say of a stream. No JVM.

Readers see ``main`` only. A consumer's snapshots carry ``sluice.*`` in their summary; maintenance leaves
snapshots without, so what a stream has reached is in the newest ancestor of ``main`` that has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sluice.clients.errors import Missing, Unreachable
from sluice.model.health.sample import Position
from sluice.model.spec.platform import CATALOG, Platform
from sluice.model.verification.ranges import OffsetRanges

MAIN = "main"
# Of how many batches the longest says what to expect of the next.
BATCHES = 20
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60


@dataclass(frozen=True)
class Published:
    """What the newest ``sluice.*`` snapshot of ``main`` says. ``at`` is its time, seconds since 1970;
    ``topic_id`` is None where its writer gave none."""

    snapshot_id: int
    at: float
    kind: str
    epoch: int
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = None

    @property
    def ranges(self) -> OffsetRanges:
        """Everything that is published, or with its coordinates in the quarantine."""
        return OffsetRanges.from_ends(self.starts, self.ends)


@dataclass(frozen=True)
class Commit:
    """One snapshot of ``main`` with its cost: ``kind`` is init, epoch-start, batch, or "" for maintenance."""

    snapshot_id: int
    at_ms: int
    kind: str
    epoch: int | None


@dataclass(frozen=True)
class BatchInfo:
    """One published batch: when it ``began`` (None before snapshots said so) and when it was written, in
    seconds since 1970; its records (those in the quarantine with them); its owner's epoch."""

    at: float
    began: float | None
    records: int
    epoch: int

    @property
    def seconds(self) -> float | None:
        """How long it took to read and write; None where its beginning is unknown."""
        return None if self.began is None else max(self.at - self.began, 0.0)


class Lake:
    """The catalog as one role sees it. Opening connects to PostgreSQL; S3 is read when a table is."""

    def __init__(self, properties: dict[str, str]) -> None:
        with asking("the lake's catalog"):
            # Not load_catalog(): it would mix in whatever ~/.pyiceberg.yaml says of a catalog of this name.
            self.catalog = SqlCatalog(CATALOG, **properties)
        self._loaded: dict[str, Table] = {}

    @classmethod
    def open(cls, platform: Platform) -> Lake:
        """With deadlines, and with connections that are tried before use: a trigger lives for hours."""
        properties = platform.lake.pyiceberg(platform.s3)
        properties["uri"] += f"?connect_timeout={CONNECT_SECONDS}"
        return cls(
            properties
            | {
                "pool_pre_ping": "true",
                "s3.connect-timeout": str(CONNECT_SECONDS),
                "s3.request-timeout": str(REQUEST_SECONDS),
            }
        )

    def close(self) -> None:
        self.catalog.engine.dispose()

    def location(self, name: str) -> str | None:
        """The table's current metadata file, asked of PostgreSQL alone; None where there is no table."""
        namespace, table = name.rsplit(".", 1)
        question = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == CATALOG,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == table,
        )
        try:
            with asking(f"table {name}"), Session(self.catalog.engine) as session:
                return session.scalar(question)
        except Missing:
            return None

    def table(self, name: str) -> Table:
        """The table as it is now. Reads S3 only if the catalog points elsewhere than the last time.

        Raises Missing where there is none: the stream's consumer makes it at its start.
        """
        location = self.location(name)
        if location is None:
            raise Missing(f"table {name} does not exist; the stream's consumer makes it at its start")
        known = self._loaded.get(name)
        if known is None or known.metadata_location != location:
            with asking(f"table {name}"):
                self._loaded[name] = self.catalog.load_table(name)
        return self._loaded[name]

    def published(self, name: str) -> Published | None:
        """What the stream has reached on ``main``, or None before its first snapshot or its table."""
        if self.location(name) is None:
            return None
        return published(self.table(name))

    def position(self, name: str) -> Position | None:
        """The same with what supervision needs; None before the stream's first snapshot or its table."""
        if self.location(name) is None:
            return None
        return position(self.table(name))


def ancestors(table: Table, ref: str = MAIN) -> Iterator[Snapshot]:
    """The snapshots of a branch, newest first, as far as they are still kept."""
    # Not snapshot_by_id for each: it looks through all of them.
    kept = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.snapshot_by_name(ref)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = kept.get(parent) if parent is not None else None


def sluice_properties(snapshot: Snapshot) -> dict[str, str]:
    """The ``sluice.*`` entries of the summary, without the prefix; empty for maintenance."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return {key.removeprefix("sluice."): value for key, value in summary.items() if key.startswith("sluice.")}


def published(table: Table) -> Published | None:
    """The newest ``sluice.*`` snapshot among the ancestors of ``main``; None where there is none."""
    for snapshot in ancestors(table):
        facts = sluice_properties(snapshot)
        if "end-offsets" in facts:
            return Published(
                snapshot_id=snapshot.snapshot_id,
                at=snapshot.timestamp_ms / 1000,
                kind=facts["kind"],
                epoch=int(facts["epoch"]),
                starts=_offsets(facts["start-offsets"]),
                ends=_offsets(facts["end-offsets"]),
                topic_id=facts.get("topic-id") or None,
            )
    return None


def position(table: Table) -> Position | None:
    """What ``main`` says of the stream, from the same snapshot as ``published``; None where there is none."""
    state = published(table)
    if state is None:
        return None
    batches = recent_batches(table, BATCHES)
    durations = [batch.seconds for batch in batches if batch.seconds is not None]
    return Position(
        epoch=state.epoch,
        at=state.at,
        acquired_at=acquired_at(table),
        starts=state.starts,
        ends=state.ends,
        topic_id=state.topic_id,
        longest_batch=max(durations, default=None),
        batch_at=batches[0].at if batches else None,
    )


def recent_batches(table: Table, limit: int) -> list[BatchInfo]:
    """The newest ``limit`` batches of ``main`` that are kept, newest first."""
    batches = (s for s in ancestors(table) if sluice_properties(s).get("kind") == "batch")
    return [_batch(snapshot) for snapshot in islice(batches, limit)]


def _batch(snapshot: Snapshot) -> BatchInfo:
    facts = sluice_properties(snapshot)
    began = facts.get("started-at")
    ranges: dict[str, list[int]] = json.loads(facts["offset-ranges"])
    return BatchInfo(
        at=snapshot.timestamp_ms / 1000,
        began=int(began) / 1000 if began else None,
        records=sum(until - start for start, until in ranges.values()),
        epoch=int(facts["epoch"]),
    )


def acquired_at(table: Table) -> float | None:
    """When ``main`` last changed hands, in seconds since 1970; None where no take-over is kept."""
    for snapshot in ancestors(table):
        if sluice_properties(snapshot).get("kind") == "epoch-start":
            return snapshot.timestamp_ms / 1000
    return None


def commits_since(table: Table, snapshot_id: int | None) -> list[Commit]:
    """The snapshots of ``main`` that came after ``snapshot_id`` (None: all that are kept), oldest first."""
    commits = []
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == snapshot_id:
            break
        facts = sluice_properties(snapshot)
        epoch = facts.get("epoch")
        commits.append(
            Commit(
                snapshot.snapshot_id,
                snapshot.timestamp_ms,
                facts.get("kind", ""),
                int(epoch) if epoch else None,
            )
        )
    return commits[::-1]


def columns(table: Table) -> dict[str, str]:
    """Column -> Iceberg type, as the current schema writes it (``long``, ``timestamptz``, ``map<…>``)."""
    return {field.name: str(field.field_type) for field in table.schema().fields}


def heads(table: Table) -> dict[str, int]:
    """Branch or tag -> the id of its snapshot."""
    return {name: ref.snapshot_id for name, ref in table.refs().items()}


def _offsets(text: str) -> dict[int, int]:
    found: dict[str, Any] = json.loads(text)
    return {int(partition): int(offset) for partition, offset in found.items()}


@contextmanager
def asking(what: str) -> Iterator[None]:
    """PyIceberg's, SQLAlchemy's and Arrow's errors as Missing or Unreachable; no connection string."""
    try:
        yield
    except NoSuchTableError as error:
        raise Missing(f"{what} does not exist; the stream's consumer makes it at its start") from error
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        if "iceberg_tables" in reason and ("does not exist" in reason or "no such table" in reason):
            raise Missing(f"{what}: the catalog's database holds no tables yet") from error
        raise Unreachable(f"{what}: the catalog's database does not answer: {reason}") from error
    except PoolTimeout as error:
        # Each connection waits for an answer that does not come.
        raise Unreachable(f"{what}: the catalog's database does not answer: no connection is free") from error
    except OSError as error:
        raise Unreachable(f"{what}: {error}") from error


def metadata_times(table: Table) -> list[int]:
    """When the table's metadata files were written (ms since 1970), oldest first, as far as logged."""
    return [entry.timestamp_ms for entry in table.metadata.metadata_log] + [table.metadata.last_updated_ms]
