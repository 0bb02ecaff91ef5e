"""The lake's tables through PyIceberg: the catalog, and a stream's commits and position. No JVM.

A consumer's snapshots carry ``sluice.*`` in their summary, those of maintenance do not: a stream's position
is in the newest ancestor of ``main`` that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile

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

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.s3 import DENIED, denied, error_code
from sluice.io import postgresql as _deadline  # noqa: F401 - registers the plugin of the catalog's URL
from sluice.io.s3 import connect
from sluice.model.error_codes import ErrorCode
from sluice.model.health.sample import Position
from sluice.model.spec.platform import CATALOG, Platform
from sluice.model.verification.changes import CHANGE, Changes, changes_in
from sluice.model.verification.file_removal import missing_message
from sluice.model.verification.known_tables import CREATED_AT, FoundTable
from sluice.model.verification.quarantine import MALFORMED, NEWEST_MALFORMED, held_in, rejected_by
from sluice.model.verification.ranges import OffsetRanges, offsets_from_json
from sluice.model.verification.rejection import counters_of, has_rejected

MAIN = "main"
# The longest of these predicts the next one.
BATCHES = 20


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
        # Table and quarantine -> the metadata files that it was read from, and the position. Of the
        # quarantine "" if its was not read.
        self._positions: dict[tuple[str, str], tuple[str, str, Position | None]] = {}

    @classmethod
    def open(cls, platform: Platform) -> Lake:
        """With timeouts, and connections that are tested before use: a trigger runs for hours."""
        properties = platform.lake.pyiceberg(platform.s3) | {"pool_pre_ping": "true"}
        return cls(properties, BotoFileIO(properties, connect(platform.s3)))

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
        if self.location(name) is None:
            return None
        table, key = self.table(name), (name, quarantine)
        known = self._positions.get(key)
        is_known = known is not None and known[0] == table.metadata_location
        if known is None or not is_known or (known[1] and known[1] != self.location(quarantine)):
            # After the stream's: what a batch rejected is published there after it.
            rejected = self.table(quarantine) if quarantine and has_rejected(_newest_batches(table)) else None
            read = position(table, rejected)
            known = (table.metadata_location, rejected.metadata_location if rejected else "", read)
            self._positions[key] = known
        return known[2]

    def found(self, name: str) -> FoundTable | None:
        """What :mod:`sluice.model.verification.known_tables` compares; None without such a table. Costs as
        :meth:`position`."""
        if self.location(name) is None:
            return None
        table = self.table(name)
        created = table.properties.get(CREATED_AT)
        return FoundTable(
            str(table.metadata.table_uuid),
            table.snapshot_by_name(MAIN) is not None,
            table.metadata_location,
            int(created) if created else None,
        )

    def table_uuid(self, name: str) -> str:
        """The table's UUID: a restored catalog keeps it, another table has another. Raises Missing."""
        return str(self.table(name).metadata.table_uuid)

    def heads(self, *names: str) -> dict[str, Head]:
        """The newest snapshot of ``main`` of each table; without tables and tables without snapshots."""
        found = {}
        for name in names:
            snapshot = self.table(name).snapshot_by_name(MAIN) if self.location(name) else None
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
        yield _commit(snapshot, sluice_properties(snapshot))


def _commit(snapshot: Snapshot, properties: dict[str, str]) -> Commit:
    began = properties.get("started-at")
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        at=snapshot.timestamp_ms / 1000,
        kind=properties.get("kind", ""),
        epoch=int(properties.get("epoch") or 0),
        ends=offsets_from_json(properties.get("end-offsets", "{}")),
        records=OffsetRanges.of_batch(properties.get("offset-ranges", "{}")).count,
        began=int(began) / 1000 if began else None,
    )


def recent_batches(table: Table, limit: int) -> list[Commit]:
    """The newest ``limit`` batches of ``main``, newest first."""
    return list(islice((commit for commit in commits(table) if commit.kind == "batch"), limit))


def position(table: Table, quarantine: Table | None = None) -> Position | None:
    """The position that the newest ``sluice.*`` snapshot of ``main`` records; None if there is none.
    ``quarantine``: the stream's, read after ``table``.

    Looks at the newest BATCHES batches, and further back only for a batch at all, or if the snapshots do not
    say when the writer acquired the lease, as those of earlier versions.
    """
    newest: tuple[Snapshot, dict[str, str]] | None = None
    acquired_at: float | None = None
    batches: list[Commit] = []
    looked_at = 0
    for snapshot in ancestors(table):
        properties = sluice_properties(snapshot)
        if "end-offsets" not in properties:
            continue
        looked_at += 1
        newest = newest or (snapshot, properties)
        if acquired_at is None:
            acquired_at = _acquired_at(snapshot, properties)
        if properties["kind"] == "batch" and len(batches) < BATCHES:
            batches.append(_commit(snapshot, properties))
        if acquired_at is not None and batches and (len(batches) == BATCHES or looked_at >= 2 * BATCHES):
            break
    if newest is None:
        return None
    snapshot, properties = newest
    durations = [batch.seconds for batch in batches if batch.seconds is not None]
    malformed, newest_malformed = _malformed(table, quarantine)
    return Position(
        epoch=int(properties["epoch"]),
        at=snapshot.timestamp_ms / 1000,
        acquired_at=acquired_at,
        starts=offsets_from_json(properties["start-offsets"]),
        ends=offsets_from_json(properties["end-offsets"]),
        topic_id=properties.get("topic-id") or None,
        longest_batch=max(durations, default=None),
        batch_at=batches[0].at if batches else None,
        rejected=rejected_by(_summary(snapshot)).count,
        malformed=malformed,
        changes=changes_in(_summary(snapshot)).count,
        counters=counters_of(_newest_batches(table, since_change=True), malformed),
        newest_malformed=newest_malformed,
    )


def _newest_batches(table: Table, since_change: bool = False) -> list[tuple[float, Mapping[str, str]]]:
    """Time and summary of the newest BATCHES batches, newest first; with ``since_change`` of those after the
    newest change."""
    summaries = ((snapshot.timestamp_ms / 1000, _summary(snapshot)) for snapshot in ancestors(table))
    newer = takewhile(lambda one: not since_change or one[1].get("sluice.kind") != CHANGE, summaries)
    return list(islice((found for found in newer if found[1].get("sluice.kind") == "batch"), BATCHES))


def _malformed(table: Table, quarantine: Table | None) -> tuple[int, str]:
    """Number of the malformed records that the stream's batches rejected; place and reason of the newest.

    A batch's summary has the number before it, a writer's first snapshot one that may be older. So of the
    newest batch the quarantine says it, once it holds what that rejected; until then its own are not counted.
    """
    summaries = [_summary(snapshot) for snapshot in ancestors(table)]
    newest = next((one for one in summaries if one.get("sluice.kind") == "batch"), {})
    number = int(newest.get(MALFORMED, 0))
    if quarantine is None:
        return number, ""
    staged = [_summary(snapshot) for snapshot in ancestors(quarantine)]
    held = held_in(staged)
    if held == rejected_by(next((one for one in summaries if "sluice.end-offsets" in one), {})):
        number = held.malformed
    return number, next((one[NEWEST_MALFORMED] for one in staged if NEWEST_MALFORMED in one), "")


def _acquired_at(snapshot: Snapshot, properties: dict[str, str]) -> float | None:
    if "acquired-at" in properties:
        return int(properties["acquired-at"]) / 1000
    return snapshot.timestamp_ms / 1000 if properties["kind"] == "epoch-start" else None


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
