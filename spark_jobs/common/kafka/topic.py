"""What a job must know of its topic: its id, its partitions, and their first and next offsets."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from sluice.io.kafka import topic_offsets
from sluice.model.spec.platform import Kafka

ID_SECONDS = 30


class Topic:
    """A topic by name, over connections that are kept: a stream asks for the id with every batch."""

    def __init__(self, kafka: Kafka, name: str, id_seconds: float = ID_SECONDS) -> None:
        """``id_seconds``: so long its id is asked for."""
        self.name = name
        self._kafka = kafka
        self._id_seconds = id_seconds
        self.admin = AdminClient({**kafka.librdkafka()})

    def id(self) -> str:
        """The id that Kafka gave the topic when it was made; one that is made anew gets another.

        One metadata request. Raises LookupError when the topic does not exist, TimeoutError when no broker
        says it in time, KafkaException when it is refused. (A broker that was cut off may know an old id for
        a few seconds; those that serve the topic's records do not.)
        """
        request = TopicCollection([self.name])
        (future,) = self.admin.describe_topics(request, request_timeout=self._id_seconds).values()
        try:
            return str(future.result(timeout=self._id_seconds + 1).topic_id)
        except FutureTimeout as error:
            raise self._unanswered(error) from error
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise LookupError(
                    f"topic {self.name!r}: {error}; run the load's provision_topic step first"
                ) from error
            if code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise self._unanswered(error) from error
            raise

    def _unanswered(self, reason: Exception) -> TimeoutError:
        return TimeoutError(
            f"topic {self.name!r}: no broker said within {self._id_seconds:g} s which id it has, so nothing "
            f"is published ({reason}); start the stream again when Kafka answers"
        )

    def begin_and_end_offsets(self) -> dict[int, tuple[int, int]]:
        """As :func:`sluice.io.kafka.begin_and_end_offsets`."""
        return topic_offsets(self._kafka, self.name)
