"""A result's own columns; the key of its record of a topic, and the headers once the key has no result."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from sluice.core.tables.records import Headers

# Besides its groups and aggregates.
WINDOW = "window_start"
VERSION = "version"


def key_text(values: Sequence[object]) -> str:
    """A result's key (in the order of ``Query.keys``) as a topic has it: ISO 8601 in UTC, joined by ``|``,
    escaped by ``\\``, null as ``\\N``."""
    return "|".join(map(_part, values))


def _part(value: object) -> str:
    if value is None:
        return "\\N"
    return _text(value).replace("\\", "\\\\").replace("|", "\\|")


def _text(value: object) -> str:
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value.isoformat() if isinstance(value, date) else str(value)


# Headers as confluent-kafka has them.


def tombstone_headers(batch: int) -> Headers:
    """The headers of a record without a value: its key has no result any more, as of ``batch``."""
    return [(VERSION, str(batch).encode())]


def tombstone_version(headers: Headers | dict[str, str | bytes | None] | None) -> int:
    """The batch in :func:`tombstone_headers`. Raises ValueError for another record without a value."""
    found = dict(headers or ()).get(VERSION)
    if found is None or not found.isdigit():
        raise ValueError(f"it has no value, and its header {VERSION} is {found!r}")
    return int(found)
