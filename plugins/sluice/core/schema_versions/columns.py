"""When a table's columns came, and with which schemas: a property of a table that follows its records.

Iceberg keeps each schema that the table had, and no time; snapshots have times, and expire. The ids of fields
only rise, so a span of ids is what one commit added, nested fields too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

PROPERTY = "sluice.columns"
# Commits that are kept; of more, the newest.
MAX_COMMITS = 500


@dataclass(frozen=True)
class Came:
    """A commit that added fields: when (ms since 1970), and the ids of the schemas that it followed."""

    at: int
    schema_ids: tuple[int, ...] = ()


def with_fields(text: str, fields: range, came: Came) -> str:
    """The property after a commit that adds fields with these ids. ``text``: before it, empty without
    one."""
    if not fields:
        return text
    known = json.loads(text or "[]")
    added = [[fields.start, fields.stop, came.at, [*came.schema_ids]]]
    return json.dumps([*known, *added][-MAX_COMMITS:], separators=(",", ":"))


def came_with(text: str | None, fields: Iterable[int]) -> dict[int, Came]:
    """Field id -> the commit that added it, as far as the property says."""
    spans = [(range(start, stop), Came(at, tuple(ids))) for start, stop, at, ids in json.loads(text or "[]")]
    return {one: came for one in fields for span, came in spans if one in span}
