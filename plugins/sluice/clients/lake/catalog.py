"""The lake's tables through PyIceberg: the catalog, and a stream's commits and position. No JVM.

A consumer's snapshots carry ``sluice.*`` in their summary, those of maintenance do not: a stream's position
is in the newest ancestor of ``main`` that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError
from botocore.exceptions import ClientError as S3Error
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from sluice.clients.databases import postgresql as _deadline  # noqa: F401 - registers the plugin of the catalog's URL
from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.s3.errors import DENIED, denied, error_code
from sluice.clients.s3.requests import connect
from sluice.config.platform import CATALOG, Platform
from sluice.core.changes.published import Changes, changes_in
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.offsets.quarantine import (
    MALFORMED,
    NEWEST_MALFORMED,
    NO_REJECTIONS,
    REJECTED,
    Rejections,
    held_in,
    rejected_by,
)
from sluice.core.offsets.ranges import OffsetRanges, offsets_from_json
from sluice.core.offsets.rejection import BATCHES, counters_of, has_rejected
from sluice.core.tables.file_removal import missing_message
from sluice.core.tables.known_tables import CREATED_AT, FoundTable
from sluice.core.tables.position import Position

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAIN = "main"
# Snapshots of a stream that are read for its newest batches: failovers and changes come between.
MAX_READ = 10 * BATCHES


@dataclass(frozen=True)
class Commit:
    """One snapshot of ``main``. ``kind``: epoch-start, batch, or "" for maintenance, which has no more.

    Times in seconds since 1970; ``began`` is None unless a batch recorded it. ``records``: of the batch,
    quarantined ones included; ``ends``: partition -> the offset up to which everything is published;
    ``summary``: all that it says.
    """

    snapshot_id: int
    at: float
    kind: str = ""
    epoch: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    records: int = 0
    began: float | None = None
    summary: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_of_stream(self) -> bool:
        """Whether it says the stream's position."""
        return "sluice.end-offsets" in self.summary

    @property
    def acquired_at(self) -> float | None:
        """When its writer acquired the lease; None for a snapshot of maintenance."""
        found = self.summary.get("sluice.acquired-at")
        return int(found) / 1000 if found else None

    @property
    def seconds(self) -> float | None:
        """How long a batch took to read and write."""
        return None if self.began is None else max(self.at - self.began, 0.0)


@dataclass(frozen=True)
class Head:
    """The newest snapshot of ``main``; ``writer``: who published it, "" if it was no writer of a stream."""

    snapshot_id: int
    sequence_number: int
    writer: str


class Lake:
    """One role's catalog. Opening it connects to PostgreSQL; reading a table reads S3."""

    def __init__(self, properties: dict[str, str], file_io: FileIO | None = None) -> None:
        with asking("the lake's catalog"):
            # Not load_catalog(): it merges in ~/.pyiceberg.yaml.
            self.catalog = SqlCatalog(CATALOG, **properties)
        self._io = file_io or PyArrowFileIO(properties)
        self._loaded: dict[str, Table] = {}
        # Table and quarantine -> the metadata files that it was read from, and the position. The
        # quarantine's is "" if it was not read.
        self._positions: dict[tuple[str, str], tuple[str, str, Position | None]] = {}

    @classmethod
    def open(cls, platform: Platform, client: S3Client | None = None) -> Lake:
        """With timeouts, and connections that are tested before use: a trigger runs for hours. ``client``:
        reads S3, with its own patience."""
        properties = platform.lake.pyiceberg(platform.s3) | {"pool_pre_ping": "true"}
        return cls(properties, BotoFileIO(properties, client or connect(platform.s3)))

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
        if (table := self._current(name)) is None:
            raise _missing(f"table {name}")
        return table

    def _current(self, name: str) -> Table | None:
        """As :meth:`table`; None without such a table. One question to PostgreSQL."""
        location = self.location(name)
        if location is None:
            return None
        known = self._loaded.get(name)
        if known is None or known.metadata_location != location:
            with asking(f"table {name}"):
                metadata = FromInputFile.table_metadata(self._io.new_input(location))
            identifier = tuple(name.split("."))
            # Not load_table(): it asks PostgreSQL again, and Arrow.
            self._loaded[name] = Table(identifier, metadata, location, self._io, self.catalog)
        return self._loaded[name]

    def table_at(self, name: str, location: str) -> Table:
        """The table as it was at a metadata file. Raises Refused if that is deleted."""
        with asking(f"metadata {location} of table {name}"):
            metadata = FromInputFile.table_metadata(self._io.new_input(location))
        return Table(tuple(name.split(".")), metadata, location, self._io, self.catalog)

    def position(self, name: str, quarantine: str = "") -> Position | None:
        """The stream's position on ``main``; None before its first snapshot or its table. Without
        ``quarantine`` it does not say how many records of the newest batch are malformed.

        Costs one question to PostgreSQL while the table does not change, and another one while one of the
        last batches rejected records.
        """
        table, key = self._current(name), (name, quarantine)
        if table is None:
            return None
        known = self._positions.get(key)
        is_known = known is not None and known[0] == table.metadata_location
        if known is None or not is_known or (known[1] and known[1] != self.location(quarantine)):
            newest = _newest(table)
            # After the stream's: what a batch rejected is published there after it.
            rejected = self.table(quarantine) if quarantine and has_rejected(_said(newest)) else None
            read = position_of(newest, rejected)
            known = (table.metadata_location, rejected.metadata_location if rejected else "", read)
            self._positions[key] = known
        return known[2]

    def found(self, name: str) -> FoundTable | None:
        """What :mod:`sluice.core.tables.known_tables` compares; None without such a table. Costs as
        :meth:`position`."""
        table = self._current(name)
        if table is None:
            return None
        created = table.properties.get(CREATED_AT)
        return FoundTable(
            str(table.metadata.table_uuid),
            table.snapshot_by_name(MAIN) is not None,
            table.metadata_location,
            int(created) if created and _has_records(table) else None,
        )

    def table_uuid(self, name: str) -> str:
        """The table's UUID: a restored catalog keeps it, another table has another. Raises Missing."""
        return str(self.table(name).metadata.table_uuid)

    def heads(self, *names: str) -> dict[str, Head]:
        """The newest snapshot of ``main`` of each table; without tables and tables without snapshots."""
        found = {}
        for name in names:
            table = self._current(name)
            snapshot = table.snapshot_by_name(MAIN) if table else None
            if snapshot is not None:
                found[name] = Head(
                    snapshot.snapshot_id,
                    snapshot.sequence_number or 0,
                    sluice_properties(snapshot).get("writer", ""),
                )
        return found

    def changes(self, name: str) -> Changes:
        """The published changes of the stream's table. Raises Missing."""
        return published_changes(self.table(name))

    def rejected_held(self, name: str) -> int:
        """The records rejected by batches that this quarantine holds. Raises Missing."""
        return held_in(_summary(snapshot) for snapshot in ancestors(self.table(name))).count


