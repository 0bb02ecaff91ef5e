"""The tables' newest snapshots before a load: what it writes is committed after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from sluice.core.json_record import Document

if TYPE_CHECKING:
    from sluice.clients.lake.commits import Head

    # Table -> its newest snapshot.
    Heads = Callable[[], Mapping[str, Head]]


def heads_document(heads: Mapping[str, Head]) -> Document:
    """An entry of a baseline, and of a source's plan."""
    return {"main": {name: asdict(head) for name, head in heads.items()}}


def head_of(document: Document, table: str) -> Head | None:
    """The table's newest snapshot, from a document with that entry; None if it had none."""
    from sluice.clients.lake.commits import Head

    found = document["main"].get(table)
    return Head(**found) if found else None
