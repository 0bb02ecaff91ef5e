"""Plan a load of a topic of others: which offsets it verifies, pinned once.

The records are there already, and most are published. So nothing is sent: a plan pins the first offsets and
those behind the last. A load of its own begins where the last verified one ended, the first where the stream
begins. A load of an interval is between two bounds by time, which neighbours share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.json_record import Document
from sluice.ledger.keys import run_key
from sluice.loads.heads import heads_document
from sluice.loads.known.topic_loads import TopicLoads, as_json, offsets_of
from sluice.loads.known.verified import NewSources, VerifiedSources
from sluice.loads.planning.bounds import first_offsets
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.planning.topic_check import check_same_topic
from sluice.loads.sending import produced
from sluice.loads.sources.topic import TopicSource

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

# The params of a load of an interval: they are the run's, not a form's.
INTERVAL = {"interval": None, "interval_end": None}
Interval = tuple[datetime, datetime]
# Beginnings and ends.
Offsets = tuple[dict[int, int], dict[int, int]]


@dataclass(frozen=True)
class TopicPlanner:
    """Pins the offsets of loads of the stream ``spec`` in ``ledger``. ``defaults``: of the form's params."""

    systems: Systems
    spec: StreamSpec
    ledger: Ledger
    defaults: Mapping[str, Any]

    def pin(
        self,
        run_id: str,
        params: Mapping[str, Any],
        interval: Interval | None = None,
        triggered: datetime | None = None,
    ) -> Document:
        """The run's plan, and beside it what the other steps of a load need: its offsets as produced, and
        the baseline of its audit. ``interval``: aware; None for what came since the last verified load.
        ``triggered``: by a person, and when.

        Raises Refused as :meth:`LoadPlanner.pin`, for an interval that is not over or reaches back behind the
        stream's start, for a time before the last verified load's end, and for a topic that is not the
        table's; Unreachable without a position of the table.
        """
        given = params
        if interval is not None:
            given = dict(zip(INTERVAL, (at.astimezone(UTC).isoformat() for at in interval), strict=True))
        planner = LoadPlanner.of(
            self.systems, self.spec, self.ledger, self.defaults if interval is None else INTERVAL
        )
        plan = planner.pin(
            run_id, given, lambda requested: self._select(run_id, requested, interval), triggered
        )
        (source,) = (TopicSource(document) for document in plan["sources"])
        since = {"run_id": run_id, "main": source.document["main"], "at": source.document["since"]}
        self.ledger.put(run_key(run_id, "baseline"), since)
        produced.complete(self.ledger, plan, source.end_offsets)
        return plan

    def _select(self, run_id: str, requested: Document, interval: Interval | None) -> list[Document]:
        verified = VerifiedSources(self.ledger, self.systems.lake, self.spec.table)
        at = datetime.now(UTC)
        # The snapshots first: what the table ends at later may only be more.
        heads = heads_document(self.systems.lake.heads(self.spec.table, self.spec.quarantine_table))
        position = self.systems.lake.position(self.spec.table)
        if position is None or verified.incarnation is None:
            raise Unreachable(
                f"{self.spec.table} says no position: the consumer has not begun. Fix: clear ensure_consumer",
                ErrorCode.LEASE_NOT_ACQUIRED,
            )
        name = self.spec.topic.name
        topic_id = self.systems.kafka.describe(name).id
        check_same_topic(self.spec, topic_id, position)
        loads = TopicLoads(self.ledger, verified.incarnation)
        began = loads.began(position.starts)
        before = {"count": 0}
        if interval is None:
            until = requested.get("until_time")
            (starts, ends), before = self._since_last(loads, verified, position.starts, until)
        else:
            starts, ends = self._within(loads, interval, position.starts, began)
        since = loads.heads_before(starts)
        loads.note_heads(heads, position.ends, at)
        more = {
            "stream_start": as_json(position.starts),
            "main": since["main"],
            "since": since["at"],
            **({"interval": [one.astimezone(UTC).isoformat() for one in interval]} if interval else {}),
        }
        source = TopicSource.from_offsets(run_id, name, topic_id, (starts, ends), more)
        return NewSources([source.document], before)

    def _since_last(
        self,
        loads: TopicLoads,
        verified: VerifiedSources,
        stream_starts: Mapping[int, int],
        until: str | None,
    ) -> tuple[Offsets, Document]:
        """The offsets since the last verified load, and what that rests on."""
        kafka, name = self.systems.kafka, self.spec.topic.name
        ends = kafka.ends(name)
        if until:
            ends = kafka.first_after(name, _ms(_past(until)), ends)
        last = loads.verified_until(verified.ends)
        # A partition that was added begins at its first offset.
        starts = {p: (last or {}).get(p, stream_starts.get(p, 0)) for p in ends}
        if behind := {p: end for p, end in ends.items() if end < starts[p]}:
            what = f"time {until}" if until else "topic's end"
            raise Refused(
                f"{what}: the topic's offsets then, {behind}, are before {starts}, up to which "
                f"{'loads are verified' if last else 'the stream claims nothing'}. Fix: give a later time",
                ErrorCode.OFFSETS_NOT_THERE,
            )
        if last is None:
            return (starts, ends), {"count": 0}
        rests_on = {"count": 1, "incarnation": verified.incarnation, "end_offsets": as_json(last)}
        return (starts, ends), rests_on

    def _within(
        self,
        loads: TopicLoads,
        interval: Interval,
        stream_starts: Mapping[int, int],
        began: Document,
    ) -> Offsets:
        """The offsets between the bounds of an interval."""
        kafka, name = self.systems.kafka, self.spec.topic.name
        begin, end = interval
        if end > datetime.now(UTC):
            raise Refused(
                f"interval {begin.isoformat()} ends at {end.isoformat()}, which is not over. Fix: clear this "
                "task then",
                ErrorCode.INTERVAL_INCOMPLETE,
            )
        found = [
            loads.bound(at, lambda at=at: first_offsets(kafka, name, at, stream_starts))  # type: ignore[misc]
            for at in interval
        ]
        # A partition that was added between them.
        starts = {p: found[0].get(p, 0) for p in found[1]}
        if crossed := {p: (first, found[1][p]) for p, first in starts.items() if first > found[1][p]}:
            raise Refused(
                f"interval {begin.isoformat()}: its bounds by partition, {crossed}, are not in the order of "
                "their times, as they were found: records between them had other times, or are deleted. Fix: "
                "trigger a load without an interval",
                ErrorCode.INTERVAL_INCOMPLETE,
            )
        if begin < datetime.fromisoformat(began["at"]):
            self._check_reach(starts, stream_starts, began)
        return starts, found[1]

    def _check_reach(
        self, starts: Mapping[int, int], stream_starts: Mapping[int, int], began: Document
    ) -> None:
        """Raises Refused for an interval of which records may be before the stream's start."""
        at_start = [p for p, first in stream_starts.items() if first and starts.get(p, first) <= first]
        kept = self.systems.kafka.begins(self.spec.topic.name) if at_start else {}
        for partition in at_start:
            first = stream_starts[partition]
            # If the record before it is kept, the bound would name that one.
            if starts.get(partition, first) < first or kept.get(partition, first) >= first:
                raise Refused(
                    f"the interval reaches back to where the stream begins (partition {partition}, offset "
                    f"{first}; all of them: {offsets_of(began['start_offsets'])}). What was before is not "
                    "claimed, so it is not known whether the interval is complete. Fix: let [intervals] "
                    "start_date be later, or trigger a load without an interval",
                    ErrorCode.INTERVAL_INCOMPLETE,
                )


def _past(text: str) -> datetime:
    """A param's time. Raises Refused for one that is not over: records of it may still come."""
    at = datetime.fromisoformat(text)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if at > datetime.now(UTC):
        raise Refused(
            f"until_time {text} is not over. Fix: give a time that is, or none", ErrorCode.INVALID_PARAMETER
        )
    return at


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
