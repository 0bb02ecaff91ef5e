"""What brokers answer, without the network library's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable


@dataclass(frozen=True)
class TopicLeaders:
    """A topic as its brokers know it now. ``id``: as librdkafka writes it, so as tables keep it
    (Kafka's own tools have - and _ for + and /); a topic that is created again has another. ``leaders``:
    partition -> (broker's number, epoch); without those that have no leader."""

    id: str
    leaders: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Fetched:
    """The response to a fetch. ``error``: Kafka's number, 0 for none. ``records``: batches, the last one
    perhaps cut off. ``high_watermark``: the first offset that is not on enough replicas yet;
    ``last_stable``: the first one of an open transaction, else the same. ``aborted``: (producer id, first
    offset) of each aborted transaction in the records. ``diverging``: (epoch, its end) if the log is not the
    one that was read before, None if it is."""

    error: int
    records: bytes
    high_watermark: int
    last_stable: int
    aborted: tuple[tuple[int, int], ...]
    diverging: tuple[int, int] | None


class Moving(Unreachable):
    """The request did not arrive, or not at the partition's leader: to be repeated."""

    code = ErrorCode.KAFKA_UNREACHABLE
