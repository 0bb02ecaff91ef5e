"""Requests to Kafka's brokers over the network layer of kafka-python, whose record batches are not decoded.

librdkafka hands out records only. That layer (``kafka.net``, of version 3.0.12:
https://github.com/dpkp/kafka-python/tree/3.0.12/kafka/net) is no documented API: nothing else imports it.
"""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Self

import kafka.errors as errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeConfigsRequest, DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from sluice.clients.kafka.errors import LoginRefused, is_about_certificates, is_away, login_fix
from sluice.clients.kafka.log.responses import Fetched, Moving, TopicLeaders
from sluice.clients.kafka.login.properties import kafka_python, login_remark
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable

# Errors are raised here; the library logs each of them too, and every attempt to connect.
for _name in ("kafka.net", "kafka.cluster"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

CONNECT_SECONDS = 15.0
REQUEST_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
# A response is never larger than what a fetch asks for, but for one batch.
_MOST_RESPONSE_BYTES = 1 << 30
_READ_COMMITTED = 1
_TOPIC_RESOURCE = 2
EARLIEST, LATEST = -2, -1
_UNKNOWN_TOPIC: int = errors.UnknownTopicOrPartitionError.errno
OUT_OF_RANGE: int = errors.OffsetOutOfRangeError.errno
_LOGIN = (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)
# An answer to a login that says nothing of it: a broker that starts or ends, a session that ends just when it
# is to be prolonged. The library has one class for all of them, and Kafka's error before its text.
_OTHER_ANSWER = re.compile(r"(?!SaslAuthenticationFailed|UnsupportedSaslMechanism)[A-Z]\w+Error: ")
# Time-outs are kept here, from when an answer is waited for: the library's own count from when it was asked,
# and would end the connection of a reader that is slow to take what came.
_NEVER_SECONDS = 24 * 3600


def is_refused_login(error: BaseException) -> bool:
    """Whether a broker refuses the login, or a certificate is refused: by kafka-python's errors."""
    if isinstance(error, _LOGIN):
        return not _OTHER_ANSWER.match(" ".join(map(str, error.args)))
    return is_about_certificates(str(error))


class Brokers:
    """Connections of one user to a cluster, each opened when it is first used. For one thread at a time,
    and not across a fork.

    ``seconds``: for the first connection. ``request_seconds``: after which a broker that does not answer is
    given up.
    """

    def __init__(
        self, kafka: Kafka, seconds: float = CONNECT_SECONDS, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._servers, self._request_seconds = kafka.bootstrap_servers, request_seconds
        self._kafka = kafka
        # A record batch may have so many, decompressed.
        self.max_batch_bytes = kafka.max_batch_bytes
        settings = kafka_python(kafka) | {
            "receive_message_max_bytes": _MOST_RESPONSE_BYTES,
            "request_timeout_ms": _NEVER_SECONDS * 1000,
            "reconnect_backoff_max_ms": 1_000,
        }
        self._net = NetworkSelector()
        self._manager = KafkaConnectionManager(self._net, **settings)
        try:
            self._connect(time.monotonic() + seconds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._manager.close()
        self._net.close()

    def describe(self, topic: str, node: int | None = None) -> TopicLeaders:
        """The topic's id and leaders, as the broker ``node``, or any, knows them now.

        Raises Missing, Refused or Moving. A broker that was cut off may say what is not true any more.
        """
        response = self._answer(self._any() if node is None else node, self._about([topic]))
        self._manager.cluster.update_metadata(response)
        (found,) = response.topics
        if found.error_code == _UNKNOWN_TOPIC:
            raise Missing(
                f"topic {topic!r} does not exist. Fix: create it, or correct its name",
                ErrorCode.TOPIC_NOT_FOUND,
            )
        self.check(found.error_code, f"topic {topic!r}")
        if not found.topic_id or not found.topic_id.int:
            raise Refused(
                f"topic {topic!r} has no id, so one that is created again is not seen. Fix: read from "
                "brokers of Kafka 2.8 or later"
            )
        leaders = {
            partition.partition_index: (partition.leader_id, partition.leader_epoch)
            for partition in found.partitions
            if partition.leader_id >= 0
        }
        return TopicLeaders(b64encode(found.topic_id.bytes).rstrip(b"=").decode(), leaders)

    def cleanup_policy(self, topic: str) -> str:
        """The topic's `cleanup.policy`. Raises Refused without the right to see it."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=["cleanup.policy"]
        )
        (found,) = self._answer(self._any(), DescribeConfigsRequest(resources=[resource])).results
        self.check(found.error_code, f"cleanup.policy of topic {topic!r}")
        return str(found.configs[0].value)

    def producers(self, topic: str, partition: int, leader: tuple[int, int]) -> list[tuple[int, int, int]]:
        """(id, first offset of its open transaction or -1, time of its last record) of each producer that the
        leader remembers. Raises Refused without the right to read the topic."""
        asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[partition])
        (found,) = self._answer(leader[0], DescribeProducersRequest(topics=[asked])).topics[0].partitions
        self.check(found.error_code, f"producers of topic {topic!r}, partition {partition}")
        return [
            (one.producer_id, one.current_txn_start_offset, one.last_timestamp)
            for one in found.active_producers
        ]

    def bound(self, topic: str, partition: int, leader: tuple[int, int], which: int) -> int:
        """The first offset kept (EARLIEST) or the one behind the last (LATEST)."""
        asked = ListOffsetsRequest.ListOffsetsTopic
        place = asked.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader[1], timestamp=which
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[asked(name=topic, partitions=[place])],
            min_version=4,
            max_version=6,
        )
        (found,) = self._answer(leader[0], request).topics[0].partitions
        self.check(found.error_code, f"topic {topic!r}, partition {partition}")
        return int(found.offset)

    def fetch(
        self, topic: str, partition: int, leader: tuple[int, int], offset: int, size: int, last_epoch: int
    ) -> Callable[[], Fetched]:
        """Ask for the batches from ``offset`` on, of about ``size`` bytes; the result waits for them.

        ``last_epoch``: of the record before, -1 if it is not known; the broker compares it (KIP-320). Raises
        Moving, at once or later.
        """
        asked = FetchRequest.FetchTopic
        place = asked.FetchPartition(
            partition=partition,
            current_leader_epoch=leader[1],
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=size,
            isolation_level=_READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[asked(topic=topic, partitions=[place])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=4,
            # Later ones address topics by their id.
            max_version=12,
        )
        sent = self._sent(leader[0], request)

        def result() -> Fetched:
            response = self._received(sent)
            self.check(response.error_code, "fetch")
            if not response.responses:
                # Without any topic, and the connection's next requests wait for so long.
                raise Moving(f"broker {leader[0]} slows this user's reads by {response.throttle_time_ms} ms")
            (found,) = response.responses[0].partitions
            diverging = found.diverging_epoch
            return Fetched(
                error=found.error_code,
                records=bytes(found.records or b""),
                high_watermark=found.high_watermark,
                last_stable=found.last_stable_offset,
                aborted=tuple((t.producer_id, t.first_offset) for t in found.aborted_transactions or ()),
                diverging=(diverging.epoch, diverging.end_offset)
                if diverging is not None and diverging.end_offset >= 0
                else None,
            )

        return result

    def wait(self, seconds: float) -> None:
        """Let connections work, and be repaired, for so long."""
        self._net.poll(
            timeout_ms=int(seconds * 1000), future=self._net.call_soon_with_future(self._net.sleep, seconds)
        )

    def _connect(self, deadline: float) -> None:
        last: Exception | None = None
        while time.monotonic() < deadline:
            for broker in self._manager.cluster.bootstrap_brokers():
                try:
                    connection = self._manager.get_connection(broker.node_id)
                    self._wait_for(connection.init_future, deadline)
                    self._manager.cluster.update_metadata(self._answer(broker.node_id, self._about([])))
                    self._manager.broker_version_data = connection.broker_version_data
                except errors.NodeNotReadyError as error:
                    # It waits after an attempt before, whose error says more.
                    last = last or error
                # Unreachable: who gives the tokens.
                except (errors.KafkaError, Moving, OSError, Unreachable) as error:
                    if is_refused_login(error):
                        raise self._refused_login(error) from error
                    last = error
                else:
                    return
            self.wait(_PAUSE_SECONDS)
        if last is not None and login_remark(self._kafka).is_final and not is_away(repr(last)):
            # A session that ends when it begins, or a certificate that is refused without a word.
            raise self._refused_login(last)
        raise Unreachable(
            f"no broker of {self._servers} answered ({last}). Fix: start Kafka", ErrorCode.KAFKA_UNREACHABLE
        )

    def _any(self) -> int | str:
        found: int | str | None = self._manager.least_loaded_node()
        # All that were known may have been replaced.
        return self._manager.cluster.bootstrap_brokers()[0].node_id if found is None else found

    @staticmethod
    def _about(topics: list[str]) -> Any:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            # From 10 on with the topic's id.
            min_version=10,
            max_version=12,
        )

    def _answer(self, node: int | str, request: object) -> Any:
        return self._received(self._sent(node, request))

    def _sent(self, node: int | str, request: object) -> tuple[int | str, Any]:
        try:
            future = self._manager.send(request, node_id=node)
            # Sending queues; the first of these connects, the second writes.
            for _ in range(2):
                self._net.poll(timeout_ms=0)
        except (errors.KafkaError, RuntimeError) as error:
            raise self._meaning(error, node) from error
        return node, future

    def _received(self, sent: tuple[int | str, Any]) -> Any:
        node, future = sent
        try:
            return self._wait_for(future, time.monotonic() + self._request_seconds)
        except errors.KafkaTimeoutError as error:
            # Also those behind it would wait.
            self._manager.close(node_id=node)
            raise self._meaning(error, node) from error
        except (errors.KafkaError, RuntimeError) as error:
            raise self._meaning(error, node) from error

    def _meaning(self, error: Exception, node: int | str) -> Moving | Refused:
        if is_refused_login(error):
            return self._refused_login(error)
        if isinstance(error, errors.IncompatibleBrokerVersion):
            return Refused(f"broker {node}: {error}. Fix: read from brokers of Kafka 2.8 or later")
        return Moving(f"broker {node}: {error!r}")

    def _refused_login(self, error: Exception) -> LoginRefused:
        said = f"Kafka at {self._servers} refuses the login: {error}"
        return LoginRefused(f"{said}; {login_remark(self._kafka).text or login_fix(said)}")

    def _wait_for(self, future: Any, deadline: float) -> Any:
        self._net.poll(timeout_ms=max(1, int((deadline - time.monotonic()) * 1000)), future=future)
        if not future.is_done:
            raise errors.KafkaTimeoutError("no answer in time")
        if future.exception is not None:
            raise future.exception
        return future.value

    @staticmethod
    def check(number: int, what: str) -> None:
        """Raises what Kafka's error ``number`` means: Moving, if the same request may succeed later, else
        Refused; nothing for 0."""
        if number == 0:
            return
        error = errors.for_code(number)
        # A new election, a broker that starts, a disk that fails: as Kafka's own clients judge.
        if number < 0 or error.retriable:
            raise Moving(f"{what}: {error.__name__}")
        is_right = issubclass(error, errors.AuthorizationError)
        code = ErrorCode.KAFKA_PERMISSION if is_right else ErrorCode.REQUEST_REFUSED
        raise Refused(f"{what}: Kafka refuses the request: {error.__name__} ({number})", code)
