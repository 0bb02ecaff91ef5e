"""The oldest open transaction of partitions: which producer holds back their records, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sluice.clients.kafka.log.brokers import Brokers
from sluice.core.messages import iso


@dataclass(frozen=True)
class OpenTransaction:
    """``producer_id``: Kafka's number; ``first``: its first offset in the partition; ``at_ms``: the time of
    its last record there, in ms since 1970."""

    producer_id: int
    first: int
    at_ms: int

    def message(self) -> str:
        at = iso(self.at_ms / 1000)
        return f"producer {self.producer_id}, which began at offset {self.first} and sent last at {at}"


def open_transactions(brokers: Brokers, topic: str, partitions: Iterable[int]) -> dict[int, OpenTransaction]:
    """Partition -> the open transaction with the lowest offset; without partitions that have none. Raises as
    Brokers does: Refused without the right to read."""
    leaders = brokers.describe(topic).leaders
    found = {}
    for partition in partitions:
        if partition not in leaders:
            continue
        open_ones = [
            OpenTransaction(producer_id, first, at_ms)
            for producer_id, first, at_ms in brokers.producers(topic, partition, leaders[partition])
            if first >= 0
        ]
        if open_ones:
            found[partition] = min(open_ones, key=lambda one: one.first)
    return found
