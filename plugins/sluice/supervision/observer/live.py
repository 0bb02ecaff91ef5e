"""What is known of a component now, and of its offsets over the last hours."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluice.supervision.rules.sample import Sample

if TYPE_CHECKING:
    from sluice.core.json_record import Document
    from sluice.core.tables.batches import Batch
    from sluice.supervision.rules.status import HealthReport

# Key of ``errors`` for why nothing newer is known: the observer itself did not answer.
OBSERVER = "observer"
# A process that ended shows within 30 s: two cycles, and an observation that takes as long as one.
CYCLE_SECONDS = 10.0
# An observation that takes longer is abandoned: its system is not asked by others until it answers.
LATE_SECONDS = 25.0
# The newest sample is not older: a cycle, an observation that is abandoned, and a cycle.
FRESH_SECONDS = CYCLE_SECONDS + LATE_SECONDS + CYCLE_SECONDS


@dataclass(frozen=True)
class Point:
    """Offsets of a topic at a moment (seconds since 1970): partition -> end, and -> first unread."""

    at: float
    ends: Mapping[int, int]
    unread: Mapping[int, int]

    @classmethod
    def of(cls, sample: Sample) -> Point | None:
        """None if the sample has no offsets."""
        if sample.errors or sample.ends is None:
            return None
        return cls(sample.at, sample.ends, {p: sample.first_unread(p) for p in sample.ends})

    @property
    def lag(self) -> int:
        return sum(max(end - self.unread.get(p, 0), 0) for p, end in self.ends.items())


class Points:
    """The points of the last ``seconds``, at least ``apart`` seconds apart; the newest is always kept."""

    def __init__(self, seconds: float, apart: float) -> None:
        self._seconds, self._apart = seconds, apart
        self._kept: deque[Point] = deque()

    def add(self, point: Point) -> None:
        kept = self._kept
        if kept and point.at <= kept[-1].at:
            kept.clear()  # the clock was set back
        if len(kept) > 1 and kept[-1].at - kept[-2].at < self._apart:
            kept.pop()
        kept.append(point)
        while point.at - kept[0].at > self._seconds:
            kept.popleft()

    def all(self) -> tuple[Point, ...]:
        return tuple(self._kept)


def seconds_behind(points: Sequence[Point]) -> tuple[float, bool] | None:
    """Age of the oldest unread record at the newest point, and whether it is known exactly.

    It came after the last point whose end offset is not behind it, so this is the most that it can be. False:
    it is older than all points. None without a point.
    """
    if not points:
        return None
    now, oldest, is_known = points[-1], 0.0, True
    for partition, end in now.ends.items():
        first = now.unread.get(partition, 0)
        if end <= first:
            continue
        before = (point.at for point in reversed(points) if point.ends.get(partition, 0) <= first)
        at = next(before, None)
        known = at is not None
        at = points[0].at if at is None else at
        if now.at - at >= oldest:
            oldest, is_known = now.at - at, known
    return oldest, is_known


@dataclass(frozen=True)
class LoadResult:
    """A verification of the load ``run_id``, which ended at ``at`` (seconds since 1970) and took ``seconds``.
    If it failed (not ``is_verified``), it has ``problems`` and no numbers: of ``records`` on the topic, and
    of ``published`` and ``quarantined`` rows. ``audit``: None before its audit passed."""

    at: float
    run_id: str
    is_verified: bool
    seconds: float | None = None
    records: int | None = None
    published: int | None = None
    quarantined: int | None = None
    problems: Sequence[str] = ()
    audit: Document | None = None

    @classmethod
    def of(cls, record: Document, at: float, is_verified: bool, audit: Document | None = None) -> LoadResult:
        """From its record in the history."""
        numbers = {name: record.get(name) for name in ("seconds", "records", "published", "quarantined")}
        problems = record.get("problems", ())
        return cls(at, record["run_id"], is_verified, **numbers, problems=problems, audit=audit)


@dataclass(frozen=True)
class Counts:
    """Batches and loads since the observer began.

    ``batches``, their ``rows`` and ``seconds`` (of all together); ``verified`` and ``not_verified``: loads.
    """

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    verified: int = 0
    not_verified: int = 0

    def with_batches(self, known: Sequence[Batch], found: Sequence[Batch]) -> Counts:
        """With the batches of ``found`` that came after all ``known``; both newest first."""
        if not known:
            return self
        newer = [batch for batch in found if batch.published_at > known[0].published_at]
        return replace(
            self,
            batches=self.batches + len(newer),
            rows=self.rows + sum(batch.rows for batch in newer),
            seconds=self.seconds + sum(batch.seconds for batch in newer),
        )

    def with_loads(self, since: float, found: Sequence[LoadResult]) -> Counts:
        """With the loads of ``found`` after ``since``."""
        newer = [load for load in found if load.at > since]
        verified = sum(load.is_verified for load in newer)
        return replace(
            self,
            verified=self.verified + verified,
            not_verified=self.not_verified + len(newer) - verified,
        )


@dataclass(frozen=True)
class Live:
    """What is known of one component; times in seconds since 1970.

    ``at``: of the newest observation, None before the first; ``report`` and ``sample`` are of it. ``since``:
    since when it has its health; ``recorded``: the newest health event in the history, None before the
    first. ``restarts``: of the last day; ``suspended``: by whom, since when, why. The consumer alone has
    ``batches`` and ``loads``, newest first, ``points`` and ``counts``. ``errors``: what cannot be
    read -> why.
    """

    at: float | None = None
    report: HealthReport | None = None
    sample: Sample | None = None
    since: float | None = None
    recorded: Document | None = None
    restarts: Sequence[float] = ()
    suspended: str | None = None
    batches: Sequence[Batch] = ()
    loads: Sequence[LoadResult] = ()
    points: Sequence[Point] = ()
    counts: Counts = field(default_factory=Counts)
    errors: Mapping[str, str] = field(default_factory=dict)
    # A brief one has no earlier points to tell it.
    known_behind: tuple[float, bool] | None = None

    @property
    def behind(self) -> tuple[float, bool] | None:
        """As :func:`seconds_behind`; None if it is not known now."""
        if self.lag is None:
            return None
        return self.known_behind or seconds_behind(self.points)

    def brief(self) -> Live:
        """For a page of many: the newest point and batch, which do not grow with the hours."""
        return replace(self, known_behind=self.behind, points=self.points[-1:], batches=self.batches[:1])

    @property
    def lag(self) -> int | None:
        """Unread records; None if unknown."""
        return self.points[-1].lag if self.points and self.is_current else None

    @property
    def is_current(self) -> bool:
        """Whether the newest observation has offsets."""
        return bool(self.points) and self.points[-1].at == self.at
