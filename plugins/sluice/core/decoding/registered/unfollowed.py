"""Schemas that a table does not follow yet, or cannot: which of them have a record on the topic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.core.decoding.avro.following.conflicts import Conflict, Names
from sluice.core.decoding.avro.following.merging import Merged, merge
from sluice.core.decoding.avro.reference.layout import Layout
from sluice.core.decoding.avro.reference.resolution import Unresolvable, resolver
from sluice.core.decoding.avro.types import Schema


@dataclass(frozen=True)
class Following:
    """How a table follows further versions of its schema. ``adds_columns``: false if its columns stay as they
    are; ``names``: those that no column may have."""

    adds_columns: bool = True
    names: Names = field(default_factory=Names)

    def merged(self, table: Schema, other: Schema) -> Merged:
        """The schema ``table`` with what ``other`` adds. Without columns to add: the same, or the conflict
        for which no record can be read."""
        if self.adds_columns:
            return merge(table, other, self.names)
        try:
            resolver(other.record, table.record)
        except Unresolvable as error:
            return Merged(table, conflicts=(Conflict("the record", "its columns", str(error)),))
        return Merged(table)


class Unfollowed:
    """The schemas that a decoder has seen and that are more than its table's. For one thread."""

    def __init__(self, table: Schema, following: Following) -> None:
        self._table, self._following = table, following
        # None: a record was found.
        self._layouts: dict[int, Layout | None] = {}

    def __contains__(self, schema_id: int) -> bool:
        return schema_id in self._layouts

    def look_at(self, schema_id: int, schema: Schema) -> str:
        """Why no record of a schema can be a row, of a table that adds columns; empty if one can, now or once
        the schema is followed."""
        found = self._following.merged(self._table, schema)
        if found.is_new or found.conflicts:
            self._layouts.setdefault(schema_id, Layout(schema))
        return found.reason if self._following.adds_columns else ""

    def has_record(self, schema_id: int, bodies: Iterable[bytes]) -> bool:
        """Whether a body was ever seen that is one of the schema. Any bytes can name any schema of a
        registry, and these are to change no table."""
        layout = self._layouts[schema_id]
        if layout is not None and any(not layout.why_malformed(body) for body in bodies):
            self._layouts[schema_id] = layout = None
        return layout is None
