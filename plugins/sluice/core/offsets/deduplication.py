"""The rows of each source that are published, to recognise duplicates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from sluice.core.offsets.ranges import IntervalSet, OffsetRanges


@dataclass(frozen=True, order=True)
class Run:
    """Records of the source ``source_id`` in one ``partition`` of the topic, with the sequence numbers
    ``[start, until)``.

    More ``records`` than sequence numbers: some are there more than once.
    """

    source_id: str
    partition: int
    start: int
    until: int
    records: int


# Runs that wait to be joined; then twice as many as these came to.
MANY_RUNS = 1_000
# Above every sequence number (KEY_PATTERN).
_MAX_SEQUENCE = 10**18


@dataclass(frozen=True)
class LoadedRows:
    """Source id -> published sequence numbers per target partition, which is the topic partition."""

    sources: Mapping[str, OffsetRanges] = field(default_factory=dict)

    @classmethod
    def all_of(cls, source_ids: Iterable[str], partitions: Iterable[int]) -> LoadedRows:
        """Every row that these sources can have: whatever comes of them is a duplicate."""
        every = OffsetRanges.of({partition: [(0, _MAX_SEQUENCE)] for partition in partitions})
        return cls(dict.fromkeys(source_ids, every))

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
    pairs: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for run in runs:
        pairs.setdefault(run.source_id, {}).setdefault(run.partition, []).append((run.start, run.until))
    return LoadedRows({source: OffsetRanges.of(partitions) for source, partitions in sorted(pairs.items())})


def possible_duplicates(loaded: LoadedRows, runs: Iterable[Run]) -> set[str]:
    """The sources with a row that is twice within a run, in two of the runs, or in ``loaded`` already.

    A producer that was believed dead may go on sending while its successor sends the same rows.
    """
    duplicated: set[str] = set()
    reached: dict[tuple[str, int], int] = {}
    for run in sorted(runs):
        place = (run.source_id, run.partition)
        if (
            run.records > run.until - run.start
            or run.start < reached.get(place, run.start)
            or loaded[run.source_id][run.partition].intersect(IntervalSet.of([(run.start, run.until)]))
        ):
            duplicated.add(run.source_id)
        # A run within an earlier one has duplicated its source already, so the last end is enough.
        reached[place] = run.until
    return duplicated


class Runs:
    """Runs that come piece by piece: joined now and then, so that they stay about as many as there are
    gaps, and each is joined a few times."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._most = MANY_RUNS

    def add(self, more: Iterable[Run]) -> None:
        self._runs += more
        if len(self._runs) > self._most:
            self._runs = joined(self._runs)
            self._most = max(2 * len(self._runs), MANY_RUNS)

    def joined(self) -> tuple[Run, ...]:
        """All of them."""
        return tuple(joined(self._runs))


def joined(runs: Iterable[Run]) -> list[Run]:
    """Runs with those joined that follow each other: as many as there are gaps, whatever the pieces were."""
    found: list[Run] = []
    for (source, partition), these in groupby(sorted(runs), lambda run: (run.source_id, run.partition)):
        last: Run | None = None
        for one in these:
            if last is not None and one.start == last.until:
                last = Run(source, partition, last.start, one.until, last.records + one.records)
                found[-1] = last
            else:
                last = one
                found.append(one)
    return found
