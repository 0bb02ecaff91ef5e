"""The Iceberg tables of a stream: those of its records, those that maintenance compacts, and all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.config.sections.sink import SinkKind

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec


def written_tables(spec: StreamSpec) -> list[str]:
    """The stream's table and its quarantine: each record is in one of them."""
    return [spec.table, spec.quarantine_table]


def compacted_tables(spec: StreamSpec) -> list[str]:
    """The stream's table, its quarantine, and the table of its queries' states.

    Not the tables of Iceberg sinks: each of their partitions is a window, which a batch replaces by one
    file, and files of two partitions are never put together.
    """
    return [*written_tables(spec), *([spec.queries_table] if spec.queries else [])]


def lake_tables(spec: StreamSpec) -> list[str]:
    """Every Iceberg table that the stream's processes write; one may not have been created yet."""
    sinks = (sink for query in spec.queries.values() for sink in query.sinks)
    results = {sink.table for sink in sinks if sink.kind == SinkKind.ICEBERG}
    return [*compacted_tables(spec), *sorted(results)]
