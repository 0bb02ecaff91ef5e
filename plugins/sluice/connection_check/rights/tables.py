"""The roles' rights in a catalog, and in databases of results."""

from __future__ import annotations

from collections.abc import Mapping

# Who may change tables in the catalog, and who may only read it: in PostgreSQL as in a REST catalog.
CATALOG_WRITERS, CATALOG_READERS = ("producer", "consumer"), ("airflow", "reader", "observer")
READ, WRITE = ("SELECT",), ("SELECT", "INSERT", "UPDATE", "DELETE")
# Table of a catalog in a database, which Iceberg's clients share.
CATALOG_TABLE = "iceberg_tables"


def privileges(role: str) -> tuple[str, ...]:
    """SQL's words for what the role may do with the tables of a catalog in a database."""
    rights: Mapping[str, tuple[str, ...]] = {
        **dict.fromkeys(CATALOG_READERS, READ),
        **dict.fromkeys(CATALOG_WRITERS, WRITE),
    }
    return rights.get(role, ())
