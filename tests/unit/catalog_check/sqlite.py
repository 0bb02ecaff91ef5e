"""A catalog on SQLite, which keeps all promises, and one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table


def opened(folder: Path, kind: type[SqlCatalog] = SqlCatalog) -> SqlCatalog:
    return kind("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


class RequiresNothing(SqlCatalog):
    """Accepts a stale publish."""

    def commit_table(self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        return super().commit_table(table, (), updates)
