"""The roles' rights in a catalog, and in databases of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Who may change tables in the catalog, and who may only read it: in PostgreSQL as in a REST catalog.
CATALOG_WRITERS, CATALOG_READERS = ("producer", "consumer"), ("airflow", "reader", "observer")
READ, WRITE = ("SELECT",), ("SELECT", "INSERT", "UPDATE", "DELETE")
# Table of a catalog in a database, which Iceberg's clients share.
CATALOG_TABLE = "iceberg_tables"

# Actions of IAM on tables and namespaces of AWS Glue; the last in `check_namespace` alone.
GLUE_READ = ("glue:GetTable",)
GLUE_WRITE = (*GLUE_READ, "glue:CreateTable", "glue:UpdateTable", "glue:GetDatabase", "glue:CreateDatabase")
GLUE_TRIAL = "glue:DeleteTable"


def actions(role: str, read: Sequence[str], write: Sequence[str]) -> tuple[str, ...]:
    """Which of these the role has."""
    return tuple(write if role in CATALOG_WRITERS else read if role in CATALOG_READERS else ())


def glue_actions(role: str, *, in_check_namespace: bool = False) -> tuple[str, ...]:
    """What the role may do in AWS Glue. A writer also drops the tables that it tries the catalog with."""
    found = actions(role, GLUE_READ, GLUE_WRITE)
    return (*found, GLUE_TRIAL) if in_check_namespace and role in CATALOG_WRITERS else found


def privileges(role: str) -> tuple[str, ...]:
    """SQL's words for what the role may do with the tables of a catalog in a database."""
    rights: Mapping[str, tuple[str, ...]] = {
        **dict.fromkeys(CATALOG_READERS, READ),
        **dict.fromkeys(CATALOG_WRITERS, WRITE),
    }
    return rights.get(role, ())
