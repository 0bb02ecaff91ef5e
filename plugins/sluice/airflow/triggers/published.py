"""Wait until produced records are published, or counted by the queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.airflow.triggers.wait import Outcome, Progress, WaitTrigger
from sluice.core.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients
    from sluice.clients.lake.catalog import Lake
    from sluice.core.tables.position import Position

# What a component does with the records.
VERBS = {"queries": "counted"}


def unreachable_offsets(expected: OffsetRanges, starts: dict[int, int]) -> OffsetRanges:
    """Offsets that the stream will never publish: those before its start offsets."""
    return expected.intersect(
        OffsetRanges.of({partition: [(0, start)] for partition, start in starts.items()})
    )


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedTrigger(WaitTrigger):
    """Fires when ``main`` covers ``expected`` (OffsetRanges as JSON) and the quarantine has what was rejected
    of it, when it never will, or at ``deadline``.

    With component ``queries``: when they have counted it. Each poll reads PostgreSQL; S3 is read after a
    commit, and asked once a minute which tables the ledger knows.
    """

    expected: str

    def check(self, clients: StreamClients) -> Progress:
        expected = OffsetRanges.from_json(self.expected)
        component = self.spec.component(self.component).name
        verb = VERBS.get(component, "published")
        lake = clients.platform_hook.lake
        state = self._reached(lake, component)
        if problem := clients.tables.problem(self.spec.table):
            return Progress(problem, Outcome.PERMANENT)
        if state is None:
            return Progress(f"no record of table {self.spec.table} is {verb} yet")
        if lost := unreachable_offsets(expected, state.starts):
            message = f"the stream starts after {lost}, so it will never publish those offsets"
            return Progress(message, Outcome.PERMANENT)
        published = OffsetRanges.from_ends(state.starts, state.ends)
        done = published.intersect(expected).count
        message = f"{done} of {expected.count} records of the load are {verb}"
        if not published.covers(expected):
            return Progress(message)
        # Published after its batch; a consumer that ended between the two does it at its next start.
        if lake.rejected_held(self.spec.quarantine_table) < state.rejected:
            return Progress(f"{message}; the rejected ones are not in the quarantine yet")
        return Progress(message, Outcome.REACHED)

    def _reached(self, lake: Lake, component: str) -> Position | None:
        state = lake.position(self.spec.table)
        if component != "queries" or state is None:
            return state
        # Imported here: PyArrow takes a second.
        from sluice.clients.lake.results.positions import read_positions

        positions = read_positions(lake.table(self.spec.queries_table), self.spec.queries)
        return None if positions is None else replace(state, ends=positions.ends)
