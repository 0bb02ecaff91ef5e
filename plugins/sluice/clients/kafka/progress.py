"""Progress of all streams' queries, read from its topic."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.query_progress import (
    Entry,
    ProgressSnapshot,
    QueryHistory,
    from_json,
    history,
    stream_of,
)
from sluice.clients.kafka.reader import read_range
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import PROGRESS_TOPIC
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable

if TYPE_CHECKING:
    from confluent_kafka import Message

log = logging.getLogger(__name__)

TOPIC = PROGRESS_TOPIC.name
RETENTION_SECONDS = int(PROGRESS_TOPIC.config["retention.ms"]) / 1000
# Records older than the requested ones that one read takes from a partition: about a second of parsing.
OLDER_RECORDS = 20_000
# For one request, and for the records of one read.
REQUEST_SECONDS, READ_SECONDS = 5.0, 15.0


class ProgressReader:
    """Not thread-safe: remembers what it has read, and reads only newer records the next time.

    The first read starts at the requested moment. Older records matter only for the last batch and activity
    of queries that are silent since; each read takes OLDER_RECORDS of them, the newest first.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admin = KafkaAdmin(kafka, REQUEST_SECONDS)
        self._topic: tuple[str, int] | None = None
        # Partition -> the offsets between which everything was read.
        self._low: dict[int, int] = {}
        self._high: dict[int, int] = {}
        self._entries: defaultdict[tuple[str, str], list[Entry]] = defaultdict(list)
        self._malformed: list[tuple[int, int, str]] = []
        self._last_logged = ""

    def read(self, since: float, now: float) -> ProgressSnapshot:
        """Batches that ended from ``since`` on; both in seconds since 1970.

        A query without activity since then keeps its last batch and activity until retention deletes them.
        Raises ClientError: Missing before the first load has provisioned the topic, Unreachable while Kafka
        is away, Refused if the role may not read.
        """
        try:
            begins = self._update(since)
        except Unreachable as error:
            raise Unreachable(
                f"query progress: Kafka is unavailable: {error}", ErrorCode.KAFKA_UNREACHABLE
            ) from error
        queries: defaultdict[str, list[QueryHistory]] = defaultdict(list)
        for (stream, query), entries in sorted(self._entries.items()):
            found = history(query, entries, since)
            kept = {id(entry): entry for entry in (*found.batches, found.progress, found.activity) if entry}
            self._entries[stream, query] = list(kept.values())
            if (found.at or 0.0) >= now - RETENTION_SECONDS:
                queries[stream].append(found)
        return ProgressSnapshot(
            {stream: tuple(found) for stream, found in queries.items()},
            all(low <= begins[partition] for partition, low in self._low.items()),
            self._malformed_message(begins),
        )

    def _update(self, since: float) -> dict[int, int]:
        found = self._admin.describe(TOPIC)
        begins = self._admin.begins(TOPIC, found.partitions)
        ends = self._admin.ends(TOPIC, found.partitions)
        topic = found.id, found.partitions
        if topic != self._topic:
            self._topic = topic
            self._entries.clear()
            self._malformed.clear()
            self._low = self._admin.first_after(TOPIC, int(since * 1000), ends)
            self._high = dict(self._low)
        self._read({p: max(self._high[p], begins[p]) for p in ends}, ends)
        self._high = ends
        older = {p: max(begins[p], low - OLDER_RECORDS) for p, low in self._low.items()}
        self._read(older, self._low)
        self._low = older
        return begins

    def _read(self, starts: dict[int, int], ends: dict[int, int]) -> None:
        for message in read_range(self._kafka, TOPIC, starts, ends, READ_SECONDS):
            self._take(message)

    def _take(self, message: Message) -> None:
        try:
            stream = stream_of((message.key() or b"").decode())
            entry = from_json(message.value() or b"")
        except ValueError as error:
            partition, offset = message.partition() or 0, message.offset() or 0
            self._malformed.append((partition, offset, str(error)))
        else:
            self._entries[stream, entry.query].append(entry)

    def _malformed_message(self, begins: dict[int, int]) -> str:
        self._malformed = [found for found in self._malformed if found[1] >= begins[found[0]]]
        if not self._malformed:
            return ""
        partition, offset, reason = max(self._malformed)
        message = (
            f"{len(self._malformed)} malformed records on topic {TOPIC!r} were skipped, the newest at "
            f"partition {partition}, offset {offset}: {reason}. Fix: let only role consumer write there"
        )
        if message != self._last_logged:
            log.warning("%s", message)
        self._last_logged = message
        return message
