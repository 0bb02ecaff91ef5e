"""Batches put together for a picture: one point for each minute or so, however many batches there were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from sluice.model.queries.progress import OffsetLag, Progress, StateMetrics

SLOT_SECONDS = 60.0


@dataclass(frozen=True)
class TimeBucket:
    """The batches that ended within some seconds from ``at`` on.

    ``batches``, ``rows`` and ``late`` are sums; ``seconds`` and ``phases`` are those of the longest batch;
    ``state`` and ``watermark_lag`` those of the last; ``behind`` is that with the fullest partition. Rates
    are rows over the time in which they came, or were processed: None where no batch tells it.
    """

    at: float
    batches: int
    rows: int
    late: int
    input_rate: float | None
    processed_rate: float | None
    seconds: float
    phases: dict[str, float]
    state: StateMetrics | None
    watermark_lag: float | None
    behind: OffsetLag | None


def slots(batches: Iterable[Progress], seconds: float = SLOT_SECONDS) -> list[TimeBucket]:
    """The earliest first, and none where no batch ended. Slots begin at whole multiples of ``seconds``."""
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
        input_rate=_rate((batch.rows, batch.input_rate) for batch in batches),
        processed_rate=_rate((batch.rows, batch.processed_rate) for batch in batches),
        seconds=longest.seconds,
        phases=longest.phases,
        state=batches[-1].state,
        watermark_lag=batches[-1].watermark_lag,
        behind=max(behind, key=lambda found: found.most, default=None),
    )


def _rate(batches: Iterable[tuple[int, float | None]]) -> float | None:
    """Of rows at their rates: all rows over all the time that they took. The mean of rates would count a
    batch of ten rows as much as one of a million."""
    known = [(rows, rate) for rows, rate in batches if rate is not None]
    if not known:
        return None
    total = sum(rows for rows, _ in known)
    seconds = sum(rows / rate for rows, rate in known if rate)
    return total / seconds if seconds else 0.0
