"""Where each query of a stream stands, as the summaries of the queries' own table say it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from sluice.model.spec.config import ConfigError
from sluice.model.spec.query import Query

# A crash in each of its batches adds one; the publisher, the last, is always kept.
MOST_HOLDERS = 8


@dataclass(frozen=True)
class State:
    """What is in all sinks of one query: everything of the stream's table up to the snapshot ``source``.

    ``batch`` is the number of the newest batch in its streaming query (-1: none yet), and ``base`` what is
    added to it for the sinks, which know batches by numbers that never fall: a query that begins anew begins
    behind them. Late rows of batches below ``base`` count again. ``holders``: the owners whose checkpoints
    may hold the batch, the latest first, the publisher last. ``ends``: what ``source`` said of the topic.
    ``rule``: what was declared when it was counted.
    """

    rule: str
    base: int = 0
    batch: int = -1
    source: int | None = None
    source_at: int = 0
    watermark: int = 0
    late: int = 0
    holders: list[int] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The newest batch as the sinks call it."""
        return self.base + self.batch

    def taken_over(self, token: int) -> State:
        latest, publisher = [token, *self.holders[:-1]], self.holders[-1:]
        return replace(self, holders=[*latest[:MOST_HOLDERS], *publisher])

    def anew(self, token: int, number: int) -> State:
        """Everything is counted again, in batches whose numbers are above ``number``."""
        return State(rule=self.rule, base=number + 1, holders=[token])


def rule(query: Query) -> str:
    """What the results depend on, besides the code and the rows."""
    measured: dict[str, object] = {"by": query.by, "measures": query.measures, "mode": query.mode}
    if query.where:
        measured["where"] = query.where
    if query.window:
        window = asdict(query.window)
        measured |= {"at": query.at, "window": window, "watermark_minutes": query.watermark_minutes}
    return json.dumps(measured, sort_keys=True)


def read(
    summaries: Iterable[Mapping[str, str]], queries: Mapping[str, Query], where: str
) -> dict[str, State]:
    """The state of each query, from the newest summary that tells any, the newest first.

    A query that was not there then has counted nothing. Raises ConfigError for one that was declared
    otherwise: its sinks hold what another rule counted.
    """
    said = next((summary for summary in summaries if "sluice.queries" in summary), {})
    told = json.loads(said.get("sluice.queries", "{}"))
    states = {}
    for name, query in queries.items():
        there = State(**told[name]) if name in told else State(rule(query))
        if there.rule != rule(query):
            raise ConfigError(
                f"{where}: query {name} was {there.rule} and is {rule(query)} now: what its sinks hold was "
                "counted otherwise; give the query a new name, and its sinks new tables and topics"
            )
        states[name] = there
    return states


def summary(kind: str, stream: str, token: int, states: Mapping[str, State]) -> dict[str, str]:
    """What a snapshot of the queries' table says: ``kind`` is genesis, takeover or batch."""
    return {
        "sluice.kind": kind,
        "sluice.stream": stream,
        "sluice.token": str(token),
        "sluice.queries": json.dumps({name: asdict(state) for name, state in states.items()}),
    }


def common_ends(states: Iterable[State]) -> dict[int, int]:
    """Partition -> up to which offset all of these queries have counted."""
    told = [state.ends for state in states]
    partitions = {partition for ends in told for partition in ends}
    return {int(p): min(ends.get(p, 0) for ends in told) for p in sorted(partitions, key=int)}
