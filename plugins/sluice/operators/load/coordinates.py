"""The coordinates of a load: is every offset of its range set in the table or the quarantine, once?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.model.verification.offsets import Proof, prove, undecided
from sluice.model.verification.ranges import Ranges, RangeSet

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.model.verification.offsets import FileFact


@dataclass(frozen=True)
class Coordinates:
    """``quarantined``: the offsets of the range set that are in quarantine; ``files``: data files that may
    hold any of them, ``read`` of which metadata could not settle."""

    proof: Proof
    quarantined: RangeSet
    files: int
    read: int

    def sentence(self) -> str:
        """One line for the log."""
        return (
            f"{self.files} data files may hold the load's offsets, {self.read} had to be read; "
            f"{self.quarantined.count} offsets are in quarantine"
        )


def check_offsets(table: Table, quarantine: Table, expected: RangeSet) -> Coordinates:
    """Prove ``expected`` from file metadata, and from two columns of the files that it cannot settle."""
    from sluice.clients.lake import files

    tasks = files.plan(table, files.overlapping(expected))
    facts = files.facts(table, tasks)
    # A file may reach beyond the load's range, so its holes may lie there too.
    explained = _explained(quarantine, expected.union(hulls(facts)))
    unsettled = {fact.path for fact in undecided(expected, facts, explained)}
    offsets = files.coordinates(table, tasks, unsettled) if unsettled else {}
    proof = prove(expected, facts, offsets, explained=explained, allow_outside=True)
    return Coordinates(proof, explained.intersect(expected), len(facts), len(unsettled))


def hulls(facts: Sequence[FileFact]) -> RangeSet:
    """The offsets between each file's bounds, where metadata gives its one partition and both bounds."""
    total: dict[int, list[tuple[int, int]]] = {}
    for fact in facts:
        if (
            fact.partition_lower is not None
            and fact.partition_lower == fact.partition_upper
            and fact.offset_lower is not None
            and fact.offset_upper is not None
        ):
            total.setdefault(fact.partition_lower, []).append((fact.offset_lower, fact.offset_upper + 1))
    return RangeSet.of(total)


def _explained(quarantine: Table, within: RangeSet) -> RangeSet:
    from sluice.clients.lake import files

    offsets: dict[int, list[int]] = {}
    rows = files.both(files.equal("stage", "topic"), files.overlapping(within))
    for row in files.quarantined(quarantine, rows):
        offsets.setdefault(row[files.PARTITION], []).append(row[files.OFFSET])
    return RangeSet({partition: Ranges.of_values(values) for partition, values in sorted(offsets.items())})
