"""``[lake]`` of a platform file: the warehouse, the ledger, and the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sluice.config.platform_sections.catalog import REST, Catalog
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.toml import ConfigError

# The catalog's name in Spark, and in its database.
CATALOG = "lake"
# Who compacts, expires snapshots and deletes files.
BY_SLUICE, BY_CATALOG = "sluice", "catalog"
# Among the properties of Iceberg's clients, which do not know it.
MAINTENANCE = "sluice.maintenance"


@dataclass(frozen=True)
class Lake:
    """The Iceberg warehouse, its catalog, and the ledger's prefix."""

    warehouse: Annotated[str, "`s3://` address of the tables; the same in all files"]
    ledger: Annotated[str, "`s3://` address of the ledger; the same in all files"]
    catalog: Catalog
    maintenance: Annotated[
        str,
        "who compacts tables, expires snapshots and deletes files: `sluice`, or `catalog`, for a "
        "[managed catalog](#a-managed-catalog) that does so by itself; the same in all files",
    ] = BY_SLUICE
    bucket_lists: Annotated[
        bool,
        "false: objects of the warehouse's bucket cannot be listed, and have no versions, as of a "
        "[managed catalog](#a-bucket-that-cannot-be-listed); the same in all files",
    ] = True

    @property
    def is_maintained_by_catalog(self) -> bool:
        return self.maintenance == BY_CATALOG

    @property
    def _place(self) -> dict[str, str]:
        # A server decides by itself where tables are; what it calls a warehouse is a name.
        return {} if self.catalog.type == REST else {"warehouse": self.warehouse}

    def spark(self) -> dict[str, str]:
        """Properties of Iceberg's Java catalog, without those of S3."""
        maintained = {MAINTENANCE: BY_CATALOG} if self.is_maintained_by_catalog else {}
        return self._place | self.catalog.spark() | maintained

    def pyiceberg(self, s3: S3) -> dict[str, str]:
        """Properties of PyIceberg's catalog and of its files."""
        properties = {
            **self._place,
            **self.catalog.pyiceberg(),
            "s3.region": s3.region,
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
        }
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
