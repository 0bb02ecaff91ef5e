"""By what a table is partitioned: ``partition_by`` of a stream.toml, and what Iceberg says of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sluice.model.spec.config import ConfigError

_COLUMN = re.compile(r"[a-z][a-z0-9_]*")
_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*,\s*([^,()\s]*)\s*\)")


@dataclass(frozen=True)
class Partition:
    """One field: a ``column`` as it is, or of each value its beginning (``width``: a text's first
    characters, a whole number rounded down to a multiple). ``str()`` is its one spelling."""

    column: str
    width: int | None = None

    def __str__(self) -> str:
        return self.column if self.width is None else f"truncate({self.width}, {self.column})"

    @property
    def sql(self) -> str:
        """For Spark's PARTITIONED BY."""
        quoted = f"`{self.column}`"
        return quoted if self.width is None else f"truncate({self.width}, {quoted})"


def parse(text: str, where: str) -> Partition:
    """``column`` or ``truncate(<width>, column)``. Raises ConfigError naming ``where`` and value."""
    found = _TRUNCATE.fullmatch(text)
    if "(" in text and found is None:
        raise ConfigError(f"{where}: partition {text!r}: write a column, or truncate(<width>, column)")
    column = found[2] if found else text
    if not _COLUMN.fullmatch(column):
        raise ConfigError(f"{where}: column {column!r}: use lower-case letters, digits and _")
    if found and int(found[1]) < 1:
        raise ConfigError(f"{where}: partition {text!r}: its width is {found[1]}; it must be at least 1")
    return Partition(column, int(found[1]) if found else None)


def parse_all(texts: Iterable[str], where: str) -> list[Partition]:
    """Each of them, in their order. Raises ConfigError, also for a column that is there twice."""
    found = [parse(text, where) for text in texts]
    columns = [partition.column for partition in found]
    for column in columns:
        if columns.count(column) > 1:
            raise ConfigError(f"{where}: partition_by names column {column!r} twice; name it once")
    return found


def spelled(column: str, transform: str) -> str:
    """As :class:`Partition` spells it, from a column and Iceberg's name of a transform (``truncate[1]``); of
    transforms that a stream cannot declare too (``day(at)``), for whoever is told of them."""
    if transform == "identity":
        return column
    name, _, width = transform.removesuffix("]").partition("[")
    return f"{name}({width}, {column})" if width else f"{name}({column})"
