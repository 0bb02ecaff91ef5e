"""``[lake]`` of a platform file: the warehouse, its catalog in PostgreSQL, and how clients log in to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from sluice.config import postgresql
from sluice.config.platform_sections.s3 import S3

CATALOG = "lake"
# For a statement in the catalog, which reads or swaps one pointer; and for its answer.
STATEMENT_SECONDS, ANSWER_SECONDS = 45, 60


@dataclass(frozen=True)
class Lake:
    """The Iceberg warehouse, its JDBC catalog in PostgreSQL, and the ledger's prefix."""

    warehouse: Annotated[str, "`s3://` address of the tables; the same in all files"]
    ledger: Annotated[str, "`s3://` address of the ledger; the same in all files"]
    catalog_host: Annotated[str, "host of the PostgreSQL with the catalog"]
    catalog_port: Annotated[int, "its port"]
    catalog_database: Annotated[str, "its database"]
    catalog_user: Annotated[str, "the role's user there"]
    catalog_password: Annotated[str, "of `catalog_user`"] = field(repr=False)
    catalog_sslmode: Annotated[
        str,
        "`verify-full` (default, except for a host that is this machine: `disable`), `verify-ca`, `require` "
        "(encrypted, not verified) or `disable` (plain text); none falls back to plain text",
    ] = ""
    catalog_sslrootcert: Annotated[
        str,
        "path of a PEM file with the CA of the server's certificate; `verify-…` needs it",
    ] = ""

    @property
    def _ssl(self) -> dict[str, str]:
        """For every client alike."""
        ca = {"sslrootcert": self.catalog_sslrootcert} if self.catalog_sslrootcert else {}
        return {"sslmode": postgresql.ssl_mode(self.catalog_host, self.catalog_sslmode), **ca}

    def jdbc(self) -> dict[str, str]:
        """Properties of the JDBC driver."""
        login = {"user": self.catalog_user, "password": self.catalog_password}
        return login | self._ssl | postgresql.jdbc_timeouts(STATEMENT_SECONDS, ANSWER_SECONDS)

    def libpq(self, options: str = "") -> dict[str, Any]:
        """Arguments of ``psycopg2.connect``; ``options``: further ones of the session."""
        return {
            "host": self.catalog_host.strip("[]"),
            "port": self.catalog_port,
            "dbname": self.catalog_database,
            "user": self.catalog_user,
            "password": self.catalog_password,
            **self._ssl,
            **postgresql.libpq_timeouts(STATEMENT_SECONDS, options),
        }

    @property
    def _authority(self) -> str:
        """Host and port in a URL, where an address of IPv6 is in brackets."""
        host = self.catalog_host.strip("[]")
        return f"{f'[{host}]' if ':' in host else host}:{self.catalog_port}"

    @property
    def jdbc_uri(self) -> str:
        """The catalog's address for Java, without the password."""
        return f"jdbc:postgresql://{self._authority}/{self.catalog_database}"

    def pyiceberg(self, s3: S3) -> dict[str, str]:
        """Properties for PyIceberg's SqlCatalog, after an import of sluice.clients.databases.postgresql."""
        from urllib.parse import quote, urlencode

        user, password = (quote(text, safe="") for text in (self.catalog_user, self.catalog_password))
        query = self._ssl | postgresql.libpq_timeouts(STATEMENT_SECONDS)
        query |= {"plugin": postgresql.PLUGIN, postgresql.DEADLINE_KEY: ANSWER_SECONDS}
        properties = {
            "type": "sql",
            "uri": f"postgresql+psycopg2://{user}:{password}"
            f"@{self._authority}/{self.catalog_database}?{urlencode(query)}",
            "init_catalog_tables": "false",
            "warehouse": self.warehouse,
            "s3.region": s3.region,
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
        }
        if s3.endpoint:
            properties["s3.endpoint"] = s3.endpoint
        return properties
