"""The newest snapshot with a state, in a table's properties: where a catalog expires snapshots by itself, all
of ours may be gone, and its own rewrite is the head of ``main``.

Set in the commit that moves ``main`` to the snapshot, so it is true of ``main``, and a restored catalog has
it as it was. A writer that is not told of such a catalog removes it: what is there is never an older one.

It is Iceberg's JSON of the snapshot, with what the summary says of the state. A long text goes on in
``sluice.state.2`` and so on: some catalogs bound a property's length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import count, takewhile
from typing import Any

from sluice.core.schema_versions.offsets import MAX_CHARACTERS
from sluice.core.tables.summary import END_OFFSETS, PREFIX, REJECTED

PROPERTY = "sluice.state"
# What a batch published, in its summary beside Sluice's own.
_OF_BATCH = ("added-records", "added-data-files")
_OF_SNAPSHOT = ("snapshot-id", "parent-snapshot-id", "sequence-number", "timestamp-ms")


def has_state(summary: Mapping[str, str]) -> bool:
    """Whether a snapshot with this summary says the state of a stream, or of a quarantine."""
    return END_OFFSETS in summary or REJECTED in summary


def properties_of(snapshot: Mapping[str, Any]) -> dict[str, str]:
    """The properties that say ``snapshot``, Iceberg's JSON of one with a state."""
    summary = {
        name: text
        for name, text in snapshot["summary"].items()
        if name.startswith(PREFIX) or name in _OF_BATCH
    }
    said = {name: snapshot[name] for name in _OF_SNAPSHOT if name in snapshot}
    text = json.dumps({**said, "summary": summary}, separators=(",", ":"))
    begins = range(0, len(text), MAX_CHARACTERS)
    return {name: text[begin : begin + MAX_CHARACTERS] for name, begin in zip(_names(), begins, strict=False)}


def moved_to(
    snapshot: Mapping[str, Any], before: Mapping[str, str], is_by_catalog: bool
) -> tuple[dict[str, str], list[str]]:
    """The properties that a commit sets which moves ``main`` to ``snapshot``, Iceberg's JSON, and the names
    of those that it removes. ``before``: the table's; ``is_by_catalog``: whether the catalog maintains it."""
    if not has_state(snapshot["summary"]):
        return {}, []
    said = properties_of(snapshot) if is_by_catalog else {}
    return said, [name for name in named_in(before) if name not in said]


def named_in(properties: Mapping[str, str]) -> list[str]:
    """The names of the properties that say a snapshot, in their order."""
    return list(takewhile(lambda name: name in properties, _names()))


def snapshot_in(properties: Mapping[str, str]) -> dict[str, Any] | None:
    """The snapshot that a table's properties say, as :func:`properties_of` wrote it; None without one."""
    text = "".join(properties[name] for name in named_in(properties))
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def is_before(snapshot: Mapping[str, Any], sequence_numbers: Iterable[int]) -> bool:
    """Whether ``snapshot`` was committed before all snapshots with these sequence numbers: else a branch was
    set back to before it, and does not have it."""
    return all(snapshot.get("sequence-number", 0) < number for number in sequence_numbers)


def _names() -> Iterable[str]:
    return (PROPERTY if number == 1 else f"{PROPERTY}.{number}" for number in count(1))