def published_changes(table: Table) -> Changes:
    """The changes that ``main`` has."""
    summaries = (_summary(snapshot) for snapshot in ancestors(table))
    return changes_in(next((summary for summary in summaries if "sluice.end-offsets" in summary), {}))


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The kept snapshots of ``main``, newest first."""
    # Not snapshot_by_id for each: it scans all of them.
    kept = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.snapshot_by_name(MAIN)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = kept.get(parent) if parent is not None else None


def sequence_since(table: Table, heads: Iterable[Head | None]) -> int:
    """The lowest sequence number of ``heads``: files that were committed after all of them have a higher one.

    0 (every file has) unless each head is part of ``main``'s history: a restored catalog gives numbers out
    again. A head whose snapshot has expired is part of it if its writer published ``main``'s newest batch: a
    writer publishes on top of its own last snapshot only.
    """
    kept = {snapshot.snapshot_id for snapshot in ancestors(table)}
    writer = next((w for s in ancestors(table) if (w := sluice_properties(s).get("writer"))), None)
    found = [
        head.sequence_number if head and (head.snapshot_id in kept or head.writer == writer) else 0
        for head in heads
    ]
    return min(found, default=0)


def sluice_properties(snapshot: Snapshot) -> dict[str, str]:
    """The ``sluice.*`` entries of the summary, without the prefix; empty for maintenance."""
    summary = _summary(snapshot)
    return {key.removeprefix("sluice."): value for key, value in summary.items() if key.startswith("sluice.")}


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def commits(table: Table, since: int | None = None) -> Iterator[Commit]:
    """The kept snapshots of ``main``, newest first, down to the one after snapshot ``since``."""
    for snapshot in ancestors(table):
        if snapshot.snapshot_id == since:
            return
        yield _commit(snapshot)


def _commit(snapshot: Snapshot) -> Commit:
    properties = sluice_properties(snapshot)
    began = properties.get("started-at")
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        at=snapshot.timestamp_ms / 1000,
        kind=properties.get("kind", ""),
        epoch=int(properties.get("epoch") or 0),
        ends=offsets_from_json(properties.get("end-offsets", "{}")),
        records=OffsetRanges.of_batch(properties.get("offset-ranges", "{}")).count,
        began=int(began) / 1000 if began else None,
        summary=_summary(snapshot),
    )


def position(table: Table, quarantine: Table | None = None) -> Position | None:
    """The position that the newest ``sluice.*`` snapshot of ``main`` records; None if there is none.
    ``quarantine``: the stream's, loaded after ``table``."""
    return position_of(_newest(table), quarantine)


