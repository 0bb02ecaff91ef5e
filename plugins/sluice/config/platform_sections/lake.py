"""``[lake]`` of a platform file: the warehouse, the ledger, and the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sluice.config.platform_sections.catalog import REST, VENDED, Catalog
from sluice.config.platform_sections.s3 import S3

# The catalog's name in Spark, and in its database.
CATALOG = "lake"


@dataclass(frozen=True)
class Lake:
    """The Iceberg warehouse, its catalog, and the ledger's prefix."""

    warehouse: Annotated[str, "`s3://` address of the tables; the same in all files"]
    ledger: Annotated[str, "`s3://` address of the ledger; the same in all files"]
    catalog: Catalog

    @property
    def _place(self) -> dict[str, str]:
        # A server decides by itself where tables are; what it calls a warehouse is a name.
        return {} if self.catalog.type == REST else {"warehouse": self.warehouse}

    @property
    def vends(self) -> bool:
        """Whether the catalog gives the keys for the files of its tables."""
        return self.catalog.access_delegation == VENDED

    def spark(self) -> dict[str, str]:
        """Properties of Iceberg's Java catalog, without those of S3."""
        return self._place | self.catalog.spark()

    def pyiceberg(self, s3: S3) -> dict[str, str]:
        """Properties of PyIceberg's catalog and of its files."""
        properties = {**self._place, **self.catalog.pyiceberg(), "s3.region": s3.region}
        if self.vends:
            # What has no table's keys does not take those that the machine itself may have.
            properties["s3.anonymous"] = "true"
        else:
            properties |= {"s3.access-key-id": s3.access_key, "s3.secret-access-key": s3.secret_key}
        return properties | ({"s3.endpoint": s3.endpoint} if s3.endpoint else {})
