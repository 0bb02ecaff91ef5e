"""Batches aggregated into time buckets for charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from sluice.clients.kafka.query_progress import OffsetLag, Progress, StateMetrics

SLOT_SECONDS = 60.0


@dataclass(frozen=True)
class TimeBucket:
    """Batches that ended in a bucket that starts ``at``.

    ``batches``, ``rows``, ``late`` and ``early``: sums; ``seconds`` and ``phases``: of the longest batch;
    ``state`` and ``watermark_lag``: of the last; ``behind``: with the largest lag of a partition.
    ``input_rate`` and ``processed_rate``: all rows over all their time, None if no batch has one.
    """

    at: float
    batches: int
    rows: int
    late: int
    early: int
    input_rate: float | None
    processed_rate: float | None
    seconds: float
    phases: dict[str, float]
    state: StateMetrics | None
    watermark_lag: float | None
    behind: OffsetLag | None


def slots(batches: Iterable[Progress], seconds: float = SLOT_SECONDS) -> list[TimeBucket]:
    """Earliest first, without empty ones. Buckets start at multiples of ``seconds``."""
    ordered = sorted(batches, key=lambda batch: batch.ended)
    return [
        _slot(number * seconds, list(members))
        for number, members in groupby(ordered, key=lambda batch: batch.ended // seconds)
    ]


def _slot(at: float, batches: Sequence[Progress]) -> TimeBucket:
    longest = max(batches, key=lambda batch: batch.seconds)
    behind = [batch.behind for batch in batches if batch.behind]
    return TimeBucket(
        at=at,
        batches=len(batches),
        rows=sum(batch.rows for batch in batches),
        late=sum(batch.late for batch in batches),
        early=sum(batch.early for batch in batches),
        input_rate=_rate((batch.rows, batch.input_rate) for batch in batches),
        processed_rate=_rate((batch.rows, batch.processed_rate) for batch in batches),
        seconds=longest.seconds,
        phases=longest.phases,
        state=batches[-1].state,
        watermark_lag=batches[-1].watermark_lag,
        behind=max(behind, key=lambda found: found.most, default=None),
    )


def _rate(batches: Iterable[tuple[int, float | None]]) -> float | None:
    """All rows over all their time: a mean of rates would weight a batch of ten rows as one of a million."""
    known = [(rows, rate) for rows, rate in batches if rate is not None]
    if not known:
        return None
    total = sum(rows for rows, _ in known)
    seconds = sum(rows / rate for rows, rate in known if rate)
    return total / seconds if seconds else 0.0
