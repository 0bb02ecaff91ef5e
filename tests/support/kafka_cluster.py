"""Three brokers on this machine, on an address of loopback each: what leaders, replicas and their end do."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.protocol.admin import AlterClientQuotasRequest, ElectLeadersRequest

from local.runtime.context import Context
from local.runtime.home import StackDir
from local.services import kafka
from local.stack.stack import Stack, wait_until
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.responses import Moving
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from tests.support.jvm import QUICK

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
START_SECONDS = 120
# Kafka's number of the type of election.
_UNCLEAN = 1


class KafkaCluster:
    """Brokers 1 to 3, which a test may kill and start again."""

    def __init__(self, folder: Path) -> None:
        stack = Stack(folder, free_ports=True, java_options=QUICK)
        stack.home.prepare()
        stack.home.remember(ports=stack.ports)
        self._contexts = [self._node(stack.context, number) for number in range(1, len(HOSTS) + 1)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(1, len(HOSTS) + 1):
            self.start(number)
        self.admin = AdminClient({**self.config, "log_level": 0})
        wait_until("three brokers", lambda: len(self._brokers()) == len(HOSTS), START_SECONDS, 0.2)

    @property
    def kafka(self) -> Kafka:
        """The superuser's login."""
        servers = self._contexts[0].network.bootstrap_servers
        password = self._contexts[0].secrets["kafka_admin"]
        return Kafka(servers, "SASL_PLAINTEXT", "PLAIN", kafka.ADMIN, password)

    @property
    def config(self) -> dict[str, Any]:
        return librdkafka(self.kafka)

    def make_topic(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        partitions: int = 1,
        assignment: list[list[int]] | None = None,
    ) -> None:
        """``assignment``: the brokers of each partition; by default all three."""
        placed: dict[str, Any] = (
            {"replica_assignment": assignment} if assignment else {"replication_factor": 3}
        )
        topic = NewTopic(name, partitions, config=dict(config or {}), **placed)
        self.admin.create_topics([topic])[name].result(30)
        wait_until(f"leaders of {name}", lambda: len(self.leaders(name)) == partitions, 30, 0.1)

    def configure(self, name: str, values: Mapping[str, str]) -> None:
        """Change configurations of a topic."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        (future,) = self.admin.incremental_alter_configs([resource]).values()
        future.result(30)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(30)
        wait_until(f"the end of {name}", lambda: not self.leaders(name), 30, 0.1)

    def leaders(self, name: str) -> dict[int, int]:
        """Partition -> the broker that leads it."""
        found = self.admin.list_topics(name, timeout=10).topics[name]
        return {p: partition.leader for p, partition in found.partitions.items() if partition.leader > 0}

    def elect_uncleanly(self, name: str) -> dict[int, int]:
        """Let a broker lead partition 0 that has not all of its records, if no other lives; the leaders now.
        By itself the controller does so at once or in five minutes, as it happens."""
        # Not by AdminClient.elect_leaders: it fails in itself (confluent-kafka 2.16.1).
        asked = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])
        request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=[asked], timeout_ms=10_000)
        with suppress(Moving), Brokers(self.kafka) as brokers:
            brokers._answer(brokers._any(), request)
        return self.leaders(name)

    def in_sync(self, name: str) -> set[int]:
        """The brokers that have all records of partition 0."""
        return set(self.admin.list_topics(name, timeout=10).topics[name].partitions[0].isrs)

    def limit_reading(self, bytes_per_second: float | None) -> None:
        """Set the superuser's quota for fetches, or remove it."""
        asked = AlterClientQuotasRequest.EntryData
        entry = asked(
            entity=[asked.EntityData(entity_type="user", entity_name=kafka.ADMIN)],
            ops=[
                asked.OpData(
                    key="consumer_byte_rate",
                    value=bytes_per_second or 0.0,
                    remove=bytes_per_second is None,
                )
            ],
        )
        with Brokers(self.kafka) as brokers:
            answer = brokers._answer(
                brokers._any(), AlterClientQuotasRequest(entries=[entry], validate_only=False)
            )
        assert [found.error_code for found in answer.entries] == [0]

    def signal(self, number: int, what: Signals) -> None:
        self._running[number].send_signal(what)

    def start(self, number: int) -> None:
        if number in self._running:
            raise ValueError(f"broker {number} runs already")
        context = self._contexts[number - 1]
        kafka.prepare(context)
        program = kafka.program(context)
        with (context.home.logs / "kafka.log").open("ab") as out:
            self._running[number] = subprocess.Popen(
                list(program.command),
                env=dict(program.environment),
                cwd=program.directory,
                stdout=out,
                stderr=out,
            )

    def kill(self, number: int) -> None:
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def restart(self, number: int) -> None:
        """Start one that was killed, and wait until it serves clients."""
        self.start(number)
        # By its own answer: the others go on naming one that died for some seconds.
        port = self._contexts[0].ports["kafka"]
        alone = AdminClient(
            {**self.config, "bootstrap.servers": f"{HOSTS[number - 1]}:{port}", "log_level": 0}
        )
        wait_until(f"broker {number}", lambda: number in self._brokers(alone), START_SECONDS, 0.2)

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        deadline = time.monotonic() + 20
        for process in self._running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _brokers(self, admin: AdminClient | None = None) -> set[int]:
        try:
            return set((admin or self.admin).list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    @staticmethod
    def _node(context: Context, number: int) -> Context:
        home = StackDir(context.home.root / f"node-{number}")
        home.prepare()
        network = replace(context.network, bind=HOSTS[number - 1], brokers=HOSTS, node=number)
        return replace(context, home=home, network=network)
