"""A topic's records read back without a group: its bounds, and what lies between two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from sluice.io.kafka import begin_and_end_offsets, consumer
from sluice.model.platform import Kafka

# Without a record for so long, a broker that owes some has stopped answering.
PATIENCE_SECONDS = 60.0
_BATCH = 1_000


class Records:
    """A connection to one topic, from ``with`` to its end. Needs the rights to describe and to read it."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._topic = topic
        # Never joined and never committed to.
        self._consumer = consumer(
            kafka,
            f"sluice-{topic}-records",
            {
                "enable.partition.eof": True,
                # What retention deleted meanwhile is not there any more.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 32 * 1024,
            },
        )

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def bounds(self) -> dict[int, tuple[int, int]]:
        """As :func:`sluice.io.kafka.begin_and_end_offsets`."""
        return begin_and_end_offsets(self._consumer, self._topic)

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
