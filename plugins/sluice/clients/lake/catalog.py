"""The lake's tables through PyIceberg: one role's catalog. No JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table

from sluice.clients.catalogs.errors import asking as asking_catalog
from sluice.clients.catalogs.errors import missing
from sluice.clients.catalogs.pointers import Pointer, opened
from sluice.clients.catalogs.vended import Vended, client_of, vended
from sluice.clients.lake.changes import published_changes
from sluice.clients.lake.commits import (
    MAIN,
    Head,
    ancestors,
    summary_of,
)
from sluice.clients.lake.errors import asking
from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.lake.position import at_and_summary, has_records, newest_commits, position_of
from sluice.config.platform import Platform
from sluice.core.changes.published import Changes
from sluice.core.errors import Missing
from sluice.core.offsets.quarantine import held_in
from sluice.core.offsets.rejection import has_rejected
from sluice.core.tables.known_tables import CREATED_AT, FoundTable
from sluice.core.tables.position import Position
from sluice.core.tables.summary import WRITER

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Lake:
    """One role's catalog. Opening it connects to it; reading a table reads S3."""

    def __init__(
        self, properties: dict[str, str], file_io: FileIO | None = None, keys: Vended | None = None
    ) -> None:
        """``keys``: of tables, if the catalog gives them, which the client of ``file_io`` has too."""
        self._keys = keys
        self._pointers = opened(properties)
        self.catalog = self._pointers.catalog
        self._io = file_io or PyArrowFileIO(properties)
        self._loaded: dict[str, Table] = {}
        # Table and quarantine -> the metadata files that it was read from, and the position. The
        # quarantine's is "" if it was not read.
        self._positions: dict[tuple[str, str], tuple[str, str, Position | None]] = {}

    @classmethod
    def open(cls, platform: Platform, client: S3Client | None = None) -> Lake:
        """With timeouts, and connections that are tested before use: a trigger runs for hours. ``client``:
        reads S3, with its own patience; of ``catalogs.vended.client_of``."""
        properties = platform.lake.pyiceberg(platform.s3)
        return cls(properties, BotoFileIO(properties, client or client_of(platform)), vended(platform))

    def close(self) -> None:
        self._pointers.close()

    def _pointer(self, name: str) -> Pointer | None:
        try:
            with asking_catalog(f"table {name}"):
                pointer = self._pointers.find(name)
        except Missing:
            return None
        if self._keys is not None and pointer is not None and pointer.metadata is not None:
            # Before anything of the table is read.
            self._keys.given(name, pointer.properties)
            self._keys.follow(name, pointer.metadata.location)
        return pointer

    def location(self, name: str) -> str | None:
        """The table's current metadata file, from the catalog only; None if the table does not exist."""
        pointer = self._pointer(name)
        return pointer.location if pointer else None

    def table(self, name: str) -> Table:
        """The current table. Reads S3 only if the catalog's pointer has moved. Raises Missing."""
        if (table := self._current(name)) is None:
            raise missing(f"table {name}")
        return table

    def _current(self, name: str) -> Table | None:
        """As :meth:`table`; None without such a table. One question to the catalog."""
        pointer = self._pointer(name)
        if pointer is None:
            return None
        known = self._loaded.get(name)
        if known is None or known.metadata_location != pointer.location:
            metadata = pointer.metadata
            if metadata is None:
                with asking(f"table {name}"):
                    metadata = FromInputFile.table_metadata(self._io.new_input(pointer.location))
            identifier = tuple(name.split("."))
            # Not load_table(): it asks the catalog again, and Arrow.
            self._loaded[name] = Table(identifier, metadata, pointer.location, self._io, self.catalog)
        return self._loaded[name]

    def table_at(self, name: str, location: str) -> Table:
        """The table as it was at a metadata file. Raises Refused if that is deleted."""
        with asking(f"metadata {location} of table {name}"):
            metadata = FromInputFile.table_metadata(self._io.new_input(location))
        return Table(tuple(name.split(".")), metadata, location, self._io, self.catalog)

    def position(self, name: str, quarantine: str = "") -> Position | None:
        """The stream's position on ``main``; None before its first snapshot or its table. Without
        ``quarantine`` it does not say how many records of the newest batch are malformed.

        Costs one question to the catalog while the table does not change, and another one while one of the
        last batches rejected records.
        """
        table, key = self._current(name), (name, quarantine)
        if table is None:
            return None
        known = self._positions.get(key)
        is_known = known is not None and known[0] == table.metadata_location
        if known is None or not is_known or (known[1] and known[1] != self.location(quarantine)):
            newest = newest_commits(table)
            # After the stream's: what a batch rejected is published there after it.
            rejected = self.table(quarantine) if quarantine and has_rejected(at_and_summary(newest)) else None
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
            int(created) if created and has_records(table) else None,
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
                    summary_of(snapshot).get(WRITER, ""),
                )
        return found

    def changes(self, name: str) -> Changes:
        """The published changes of the stream's table. Raises Missing."""
        return published_changes(self.table(name))

    def rejected_held(self, name: str) -> int:
        """The records rejected by batches that this quarantine holds. Raises Missing."""
        return held_in(summary_of(snapshot) for snapshot in ancestors(self.table(name))).count


def columns(table: Table) -> dict[str, str]:
    """Column -> Iceberg type, as the current schema writes it (``long``, ``timestamptz``, ``map<…>``)."""
    return {field.name: str(field.field_type) for field in table.schema().fields}
