"""What each offset of a range is, as the headers of its batches and its records say."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    """What the offsets ``[begin, end)`` of a partition are: each is in exactly one of the four sets.

    ``records``: read. ``control``: a marker of a transaction. ``aborted``: of an aborted transaction, also if
    the log's cleaner took the record out. ``absent``: no batch has it, or its batch no longer does;
    ``evidence`` says what explains that, empty if there is none. ``leader_epoch``: of the last batch, which
    KIP-320 compares; None for a range without one.
    """

    begin: int
    end: int
    records: IntervalSet
    control: IntervalSet
    aborted: IntervalSet
    absent: IntervalSet
    leader_epoch: int | None
    evidence: str = ""


@dataclass
class Accounting:
    """An account while its range is read: told of every batch, in their order.

    ``following``: the next offset that no batch has said anything about.
    """

    begin: int
    end: int
    following: int = field(init=False)
    leader_epoch: int | None = field(init=False, default=None)
    _records: list[Pair] = field(init=False, default_factory=list)
    _control: list[Pair] = field(init=False, default_factory=list)
    _aborted: list[Pair] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.following = self.begin

    @property
    def is_complete(self) -> bool:
        return self.following >= self.end

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
        if batch.base_offset < self.end:
            self.leader_epoch = batch.leader_epoch
        if is_whole:
            those.append((batch.base_offset, batch.last_offset + 1))
        self.behind(batch.last_offset + 1)

    def closed(self) -> Account:
        """The account of a range that was read to its end. Raises ValueError before."""
        if not self.is_complete:
            raise ValueError(f"offsets from {self.following} on are not accounted for")
        whole = IntervalSet.of([(self.begin, self.end)])
        records, control, aborted = (
            IntervalSet.of(pairs).intersect(whole) for pairs in (self._records, self._control, self._aborted)
        )
        absent = whole.minus(records).minus(control).minus(aborted)
        return Account(self.begin, self.end, records, control, aborted, absent, self.leader_epoch)


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
        "(kafka-dump-log.sh on each broker); if the topic was compacted before, say so"
    )