def _has_records(table: Table) -> bool:
    """Whether the stream has published a record. A table without a stream's snapshots has some."""
    newest = next((commit for commit in commits(table) if commit.is_of_stream), None)
    if newest is None:
        return True
    starts = offsets_from_json(newest.summary["sluice.start-offsets"])
    return any(end > starts.get(partition, 0) for partition, end in newest.ends.items())


def _newest(table: Table) -> list[Commit]:
    """The newest snapshots of the stream, newest first: down to the BATCHES-th batch, and no more than
    MAX_READ; further back only for a batch at all."""
    found, batches = list[Commit](), 0
    for commit in commits(table):
        if not commit.is_of_stream:
            continue
        found.append(commit)
        batches += commit.kind == "batch"
        if batches and (batches >= BATCHES or len(found) >= MAX_READ):
            break
    return found


def _said(newest: Sequence[Commit]) -> list[tuple[float, dict[str, str]]]:
    return [(commit.at, commit.summary) for commit in newest]


def position_of(newest: Sequence[Commit], quarantine: Table | None = None) -> Position | None:
    """The position after the ``newest`` snapshots of a stream, newest first. ``quarantine``: the stream's,
    read after them."""
    if not newest:
        return None
    head, batches = newest[0], [commit for commit in newest if commit.kind == "batch"]
    malformed, newest_malformed = _malformed(newest, batches, quarantine)
    return Position(
        epoch=head.epoch,
        at=head.at,
        acquired_at=head.acquired_at,
        starts=offsets_from_json(head.summary["sluice.start-offsets"]),
        ends=head.ends,
        topic_id=head.summary.get("sluice.topic-id") or None,
        longest_batch=max(
            (one.seconds for one in batches[:BATCHES] if one.seconds is not None), default=None
        ),
        batch_at=batches[0].at if batches else None,
        rejected=rejected_by(head.summary).count,
        malformed=malformed,
        changes=changes_in(head.summary).count,
        counters=counters_of(_said(newest), malformed),
        newest_malformed=newest_malformed,
    )


def _malformed(
    newest: Sequence[Commit], batches: Sequence[Commit], quarantine: Table | None
) -> tuple[int, str]:
    """Number of the malformed records that the stream's batches rejected; place and reason of the newest.

    A batch's summary has the number before it, a writer's first snapshot one that may be older. So of the
    newest batch the quarantine says it, once it holds what that rejected; until then its own are not counted.
    """
    number = int(batches[0].summary.get(MALFORMED, 0)) if batches else 0
    if quarantine is None:
        return number, ""
    held, text = _held(quarantine)
    # A change's part in the quarantine follows after it.
    is_settled = held in [rejected_by(one.summary) for one in (newest[0], *batches[:1])]
    return (held.malformed if is_settled else number), text


def _held(quarantine: Table) -> tuple[Rejections, str]:
    """What it holds of the stream's batches; place and reason of the newest malformed record, if that is
    among its newest MAX_READ snapshots."""
    held: Rejections | None = None
    for number, snapshot in enumerate(ancestors(quarantine)):
        summary = _summary(snapshot)
        if held is None and REJECTED in summary:
            held = held_in([summary])
        if text := summary.get(NEWEST_MALFORMED):
            return held or NO_REJECTIONS, text
        if held is not None and number >= MAX_READ:
            break
    return held or NO_REJECTIONS, ""


def columns(table: Table) -> dict[str, str]:
    """Column -> Iceberg type, as the current schema writes it (``long``, ``timestamptz``, ``map<…>``)."""
    return {field.name: str(field.field_type) for field in table.schema().fields}


def _missing(what: str) -> Missing:
    message = (
        f"{what} does not exist; the stream's consumer creates it. Fix: start the consumer; if it had rows: "
        "docs/operating.md, Table lost by the catalog"
    )
    return Missing(message, ErrorCode.TABLE_NOT_FOUND)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """PyIceberg's, SQLAlchemy's, Arrow's and boto3's errors as Missing (no such table), Refused (a file of it
    is gone, or access is denied) or Unreachable; no connection string."""
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
    except FileNotFoundError as error:
        message = f"{what}: {missing_message(str(error))}"
        raise Refused(message, ErrorCode.LAKE_FILE_MISSING) from error
    except S3Error as error:
        # Not Missing, also without a bucket: a missing table is one that is not made yet.
        if (code := error_code(error)) in DENIED:
            raise denied(what, code) from error
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error
    except (OSError, BotoCoreError) as error:
        raise Unreachable(f"{what}: {error}", ErrorCode.S3_UNREACHABLE) from error


def metadata_log(table: Table) -> list[tuple[int, str]]:
    """(written at, in ms since 1970; address) of the table's metadata files, oldest first, as far as
    logged."""
    log = [(entry.timestamp_ms, entry.metadata_file) for entry in table.metadata.metadata_log]
    return [*log, (table.metadata.last_updated_ms, table.metadata_location)]
