"""What must be true for every reader of the tables, after every commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sluice.config import streams
from sluice.core.offsets.quarantine import Rejections, held_in, rejected_by
from sluice.core.offsets.ranges import offsets_from_json
from sluice.core.schema_versions.offsets import PROPERTY, Bounds, SchemaOffsets, joined_ids
from spark_jobs.common.lake.iceberg import MAIN
from tests.protocol.catalog import Metadata, Record
from tests.protocol.kafka import version_of

_TAXI = streams.load("nyc_taxi")
# Its records name their schemas.
SPEC = replace(_TAXI, topic=replace(_TAXI.topic, registry=True))
STREAM, QUARANTINE = SPEC.table, SPEC.quarantine_table
Places = Counter[tuple[int, int]]


class Violation(BaseException):
    """A promise that was broken. No process can catch it."""


class Reader:
    """Reads both tables' ``main``. ``may_be_early``: records may be quarantined before their batch."""

    may_be_early = False

    def __init__(self, world: Any) -> None:
        self._world = world
        self._checked: set[int] = set()
        self._ends: dict[int, int] = {}

    @property
    def stream(self) -> Metadata:
        found: Metadata = self._world.catalog.tables[STREAM]
        return found

    @property
    def quarantine(self) -> Metadata:
        found: Metadata = self._world.catalog.tables[QUARANTINE]
        return found

    def newest(self) -> Mapping[str, str] | None:
        """Summary of the newest snapshot that says where the stream is."""
        summaries = (snapshot.summary for snapshot in self.stream.ancestors(MAIN))
        return next((summary for summary in summaries if "sluice.end-offsets" in summary), None)

    def ends(self) -> dict[int, int]:
        newest = self.newest()
        return {} if newest is None else offsets_from_json(newest["sluice.end-offsets"])

    def rejected(self) -> Rejections:
        return rejected_by(self.newest() or {})

    def held(self) -> Rejections:
        return held_in(snapshot.summary for snapshot in self.quarantine.ancestors(MAIN))

    def check(self) -> None:
        """Raises Violation."""
        of_sources = [r for r in self.quarantine.records(MAIN) if r.stage == "producer"]
        require(len(of_sources) == len(set(of_sources)), f"rows of a source more than once: {of_sources}")
        newest = self.newest()
        rows = self.stream.records(MAIN)
        self._check_columns(rows)
        if newest is None:
            require(not rows, "the table has rows, and no snapshot says which")
            return
        starts = offsets_from_json(newest["sluice.start-offsets"])
        self._check_starts(starts)
        self._check_ends()
        self._check_offsets(rows)
        expected = {
            (partition, offset)
            for partition, end in self.ends().items()
            for offset in range(starts[partition], end)
        }
        foreign = [record for record in rows if record.topic_id != newest["sluice.topic-id"]]
        require(not foreign, f"rows of another topic: {foreign}")
        published, quarantined = places(rows), places(self._quarantined())
        above = sorted(set(published) - expected)
        require(not above, f"not below the end offsets: {above}")
        rejected, held = self.rejected(), self.held()
        # Then the tables say that they do not fit, and the next writer makes them, or ends with an error.
        if held != rejected and self._world.tables_may_differ:
            quarantined, expected = Counter(), set(published)
        both = published + quarantined
        twice = sorted(place for place in expected if both[place] > 1)
        require(not twice, f"more than once: {twice}")
        self._check_missing(expected - set(both), rejected, held)
        early = sorted(set(quarantined) - expected)
        require(
            not early or self.may_be_early or (held != rejected and self._world.restored),
            f"quarantined, not published: {early}",
        )

    def _check_columns(self, rows: list[Record]) -> None:
        """Each row has the fields of its version, and the table has the columns."""
        lacking = [row.place for row in rows if row.columns < version_of(row.kind)]
        require(not lacking, f"rows without fields of their version: {lacking}")
        columns = int(self.stream.schema or 0)
        unseen = [row.place for row in rows if row.columns > columns]
        require(not unseen, f"the table follows version {columns}, and rows have more: {unseen}")

    def _check_offsets(self, rows: list[Record]) -> None:
        """The offsets of each schema's records are those of the rows, and known up to where it is
        published."""
        found = SchemaOffsets.of({PROPERTY: self.stream.offsets})
        bounds = {schema_id: dict(one.bounds) for schema_id, one in found.ids.items()}
        expected = offsets_of_schemas(rows)
        require(bounds == expected, f"schemas have offsets {bounds}, their rows {expected}")
        ends = self.ends()
        late = {p: pair for p, pair in found.complete.items() if pair[1] != ends[p]}
        require(not late, f"offsets of schemas are known in {late}, and published up to {ends}")

    def _check_missing(self, missing: set[tuple[int, int]], rejected: Rejections, held: Rejections) -> None:
        """Only what the newest batch rejected may be, between its publish and the quarantine's."""
        pending = (
            self.quarantine.commits[snapshot.id].added
            for ref in self.quarantine.refs
            for snapshot in self.quarantine.ancestors(ref)
            if held_in([snapshot.summary]) == rejected != held
        )
        staged = places([record for file in next(pending, ()) for record in file.records])
        require(missing <= set(staged), f"missing: {sorted(missing - set(staged))}")

    def _check_ends(self) -> None:
        """What was published stays, but for a restore."""
        ends, self._ends = self._ends, self.ends()
        gone = {p: end for p, end in ends.items() if self._ends.get(p, 0) < end}
        require(not gone or self._world.restored, f"published up to {ends}, and now to {self._ends}")

    def _check_starts(self, starts: Mapping[int, int]) -> None:
        """A new stream begins with what the topic keeps; a partition that was added to it, at 0."""
        line = [s for s in self.stream.ancestors(MAIN) if "sluice.start-offsets" in s.summary][:2]
        if line[0].id in self._checked:
            return
        self._checked.add(line[0].id)
        if len(line) > 1:
            before = offsets_from_json(line[1].summary["sluice.start-offsets"])
            late = [p for p, start in starts.items() if start != before.get(p, 0)]
        else:
            topic = self._world.topic
            # Recreated before this commit, it has other offsets, and no batch of it is published.
            bounds = topic.bounds() if line[0].summary["sluice.topic-id"] == topic.id else {}
            late = [p for p, start in starts.items() if p in bounds and start > bounds[p][0]]
        require(not late, f"partitions {late} begin after records that were never read: {starts}")

    def _quarantined(self) -> list[Record]:
        return [record for record in self.quarantine.records(MAIN) if record.stage == "consumer"]


def places(records: list[Record]) -> Places:
    return Counter(record.place for record in records)


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def offsets_of_schemas(records: Iterable[Record]) -> dict[int, Bounds]:
    """Version -> the bounds of its records."""
    return joined_ids({version_of(one.kind): {one.partition: (one.offset, one.offset)}} for one in records)
