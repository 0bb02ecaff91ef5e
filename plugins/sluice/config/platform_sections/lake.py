"""``[lake]`` of a platform file: the warehouse, the ledger, and the catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from sluice.config.platform_sections.catalog import REST, VENDED, Catalog
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.toml import ConfigError

# The catalog's name in Spark, and in its database.
CATALOG = "lake"
_ADDRESS = re.compile(r"s3://[^/?#\s']+(/[^?#\s']+)*/?")
# Who compacts, expires snapshots and deletes files.
BY_SLUICE, BY_CATALOG = "sluice", "catalog"
# Among the properties of Iceberg's clients, which do not know them.
MAINTENANCE, DOCUMENTS, BUCKET_LISTS = "sluice.maintenance", "sluice.documents", "sluice.bucket-lists"


@dataclass(frozen=True)
class Lake:
    """The Iceberg warehouse, its catalog, and the ledger's prefix."""

    warehouse: Annotated[str, "`s3://` address of the tables; the same in all files"]
    ledger: Annotated[str, "`s3://` address of the ledger; the same in all files"]
    catalog: Catalog
    maintenance: Annotated[
        str,
        "who compacts tables, expires snapshots and deletes files: `sluice`, or `catalog`, for a "
        "[managed catalog](catalogs.md#a-managed-catalog) that does so by itself; the same in all files",
    ] = BY_SLUICE
    documents: Annotated[
        str,
        "`s3://` address below which new tables have their batch log, loaded rows and other documents; "
        "empty: in the table's own folder; the same in all files",
    ] = ""
    bucket_lists: Annotated[
        bool,
        "false: objects of the warehouse's bucket cannot be listed, and have no versions, as of a "
        "[managed catalog](catalogs.md#a-bucket-that-cannot-be-listed); the same in all files",
    ] = True

    @property
    def is_maintained_by_catalog(self) -> bool:
        return self.maintenance == BY_CATALOG

    def left_to_catalog(self) -> list[str]:
        """What is not done, and what cannot be shown, by these declarations: a line each, for people."""
        found = []
        if self.is_maintained_by_catalog:
            found.append(
                "The catalog compacts, expires snapshots and deletes files by itself, by declaration: "
                "maintenance is skipped here. Of its rewrites the offsets are compared, and no other values."
            )
        if self.unseen:
            found.append(f"Not seen, since the bucket is not listed by declaration: {self.unseen}.")
        return found

    @property
    def unseen(self) -> str:
        """What no check of stored files can find, by declaration; empty if there is nothing."""
        what = "files that no table names, delete markers, and files that were overwritten with as many bytes"
        return "" if self.bucket_lists else what

    @property
    def _place(self) -> dict[str, str]:
        # A server decides by itself where tables are; what it calls a warehouse is a name.
        return {} if self.catalog.type == REST else {"warehouse": self.warehouse}

    @property
    def vends(self) -> bool:
        """Whether the catalog gives the keys for the files of its tables."""
        return self.catalog.access_delegation == VENDED

    @property
    def _declared(self) -> dict[str, str]:
        maintained = {MAINTENANCE: BY_CATALOG} if self.is_maintained_by_catalog else {}
        placed = {DOCUMENTS: self.documents.rstrip("/")} if self.documents else {}
        return maintained | placed | ({} if self.bucket_lists else {BUCKET_LISTS: "false"})

    def spark(self) -> dict[str, str]:
        """Properties of Iceberg's Java catalog, without those of S3."""
        return self._place | self.catalog.spark() | self._declared

    def pyiceberg(self, s3: S3) -> dict[str, str]:
        """Properties of PyIceberg's catalog and of its files."""
        properties = {**self._place, **self.catalog.pyiceberg(), **self._declared, "s3.region": s3.region}
        if self.vends:
            # What has no table's keys does not take those that the machine itself may have.
            properties["s3.anonymous"] = "true"
        else:
            # For tables that PyIceberg writes itself, too.
            properties |= s3.properties()
        return properties | ({"s3.endpoint": s3.endpoint} if s3.endpoint else {})


def check(lake: Lake, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key."""
    if lake.maintenance not in (BY_SLUICE, BY_CATALOG):
        raise ConfigError(
            f"{where}: maintenance is {lake.maintenance!r}. Fix: use one of {BY_SLUICE}, {BY_CATALOG}"
        )
    if not lake.bucket_lists and not lake.is_maintained_by_catalog:
        raise ConfigError(
            f"{where}: bucket_lists is false and maintenance is {lake.maintenance!r}, which lists the bucket "
            f'to delete files. Fix: write maintenance = "{BY_CATALOG}", or leave out bucket_lists'
        )
    if lake.documents and not _ADDRESS.fullmatch(lake.documents):
        raise ConfigError(
            f"{where}: documents is {lake.documents!r}, no address of a bucket's folder. Fix: write "
            "s3://bucket/folder"
        )
    if not lake.bucket_lists and not lake.documents:
        raise ConfigError(
            f"{where}: bucket_lists is false and documents is missing: what a writer keeps beside a table is "
            "listed. Fix: add documents, an s3:// address in a bucket that can be listed"
        )
