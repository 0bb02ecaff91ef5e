"""What a stream's schema is, for people: columns, versions, and the registry's newest against the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.core.messages import iso
from sluice.core.schema_versions.columns import Came
from sluice.core.schema_versions.compared import Difference
from sluice.core.schema_versions.offsets import Bounds, Seen

# Partitions whose offsets are named in a line.
_MAX_PARTITIONS = 8


@dataclass(frozen=True)
class Column:
    """A column of the table, of a ``type`` as Iceberg writes it. ``at``: when it came, in ms since 1970, None
    if nothing says it; ``is_latest``: then it may have come earlier."""

    name: str
    type: str
    at: int | None = None
    is_latest: bool = False

    @property
    def came(self) -> str:
        if self.at is None:
            return "not known"
        return f"{'at the latest ' if self.is_latest else ''}{iso(self.at / 1000)}"


@dataclass(frozen=True)
class Version:
    """A schema id that records of the table have: what ``seen`` says of them, ``place`` its versions of
    subjects, or why they are not known, and the ``columns`` that came with it, by their paths."""

    schema_id: int
    seen: Seen
    place: str = ""
    columns: Sequence[str] = ()

    @property
    def first(self) -> str:
        return iso(self.seen.at / 1000)

    @property
    def offsets(self) -> str:
        return bounds_text(self.seen.bounds)


@dataclass(frozen=True)
class Latest:
    """The newest ``version`` of a ``subject``, a number from 1, and its ``schema_id``. ``differences``: what
    the table lacks of it; ``note``: why it is not compared, empty if it is."""

    subject: str
    version: int
    schema_id: int
    differences: Sequence[Difference] = ()
    note: str = ""

    @property
    def result(self) -> str:
        if self.note:
            return self.note
        number = len(self.differences)
        if not number:
            return "the table has all of it"
        return "1 difference" if number == 1 else f"{number} differences"


@dataclass(frozen=True)
class StreamSchema:
    """The answer for one table.

    ``columns``: in their order. ``follows``: the digest of the schema that the table follows, empty for the
    declared one; ``has_registry``: its records name schemas. ``versions``: those seen last first, of
    ``seen_versions``; ``latest``: None without a registry, or if ``problem`` says why nothing is known of it.
    ``complete``: partition -> the offsets from and up to which the ids of all rows are recorded.
    """

    columns: Sequence[Column]
    follows: str = ""
    has_registry: bool = False
    versions: Sequence[Version] = ()
    seen_versions: int = 0
    latest: Latest | None = None
    problem: str = ""
    complete: Bounds | None = None

    @property
    def count_text(self) -> str:
        """How many versions there are, and from which offsets on they are known."""
        if not self.complete:
            return "no batch has recorded the schemas of its records"
        since = bounds_text(self.complete, until=False)
        return f"{len(self.versions)} of {self.seen_versions} ids of records, recorded since: {since}"

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [vars(one) for one in self.columns],
            "follows": self.follows,
            "latest": self.latest
            and {**vars(self.latest), "differences": [vars(one) for one in self.latest.differences]},
            "problem": self.problem,
            "versions": [
                {
                    "schema_id": one.schema_id,
                    "place": one.place,
                    "first_published_at": one.seen.at,
                    "offsets": {str(partition): [*pair] for partition, pair in one.seen.bounds.items()},
                    "columns": [*one.columns],
                }
                for one in self.versions
            ],
            "seen_versions": self.seen_versions,
            "complete": {str(partition): [*pair] for partition, pair in (self.complete or {}).items()},
        }


def bounds_text(bounds: Bounds, *, until: bool = True) -> str:
    """``0: 3 to 17, 1: 0 to 9``; the first offsets alone without ``until``."""
    named = [
        f"{partition}: {first} to {last}" if until else f"{partition}: {first}"
        for partition, (first, last) in sorted(bounds.items())
    ]
    more = f", and {len(named) - _MAX_PARTITIONS} partitions more" if len(named) > _MAX_PARTITIONS else ""
    return ", ".join(named[:_MAX_PARTITIONS]) + more


def column_of(
    name: str,
    kind: str,
    field_id: int,
    came: Mapping[int, Came],
    kept: Sequence[tuple[int, bool]],
    began: int,
) -> Column:
    """``came``: field id -> its commit, as recorded; ``kept``: when each kept snapshot was committed, oldest
    first, and whether its schema has the field; ``began``: when the table was created, if with the field,
    else 0."""
    if began:
        return Column(name, kind, began)
    if (found := came.get(field_id)) is not None:
        return Column(name, kind, found.at)
    first = next((at for at, has_field in kept if has_field), None)
    if first is None:
        return Column(name, kind)
    # If all that are kept have it, an earlier one may have had it too.
    return Column(name, kind, first, is_latest=kept[0][1])


def fields_of(schema_id: int, came: Mapping[int, Came], paths: Mapping[int, str]) -> tuple[str, ...]:
    """The paths of the fields that came with a schema. ``paths``: field id -> path."""
    found = [paths[field] for field, one in sorted(came.items()) if schema_id in one.schema_ids]
    # Not what is inside a field that is new itself.
    return tuple(one for one in found if not any(one.startswith(f"{other}.") for other in found))
