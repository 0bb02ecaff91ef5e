"""Where the catalog says that a table's current metadata is: one question, by each kind of catalog."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadata

from sluice.clients.catalogs.errors import asking
from sluice.config.platform_sections.catalog import GLUE, REST, SQL
from sluice.config.platform_sections.lake import CATALOG


@dataclass(frozen=True)
class Pointer:
    """A table's current metadata: its file, and what it says if the catalog said that too; ``properties``:
    of the table's files, with keys if it gives some."""

    location: str
    metadata: TableMetadata | None = None
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Pointers(Protocol):
    """A connection to a catalog."""

    catalog: Catalog

    def find(self, name: str) -> Pointer | None:
        """None without such a table. Raises the errors of :func:`errors.asking`."""

    def close(self) -> None:
        """Give the connections back."""


def opened(properties: Mapping[str, str]) -> Pointers:
    """By PyIceberg's properties, as ``Lake.pyiceberg`` has them. Raises Refused or Unreachable."""
    # Not load_catalog(): it merges in ~/.pyiceberg.yaml.
    kinds: dict[str, type[Any]] = {SQL: _SqlPointers, REST: _RestPointers, GLUE: _GluePointers}
    with asking("the lake's catalog"):
        found: Pointers = kinds[properties.get("type", SQL)](properties)
    return found


class _SqlPointers:
    """One statement."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

        # Registers the plugin of the catalog's URL.
        from sluice.clients.databases import postgresql as _deadline  # noqa: F401
        from sluice.clients.databases.engines import ENGINES

        engine, self._give_back = ENGINES.take(properties["uri"])

        class PooledCatalog(SqlCatalog):
            """Over the process's pool: PyIceberg's has one of its own for each catalog."""

            @property
            def engine(self) -> Any:
                return engine

            @engine.setter
            def engine(self, own: Any) -> None:
                """PyIceberg's own, which has no connection yet."""

        try:
            self.catalog = PooledCatalog(CATALOG, **properties)
        except BaseException:
            self._give_back()
            raise
        # Also of one that is not closed, as a page's whose login was replaced.
        weakref.finalize(self.catalog, self._give_back)
        self._tables = IcebergTables

    def find(self, name: str) -> Pointer | None:
        from sqlalchemy import select
        from sqlalchemy.orm import Session

        namespace, table = name.rsplit(".", 1)
        statement = select(self._tables.metadata_location).where(
            self._tables.catalog_name == CATALOG,
            self._tables.table_namespace == namespace,
            self._tables.table_name == table,
        )
        with Session(self.catalog.engine) as session:
            location = session.scalar(statement)
        return Pointer(location) if location else None

    def close(self) -> None:
        self._give_back()


class _RestPointers:
    """One request, whose answer has the metadata."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from sluice.clients.catalogs.rest import BoundedCatalog

        self.catalog = BoundedCatalog(properties)

    def find(self, name: str) -> Pointer | None:
        try:
            table = self.catalog.load_table(name)
        except NoSuchTableError:
            return None
        return Pointer(table.metadata_location, table.metadata, table.io.properties)

    def close(self) -> None:
        """Its session is PyIceberg's own, and ends with it."""


class _GluePointers:
    """One request, GetTable."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from sluice.clients.catalogs.glue import BoundedGlue

        self.catalog = BoundedGlue(properties)

    def find(self, name: str) -> Pointer | None:
        location = self.catalog.metadata_location(*name.rsplit(".", 1))
        return Pointer(location) if location else None

    def close(self) -> None:
        self.catalog.close()
