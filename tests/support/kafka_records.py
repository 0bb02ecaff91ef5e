"""What a Kafka consumer returns, without a broker."""

from __future__ import annotations

from confluent_kafka import KafkaError


class Record:
    """A record, or an error in its place."""

    def __init__(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, code: int = 0
    ) -> None:
        self._place, self._key, self._value = (partition, offset), key, value
        self._error = KafkaError(code) if code else None

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value
