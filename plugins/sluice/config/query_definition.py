"""What of a query's declaration its results depend on, and the progress that was committed under it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query
from sluice.core.queries.progress import QueryState
from sluice.core.tables.summary import QUERIES


def definition(query: Query) -> str:
    """The parts of a declaration on which results depend."""
    measured: dict[str, object] = {
        "group_by": query.group_by,
        "aggregates": query.aggregates,
        "mode": query.mode,
    }
    if query.where:
        measured["where"] = {column: sorted(values) for column, values in query.where.items()}
    if query.window:
        window = asdict(query.window)
        measured |= {
            "event_time": query.event_time,
            "window": window,
            "watermark_minutes": query.watermark_minutes,
        }
    return json.dumps(measured, sort_keys=True)


def read(
    summaries: Iterable[Mapping[str, str]], queries: Mapping[str, Query], where: str
) -> dict[str, QueryState]:
    """The state of each query from the newest of ``summaries`` (newest first) that has states.

    A new query has an empty state. Raises ConfigError for one whose definition changed.
    """
    newest = next((summary for summary in summaries if QUERIES in summary), {})
    recorded = json.loads(newest.get(QUERIES, "{}"))
    states = {}
    for name, query in queries.items():
        state = QueryState(**recorded[name]) if name in recorded else QueryState(definition(query))
        if state.definition != definition(query):
            raise ConfigError(
                f"{where}: query {name} was {state.definition} and is {definition(query)} now: its "
                "definition changed. Fix: give the query a new name, and its sinks new tables and topics"
            )
        states[name] = state
    return states
