"""Schemas that a table does not follow yet, or cannot: which of them have a record on the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sluice.core.decoding.avro.following.conflicts import Conflict, Fix, Names
from sluice.core.decoding.avro.following.merging import Merged, merge
from sluice.core.decoding.avro.following.staying import beyond, with_all_values
from sluice.core.decoding.avro.reference.layout import Layout
from sluice.core.decoding.avro.reference.resolution import Unresolvable, resolver
from sluice.core.decoding.avro.types import Schema
from sluice.core.registry.schemas import Schemas
from sluice.core.registry.subjects import Naming, subject

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Following:
    """How a table follows further versions of its schema. ``adds_columns``: false if its columns stay as they
    are; ``names``: those that no column may have; ``recursive_as_text``: fields that contain themselves are
    texts; ``topic``: to follow only what is registered for its values, empty to follow every schema;
    ``subjects``: those that count, empty for the topic's own; ``keeps_fields``: the table has a column of
    further fields, which has what no column can have; ``refused``: schema id -> why the table could not be
    changed for it, with what to do."""

    adds_columns: bool = True
    names: Names = field(default_factory=Names)
    recursive_as_text: bool = False
    topic: str = ""
    subjects: tuple[str, ...] = ()
    keeps_fields: bool = False
    refused: Mapping[int, str] = field(default_factory=dict)

    def why_foreign(self, schemas: Schemas, schema_id: int, record: str) -> str:
        """Why a schema is none of the topic's, though a record names it; empty if it is one. ``record``: the
        full name of the table's own. Raises as ``Schemas.subjects``."""
        if not self.topic or not self.adds_columns:
            return ""
        own = frozenset(subject(naming, self.topic, record=record) for naming in Naming)
        if schemas.subjects(schema_id, frozenset(self.subjects) or own):
            return ""
        named = ", ".join(self.subjects) or subject(Naming.TOPIC, self.topic)
        return f"schema id {schema_id} is none of subject {named}"

    def merged(self, table: Schema, other: Schema) -> Merged:
        """The schema ``table`` with what ``other`` adds. Without columns to add: the same, or the conflicts
        for which records cannot be read: all of them, or those with some values."""
        if self.adds_columns:
            return merge(
                table,
                other,
                self.names,
                recursive_as_text=self.recursive_as_text,
                keeps_fields=self.keeps_fields,
            )
        record = self.read_as(table).record
        try:
            resolver(other.record, record)
        except Unresolvable as error:
            found = Conflict("the record", "its columns", str(error), Fix.DECLARED)
            return Merged(table, conflicts=(found,))
        return Merged(table, conflicts=(*beyond(other.record, record),))

    def read_as(self, table: Schema) -> Schema:
        """What records are read as, of a table with this schema."""
        return table if self.adds_columns else replace(table, record=with_all_values(table.record))


class Version:
    """A schema that is more than a table's."""

    def __init__(self, is_record: Callable[[bytes], bool], *, can_follow: bool = True) -> None:
        """``is_record``: whether a body is one of the schema; ``can_follow``: it fits the table."""
        self.can_follow = can_follow
        # None: a record was found.
        self._is_record: Callable[[bytes], bool] | None = is_record

    @classmethod
    def of_avro(cls, schema: Schema, *, can_follow: bool) -> Version:
        layout = Layout(schema)
        return cls(lambda body: not layout.why_malformed(body), can_follow=can_follow)

    def has_record(self, bodies: Iterable[bytes]) -> bool:
        """Whether a body was ever seen that is one of the schema. Any bytes can name any schema of a
        registry, and these are to change no table."""
        if self._is_record is not None and any(map(self._is_record, bodies)):
            self._is_record = None
        return self._is_record is None


class Unfollowed:
    """The schemas that a decoder has seen and that are more than its table's, by their forms, which many ids
    may have. For one thread. ``most_forms``, ``most_ids``: how many of them the decoder itself knows, so that
    none that it knows is forgotten here."""

    def __init__(self, table: Schema, following: Following, most_forms: int, most_ids: int) -> None:
        self._table, self._following = table, following
        self._most_forms, self._most_ids = most_forms, most_ids
        self._forms: dict[str, Version] = {}
        # Each with its form.
        self._ids: dict[int, str] = {}

    def look_at(self, form: str, schema: Schema) -> str:
        """Why no record of a schema can be a row, of a table that adds columns; empty if one can, now or once
        the schema is followed."""
        found = self._following.merged(self._table, schema)
        if found.is_new or found.conflicts:
            version = Version.of_avro(schema, can_follow=found.is_new)
            _keep(self._forms, form, version, self._most_forms)
        return found.message if self._following.adds_columns else ""

    def name(self, schema_id: int, form: str) -> None:
        """Say that an id has a schema of this form."""
        if form in self._forms:
            _keep(self._ids, schema_id, form, self._most_ids)

    def version(self, schema_id: int) -> Version | None:
        """What an id has; None if the table follows it."""
        return self._forms.get(self._ids.get(schema_id, ""))

    def forget(self, form: str) -> None:
        """The decoder does not know it any longer."""
        self._forms.pop(form, None)


def _keep(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Keep it as the newest one, in the place of the oldest."""
    known.pop(key, None)
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = value
