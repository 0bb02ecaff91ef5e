"""Looks at a stream over time: what they show together. Values in, values out.

A gap in which nobody looked is no evidence, so between two looks at most ``cap`` seconds count as observed,
and what happened in a longer gap counts for no rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sluice.model.health.samples import Sample


def ordered(samples: Sequence[Sample]) -> list[Sample]:
    """The samples whose clock agrees with the last one's, oldest first.

    Where a clock was put back, those before it say later moments than those behind it: they are dropped.
    """
    kept = list(samples[-1:])
    for sample in reversed(samples[:-1]):
        if sample.at < kept[-1].at:
            kept.append(sample)
    return kept[::-1]


def observed(series: Sequence[Sample], cap: float) -> float:
    """For how many seconds the stream was watched, from the first sample to the last."""
    return sum(min(after.at - before.at, cap) for before, after in pairwise(series))


def steps(series: Sequence[Sample], cap: float) -> Iterator[tuple[Sample, Sample]]:
    """Neighbours without a gap between them."""
    return ((before, after) for before, after in pairwise(series) if after.at - before.at <= cap)


def latest(series: Sequence[Sample], seconds: float, cap: float) -> Sequence[Sample]:
    """The shortest tail that was watched for ``seconds``; all where that is not enough."""
    for start in range(len(series) - 1, -1, -1):
        if observed(series[start:], cap) >= seconds:
            return series[start:]
    return series


def arrived(before: Sample, after: Sample) -> int:
    """Records that came onto the topic between two samples; a new partition counts from its begin."""
    begins, ends = after.begins or {}, before.ends or {}
    return sum(
        max(end - ends.get(partition, begins.get(partition, 0)), 0)
        for partition, end in (after.ends or {}).items()
    )


def published(before: Sample, after: Sample) -> int:
    """Records that were published between two samples; none where the table is another one."""
    if after.published is None:
        return 0
    return max(after.published.records - (before.published.records if before.published else 0), 0)


def rates(series: Sequence[Sample], cap: float) -> tuple[float, float] | None:
    """(arriving, published) records per second; None where no two samples are close enough."""
    pairs = list(steps(series, cap))
    seconds = sum(after.at - before.at for before, after in pairs)
    if not pairs or seconds <= 0:
        return None
    came = sum(arrived(*pair) for pair in pairs)
    went = sum(published(*pair) for pair in pairs)
    return came / seconds, went / seconds


def deletion_rate(series: Sequence[Sample], partition: int, least: float) -> float | None:
    """At how many offsets per second the topic's begin advances.

    It advances by whole segments, so it is measured from just behind one advance to just behind another, at
    least ``least`` seconds later; None where there were no two.
    """
    advances = [
        (after.at, (after.begins or {})[partition])
        for before, after in pairwise(series)
        if (after.begins or {}).get(partition, 0) > (before.begins or {}).get(partition, 0)
        and partition in (before.begins or {})
    ]
    if len(advances) < 2 or advances[-1][0] - advances[0][0] < least:
        return None
    (first, begin), (last, end) = advances[0], advances[-1]
    return (end - begin) / (last - first)
