"""Waiting until what was produced is published."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sluice.model.verification.ranges import OffsetRanges
from sluice.triggers.wait import Outcome, Progress, WaitTrigger

if TYPE_CHECKING:
    from sluice.model.health.sample import Position


def beyond_reach(expected: OffsetRanges, starts: dict[int, int]) -> OffsetRanges:
    """What the stream will never publish: offsets before it began, of the partitions that it knows."""
    return expected.intersect(
        OffsetRanges.of({partition: [(0, start)] for partition, start in starts.items()})
    )


class PublishedTrigger(WaitTrigger):
    """Fires when ``main`` covers ``expected`` (OffsetRanges as JSON), when it never will, or at
    ``deadline``.

    ``component`` is whose work is waited for: ``consumer``, or ``queries``, which then have counted it all.
    PostgreSQL is asked every ``poll_interval`` seconds and S3 only when the table moved.
    """

    names = (*WaitTrigger.names, "expected")

    def __init__(self, *, expected: str, component: str = "consumer", **kwargs: Any) -> None:
        super().__init__(component=component, **kwargs)
        self.expected = expected

    def check(self) -> Progress:
        expected = OffsetRanges.from_json(self.expected)
        component = self.spec.component(self.component).name
        verb = "counted" if component == "queries" else "published"
        state = self._reached(component)
        if state is None:
            return Progress(f"nothing of table {self.spec.table} is {verb} yet")
        if lost := beyond_reach(expected, state.starts):
            message = f"the stream began behind {lost}, so it will never publish that"
            return Progress(message, Outcome.PERMANENT)
        published = OffsetRanges.from_ends(state.starts, state.ends)
        done = published.intersect(expected).count
        message = f"{done} of {expected.count} records of the load are {verb}"
        return Progress(message, Outcome.REACHED if published.covers(expected) else None)

    def _reached(self, component: str) -> Position | None:
        """What ``component`` has reached of the topic."""
        state = self.hook.lake.position(self.spec.table)
        if component != "queries" or state is None:
            return state
        # Here, where it is used: PyArrow takes a second.
        from sluice.clients.lake import query_results

        standing = query_results.standing(self.hook.lake.table(self.spec.queries_table), self.spec.queries)
        return None if standing is None else replace(state, ends=standing.ends)
