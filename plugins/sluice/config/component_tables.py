"""Which Iceberg tables a component writes."""

from __future__ import annotations

from sluice.config.sections.maintenance import lake_tables, written_tables
from sluice.config.stream import CONSUMER, StreamSpec


def component_tables(spec: StreamSpec, component: str) -> list[str]:
    """The Iceberg tables to which a component commits as long as it runs."""
    of_stream = written_tables(spec)
    if component == CONSUMER:
        return of_stream
    return [name for name in lake_tables(spec) if name not in of_stream] if component == "queries" else []
