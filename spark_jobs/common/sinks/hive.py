"""Folders as Hive, and every reader of its layout, knows them: ``zipcode=10115/day=2026-01-31/``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# What Hive and Spark write as %XX, besides control characters.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f")
# Stands for null, and for an empty text: a folder cannot tell the one from the other.
NULL = "__HIVE_DEFAULT_PARTITION__"


def folder(columns: Sequence[str], values: Iterable[str | None]) -> str:
    """The folder of one combination of values, with ``/`` behind; ``values`` are texts, in columns' order."""
    return "".join(
        f"{_escape(column)}={_escape(value) if value else NULL}/"
        for column, value in zip(columns, values, strict=True)
    )


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED or char < " " else char for char in text)
