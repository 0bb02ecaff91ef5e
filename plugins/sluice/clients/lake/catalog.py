"""The lake's tables through PyIceberg: the catalog, and a stream's commits and position. No JVM.

A consumer's snapshots carry ``sluice.*`` in their summary, those of maintenance do not: a stream's position
is in the newest ancestor of ``main`` that has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sluice.clients.errors import Missing, Unreachable
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import Position
from sluice.model.spec.platform import CATALOG, Platform
from sluice.model.verification.ranges import offsets_from_json

MAIN = "main"
# The longest of these predicts the next one.
BATCHES = 20
CONNECT_SECONDS = 5
REQUEST_SECONDS = 60


@dataclass(frozen=True)
class Commit:
    """One snapshot of ``main``. ``kind``: epoch-start, batch, or "" for maintenance, which has no more.

    Times in seconds since 1970; ``began`` is None unless a batch recorded it. ``records``: of the batch,
    quarantined ones included; ``ends``: partition -> the offset up to which everything is published.
    """

    snapshot_id: int
    at: float
    kind: str = ""
    epoch: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    records: int = 0
    began: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long a batch took to read and write."""
        return None if self.began is None else max(self.at - self.began, 0.0)


class Lake:
    """One role's catalog. Opening it connects to PostgreSQL; reading a table reads S3."""

    def __init__(self, properties: dict[str, str]) -> None:
        with asking("the lake's catalog"):
            # Not load_catalog(): it merges in ~/.pyiceberg.yaml.
            self.catalog = SqlCatalog(CATALOG, **properties)
        self._loaded: dict[str, Table] = {}

    @classmethod
    def open(cls, platform: Platform) -> Lake:
        """With timeouts, and connections that are tested before use: a trigger runs for hours."""
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
        """The table's current metadata file, from PostgreSQL only; None if the table does not exist."""
        namespace, table = name.rsplit(".", 1)
        statement = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == CATALOG,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == table,
        )
        try:
            with asking(f"table {name}"), Session(self.catalog.engine) as session:
                return session.scalar(statement)
        except Missing:
            return None

    def table(self, name: str) -> Table:
        """The current table. Reads S3 only if the catalog's pointer has moved. Raises Missing."""
        location = self.location(name)
        if location is None:
            raise _missing(f"table {name}")
        known = self._loaded.get(name)
        if known is None or known.metadata_location != location:
            with asking(f"table {name}"):
                self._loaded[name] = self.catalog.load_table(name)
        return self._loaded[name]

    def position(self, name: str) -> Position | None:
        """The stream's position on ``main``; None before its first snapshot or its table."""
        return None if self.location(name) is None else position(self.table(name))


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The kept snapshots of ``main``, newest first."""
    # Not snapshot_by_id for each: it scans all of them.
    kept = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.snapshot_by_name(MAIN)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = kept.get(parent) if parent is not None else None


def sluice_properties(snapshot: Snapshot) -> dict[str, str]:
    """The ``sluice.*`` entries of the summary, without the prefix; empty for maintenance."""
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return {key.removeprefix("sluice."): value for key, value in summary.items() if key.startswith("sluice.")}


def commits(table: Table, since: int | None = None) -> Iterator[Commit]:
    """The kept snapshots of ``main``, newest first, down to the one after snapshot ``since``."""
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == since:
            return
        properties = sluice_properties(snapshot)
        ranges: dict[str, list[int]] = json.loads(properties.get("offset-ranges", "{}"))
        began = properties.get("started-at")
        yield Commit(
            snapshot_id=snapshot.snapshot_id,
            at=snapshot.timestamp_ms / 1000,
            kind=properties.get("kind", ""),
            epoch=int(properties.get("epoch") or 0),
            ends=offsets_from_json(properties.get("end-offsets", "{}")),
            records=sum(until - start for start, until in ranges.values()),
            began=int(began) / 1000 if began else None,
        )


def recent_batches(table: Table, limit: int) -> list[Commit]:
    """The newest ``limit`` batches of ``main``, newest first."""
    return list(islice((commit for commit in commits(table) if commit.kind == "batch"), limit))


def position(table: Table) -> Position | None:
    """The position that the newest ``sluice.*`` snapshot of ``main`` records; None if there is none."""
    for snapshot in ancestors(table):
        properties = sluice_properties(snapshot)
        if "end-offsets" in properties:
            break
    else:
        return None
    batches = recent_batches(table, BATCHES)
    durations = [batch.seconds for batch in batches if batch.seconds is not None]
    return Position(
        epoch=int(properties["epoch"]),
        at=snapshot.timestamp_ms / 1000,
        acquired_at=next((commit.at for commit in commits(table) if commit.kind == "epoch-start"), None),
        starts=offsets_from_json(properties["start-offsets"]),
        ends=offsets_from_json(properties["end-offsets"]),
        topic_id=properties.get("topic-id") or None,
        longest_batch=max(durations, default=None),
        batch_at=batches[0].at if batches else None,
    )


def columns(table: Table) -> dict[str, str]:
    """Column -> Iceberg type, as the current schema writes it (``long``, ``timestamptz``, ``map<…>``)."""
    return {field.name: str(field.field_type) for field in table.schema().fields}


def _missing(what: str) -> Missing:
    message = f"{what} does not exist; the stream's consumer creates it. Fix: start the consumer"
    return Missing(message, ErrorCode.TABLE_NOT_FOUND)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """PyIceberg's, SQLAlchemy's and Arrow's errors as Missing or Unreachable; no connection string."""
    try:
        yield
    except NoSuchTableError as error:
        raise _missing(what) from error
    except DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        if "iceberg_tables" in reason and ("does not exist" in reason or "no such table" in reason):
            message = f"{what}: the catalog's database has no tables yet"
            raise Missing(message, ErrorCode.TABLE_NOT_FOUND) from error
        message = f"{what}: the catalog's database does not answer: {reason}"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error
    except PoolTimeout as error:
        # Each connection waits for an answer.
        message = f"{what}: the catalog's database does not answer: no connection is free"
        raise Unreachable(message, ErrorCode.CATALOG_UNREACHABLE) from error
    except OSError as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error


def metadata_times(table: Table) -> list[int]:
    """When the table's metadata files were written (ms since 1970), oldest first, as far as logged."""
    return [entry.timestamp_ms for entry in table.metadata.metadata_log] + [table.metadata.last_updated_ms]
