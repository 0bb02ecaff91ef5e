"""Which rows of which sources a batch claims: how a repeat is recognised, whoever sent it.

A producer that was thought dead may go on sending while its successor sends too. Every row has an identity
(source, lane, seq); the lane is the topic partition. A *claim* says which ``seq`` of a source are in the
published table. Where two claims overlap, rows are there twice, and the writer drops the later ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.model.ranges import Ranges, RangeSet


@dataclass(frozen=True)
class Group:
    """Records of one source in one partition with one base, so with ``seq = offset - base``.

    Within a group no row can be there twice, because no offset is. ``records`` below the width of the
    offsets says that something else lies between them.
    """

    source_id: str
    partition: int
    base: int
    offset_lower: int
    offset_upper: int
    records: int

    @property
    def seqs(self) -> Ranges:
        """The hull of the group's ``seq``: exact where ``is_dense``."""
        return Ranges.of([(self.offset_lower - self.base, self.offset_upper - self.base + 1)])

    @property
    def is_dense(self) -> bool:
        return self.records == self.offset_upper - self.offset_lower + 1


@dataclass(frozen=True)
class Claims:
    """Source id -> the ``seq`` per partition."""

    sources: Mapping[str, RangeSet] = field(default_factory=dict)

    def __getitem__(self, source_id: str) -> RangeSet:
        return self.sources.get(source_id, RangeSet())

    def union(self, other: Claims) -> Claims:
        keys = sorted({*self.sources, *other.sources})
        return Claims({key: self[key].union(other[key]) for key in keys})

    def to_json(self) -> str:
        """``{"<source>":{"<partition>":[[from,until],…]}}``, for a snapshot's summary."""
        return json.dumps(
            {key: json.loads(ranges.to_json()) for key, ranges in self.sources.items()}, separators=(",", ":")
        )

    @classmethod
    def from_json(cls, text: str) -> Claims:
        return cls(
            {
                key: RangeSet.of({int(partition): pairs for partition, pairs in partitions.items()})
                for key, partitions in json.loads(text).items()
            }
        )


def claimed(groups: Iterable[Group]) -> Claims:
    """What the groups claim together (hulls: a superset where a group is not dense)."""
    claims = Claims()
    for group in groups:
        claims = claims.union(Claims({group.source_id: RangeSet({group.partition: group.seqs})}))
    return claims


def suspects(seen: Claims, groups: Iterable[Group]) -> set[str]:
    """The sources of which a row may be there twice: in ``seen`` already, or in two of the groups.

    Never misses one (a repeat lies in two groups or in a group and in ``seen``); a source that is named
    without need costs only a closer look.
    """
    named: set[str] = set()
    so_far = seen
    for group in groups:
        if so_far[group.source_id][group.partition].intersect(group.seqs):
            named.add(group.source_id)
        so_far = so_far.union(Claims({group.source_id: RangeSet({group.partition: group.seqs})}))
    return named
