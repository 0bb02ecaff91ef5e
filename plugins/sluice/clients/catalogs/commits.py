"""A commit to a table by Iceberg's own JSON: what it requires, and what it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog
from pyiceberg.table.update import TableRequirement, TableUpdate

from sluice.core.json_record import Document

_REQUIREMENT: TypeAdapter[Any] = TypeAdapter(TableRequirement)
_UPDATE: TypeAdapter[Any] = TypeAdapter(TableUpdate)


def expected_refs(refs: Mapping[str, int | None]) -> list[Document]:
    """The requirements that each ref is at its snapshot, or missing (None)."""
    return [
        {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot}
        for ref, snapshot in refs.items()
    ]


def expected_schema(current: int | None, last_column: int | None) -> list[Document]:
    """The requirements that the current schema has this id, and that no column has a higher id; None: any."""
    found: list[Document] = []
    if current is not None:
        found.append({"type": "assert-current-schema-id", "current-schema-id": current})
    if last_column is not None:
        found.append({"type": "assert-last-assigned-field-id", "last-assigned-field-id": last_column})
    return found


def commit(
    catalog: Catalog, table: str, requirements: Iterable[Document], updates: Iterable[Document]
) -> None:
    """Commit ``updates`` to ``table`` (``namespace.table``). Raises PyIceberg's errors, of which
    CommitFailedException if a requirement is not met, or another commit came first."""
    # PyIceberg asks a table for its name and its own token only.
    target: Any = SimpleNamespace(name=lambda: tuple(table.split(".")), config={})
    required = tuple(map(_REQUIREMENT.validate_python, requirements))
    catalog.commit_table(target, required, tuple(map(_UPDATE.validate_python, updates)))
