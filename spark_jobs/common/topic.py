"""What a job must know of its topic before it reads: the partitions and their first and next offsets."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from sluice.model.platform import Kafka

TIMEOUT_SECONDS = 15


def watermarks(kafka: Kafka, topic: str) -> dict[int, tuple[int, int]]:
    """Partition -> (first offset kept, next offset to be written).

    Raises LookupError when the topic does not exist, KafkaException when no broker answers in time.
    """
    consumer = Consumer(kafka.librdkafka() | {"group.id": f"sluice-{topic}-watermarks"})
    try:
        found = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        if found.error is not None or not found.partitions:
            raise LookupError(f"topic {topic!r}: {found.error}; run the load's provision_topic step first")
        return {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=TIMEOUT_SECONDS
            )
            for partition in sorted(found.partitions)
        }
    finally:
        consumer.close()
