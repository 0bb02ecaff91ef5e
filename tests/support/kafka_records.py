"""What a Kafka consumer returns, without a broker."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError

from sluice.core.offsets.sources import KEY_PATTERN
from sluice.core.tables.records import Headers


def row_identity(key: bytes | None) -> tuple[str, int, int] | None:
    """Source id, row and sequence number in a record's key; None for an external record."""
    match = re.match(KEY_PATTERN, (key or b"").decode("ascii", "replace"))
    return (match[1], int(match[2]), int(match[3])) if match else None


class Record:
    """A record, or an error in its place."""

    def __init__(
        self,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        code: int = 0,
        headers: Headers | None = None,
    ) -> None:
        self._place, self._key, self._value, self._headers = (partition, offset), key, value, headers
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

    def headers(self) -> Headers | None:
        return self._headers
