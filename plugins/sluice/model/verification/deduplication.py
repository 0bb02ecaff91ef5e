"""Which rows of which sources a batch claims: how a repeat is recognised, whoever sent it.

A producer that was thought dead may go on sending while its successor sends too. Every row has an identity
(source, lane, seq); the lane is the topic partition. A *claim* says which ``sequence`` of a source are in the
published table. Where two claims overlap, rows are there twice, and the writer drops the later ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.model.verification.ranges import IntervalSet, OffsetRanges


@dataclass(frozen=True, order=True)
class Run:
    """Records of one source in one partition whose ``sequence`` are exactly ``[start, until)``.

    ``records`` above the width of that says that some of them are there more than once.
    """

    source_id: str
    partition: int
    start: int
    until: int
    records: int


@dataclass(frozen=True)
class LoadedRows:
    """Source id -> the ``sequence`` per partition."""

    sources: Mapping[str, OffsetRanges] = field(default_factory=dict)

    def __getitem__(self, source_id: str) -> OffsetRanges:
        return self.sources.get(source_id, OffsetRanges())

    def union(self, other: LoadedRows) -> LoadedRows:
        keys = sorted({*self.sources, *other.sources})
        return LoadedRows({key: self[key].union(other[key]) for key in keys})

    def to_json(self) -> str:
        """``{"<source>":{"<partition>":[[from,until],…]}}``, for a snapshot's summary."""
        return json.dumps(
            {key: json.loads(ranges.to_json()) for key, ranges in self.sources.items()}, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, text: str) -> LoadedRows:
        return cls(
            {
                key: OffsetRanges.of({int(partition): pairs for partition, pairs in partitions.items()})
                for key, partitions in json.loads(text).items()
            }
        )


def loaded_from(runs: Iterable[Run]) -> LoadedRows:
    """What the runs claim together."""
    pairs: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for run in runs:
        pairs.setdefault(run.source_id, {}).setdefault(run.partition, []).append((run.start, run.until))
    return LoadedRows({source: OffsetRanges.of(partitions) for source, partitions in sorted(pairs.items())})


def possible_duplicates(seen: LoadedRows, runs: Iterable[Run]) -> set[str]:
    """The sources of which a row is there twice: within a run, in two of the runs, or in ``seen`` already."""
    named: set[str] = set()
    reached: dict[tuple[str, int], int] = {}
    for run in sorted(runs):
        place = (run.source_id, run.partition)
        if (
            run.records > run.until - run.start
            or run.start < reached.get(place, run.start)
            or seen[run.source_id][run.partition].intersect(IntervalSet.of([(run.start, run.until)]))
        ):
            named.add(run.source_id)
        # Where a run lies within an earlier one the source is named already, so the last end is enough.
        reached[place] = run.until
    return named
