"""Maintenance of a stream's tables: the section ``[maintenance]`` of its stream.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.spec.query import SinkKind

if TYPE_CHECKING:
    from sluice.model.spec.stream import StreamSpec


@dataclass(frozen=True)
class Maintenance:
    """``schedule_hours``: between two runs. ``restore_horizon_days``: a catalog that is restored to a state
    of the last N days finds all of its files."""

    schedule_hours: int = 24
    restore_horizon_days: int = 7


def compacted_tables(spec: StreamSpec) -> list[str]:
    """The stream's table, its quarantine, and the table of its queries' states.

    Not the tables of Iceberg sinks: each of their partitions is a window, which a batch replaces by one
    file, and files of two partitions are never put together.
    """
    return [spec.table, spec.quarantine_table, *([spec.queries_table] if spec.queries else [])]


def lake_tables(spec: StreamSpec) -> list[str]:
    """Every Iceberg table that the stream's processes write; one may not have been created yet."""
    sinks = (sink for query in spec.queries.values() for sink in query.sinks)
    results = {sink.table for sink in sinks if sink.kind == SinkKind.ICEBERG}
    return [*compacted_tables(spec), *sorted(results)]
