"""A topic's records read back without a group: its bounds, and what lies between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice.model.platform import Kafka

TIMEOUT_SECONDS = 15.0
# Without a record for so long, a broker that owes some has stopped answering.
PATIENCE_SECONDS = 60.0
_BATCH = 1_000
# A partition that was just made, or whose leader changes, is led by nobody for a moment.
_MOVING = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
_AGAIN_SECONDS = 0.2


class Records:
    """A connection to one topic, from ``with`` to its end. Needs the rights to describe and to read it."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer(
            kafka.librdkafka()
            | {
                # Never joined and never committed to; the client wants a name.
                "group.id": f"sluice-{topic}-records",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # What retention deleted meanwhile is not there any more.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 32 * 1024,
            }
        )

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Partition -> (first offset kept, next offset to be written).

        Raises LookupError when the topic does not exist, KafkaException when no broker answers in time.
        """
        found = self._consumer.list_topics(self._topic, timeout=TIMEOUT_SECONDS).topics[self._topic]
        if found.error is not None or not found.partitions:
            raise LookupError(
                f"topic {self._topic!r}: {found.error}; run the load's provision_topic step first"
            )
        return {partition: self._bound(partition) for partition in sorted(found.partitions)}

    def _bound(self, partition: int) -> tuple[int, int]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            place = TopicPartition(self._topic, partition)
            try:
                return self._consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)

    def ends(self) -> dict[int, int]:
        """Partition -> next offset to be written; raises as :meth:`bounds`."""
        return {partition: end for partition, (_, end) in self.bounds().items()}

    def between(self, begin: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Message]:
        """The records at offsets from ``begin`` to before ``ends``, each partition in its order.

        Raises KafkaException for an error of a broker, TimeoutError after PATIENCE_SECONDS without a record.
        """
        open_ = {partition for partition, end in ends.items() if begin[partition] < end}
        if not open_:
            return
        self._consumer.assign([TopicPartition(self._topic, p, begin[p]) for p in sorted(open_)])
        heard = time.monotonic()
        while open_:
            batch = self._consumer.consume(_BATCH, timeout=0.1)
            if not batch and time.monotonic() - heard > PATIENCE_SECONDS:
                raise TimeoutError(
                    f"topic {self._topic!r}: no record of {sorted(open_)} in {PATIENCE_SECONDS:g} s"
                )
            for message in batch:
                heard = time.monotonic()
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                assert partition is not None
                assert offset is not None
                if error is None and offset < ends[partition]:
                    yield message
                if error is not None or offset + 1 >= ends[partition]:
                    open_.discard(partition)
        self._consumer.unassign()
