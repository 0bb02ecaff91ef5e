"""What each offset of a range is, as the headers of its batches and its records say."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import SHOWN, IntervalSet, Pair, cut
from sluice.core.record_batches.cursor import Ints
from sluice.core.record_batches.header import Batch

COMPACT = "compact"


class OffsetsMissing(Refused):
    """Offsets that were assigned, are not there, and nothing explains it."""

    code = ErrorCode.OFFSETS_MISSING


@dataclass(frozen=True)
class Account:
    """What the ``wanted`` offsets of a partition are: each is in exactly one of the four sets.

    ``records``: read. ``control``: a marker of a transaction. ``aborted``: of an aborted transaction, also if
    the log's cleaner took the record out. ``absent``: no batch has it, or its batch no longer does;
    ``evidence`` says what explains that, empty if there is none. ``leader_epoch``: of the last batch, None
    for a range without one; ``last_epoch``: the same if that batch stands for the last wanted offset, else
    None, which KIP-320 compares.
    """

    wanted: IntervalSet
    records: IntervalSet
    control: IntervalSet
    aborted: IntervalSet
    absent: IntervalSet
    leader_epoch: int | None
    evidence: str = ""
    last_epoch: int | None = None

    @property
    def end(self) -> int:
        """Behind the last wanted offset."""
        pairs = self.wanted.pairs()
        return pairs[-1][1] if pairs else 0


@dataclass
class Accounting:
    """An account while its range is read: told of every batch that begins before its end, in their order.

    ``wanted``: the offsets to account for, from ``begin`` to before ``end``. ``following``: the next offset
    that no batch has said anything about. ``leader_epoch``: the highest of the batches; None before one came.
    """

    wanted: IntervalSet
    begin: int = field(init=False)
    end: int = field(init=False)
    following: int = field(init=False)
    leader_epoch: int | None = field(init=False, default=None)
    _last: Batch | None = field(init=False, default=None)
    _records: list[Pair] = field(init=False, default_factory=list)
    _control: list[Pair] = field(init=False, default_factory=list)
    _aborted: list[Pair] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        pairs = self.wanted.pairs()
        self.begin, self.end = (pairs[0][0], pairs[-1][1]) if pairs else (0, 0)
        self.following = self.begin
        self._starts = np.array([start for start, _ in pairs], np.int64)
        self._untils = np.array([until for _, until in pairs], np.int64)

    @property
    def is_complete(self) -> bool:
        return self.following >= self.end

    def wants(self, batch: Batch) -> bool:
        """Whether it stands for a wanted offset."""
        place = int(self._untils.searchsorted(batch.base_offset, side="right"))
        return place < len(self._starts) and bool(self._starts[place] <= batch.last_offset)

    def chosen(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Those of the wanted offsets."""
        if len(self._starts) == 1:
            return records
        offsets = records.column("offset").to_numpy()
        place = self._untils.searchsorted(offsets, side="right")
        inside = place < len(self._starts)
        inside[inside] = self._starts[place[inside]] <= offsets[inside]
        return records if inside.all() else records.filter(pa.array(inside))

    def control(self, batch: Batch) -> None:
        self._add(self._control, batch, batch.count > 0)

    def aborted(self, batch: Batch) -> None:
        self._add(self._aborted, batch, True)

    def records(self, batch: Batch, offsets: Ints) -> None:
        """``offsets``: of its records, rising."""
        is_whole = len(offsets) == batch.last_offset - batch.base_offset + 1
        self._add(self._records, batch, is_whole)
        if not is_whole:
            self._records.extend(IntervalSet.of_values(offsets).pairs())

    def behind(self, offset: int) -> None:
        """Nothing is at ``following`` nor behind it, until ``offset``."""
        self.following = max(self.following, offset)

    def _add(self, those: list[Pair], batch: Batch, is_whole: bool) -> None:
        self.leader_epoch = max(batch.leader_epoch, self.leader_epoch or 0)
        self._last = batch
        if is_whole:
            # A range of many batches is a few pairs.
            begin = those.pop()[0] if those and those[-1][1] == batch.base_offset else batch.base_offset
            those.append((begin, batch.last_offset + 1))
        self.behind(batch.last_offset + 1)

    def closed(self) -> Account:
        """The account of a range that was read to its end. Raises ValueError before."""
        if not self.is_complete:
            raise ValueError(f"offsets from {self.following} on are not accounted for")
        records, control, aborted = (
            IntervalSet.of(pairs).intersect(self.wanted)
            for pairs in (self._records, self._control, self._aborted)
        )
        absent = self.wanted.minus(records).minus(control).minus(aborted)
        last = self._last
        last_epoch = last.leader_epoch if last is not None and last.last_offset + 1 >= self.end else None
        return Account(
            self.wanted, records, control, aborted, absent, self.leader_epoch, last_epoch=last_epoch
        )


def why_absent(policy: str, observed: str) -> str:
    """What explains that offsets between others are absent; empty if nothing does.

    ``policy``: the topic's `cleanup.policy`. ``observed``: when, and by whom, for people.
    """
    if COMPACT in {name.strip() for name in policy.split(",")}:
        return f"compacted: cleanup.policy={policy}, {observed}"
    return ""


def missing(topic: str, partition: int, absent: IntervalSet, policy: str) -> OffsetsMissing:
    """The error for offsets that are absent without a reason."""
    return OffsetsMissing(
        f"topic {topic!r}, partition {partition}: offsets {cut(str(absent), SHOWN)} are not there, and "
        f"cleanup.policy={policy} does not explain it. Fix: compare the partition's replicas "
        "(kafka-dump-log.sh on each broker); if the topic was compacted before, read around them"
    )
