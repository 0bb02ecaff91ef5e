"""The real producer of wiki_changes as a subprocess, on a real Kafka and PostgreSQL, and what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from local.paths import REPO
from sluice.model import stream
from tests.support.services import Services

NAME = "wiki_changes"
SPEC = stream.load(NAME)
TOPIC = SPEC.topic.name
PARTITIONS = SPEC.topic.partitions


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: dict[str, bytes]

    @property
    def event_id(self) -> str:
        return self.headers["event-id"].decode()

    @property
    def seq(self) -> int:
        return int(self.headers["feed-seq"])


class Running:
    """One producer process. ``log`` is what it said so far."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, number: int) -> None:
        self._log = folder / f"producer-{number}.log"
        self._out = folder / f"producer-{number}.out"
        with self._log.open("wb") as log, self._out.open("wb") as out:
            self.process = subprocess.Popen(command, env=environment, cwd=REPO, stdout=out, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def result(self) -> dict[str, Any]:
        """What a bounded run said last."""
        return dict(json.loads(self._out.read_text().splitlines()[-1]))

    def ends(self, seconds: float = 60) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(
                f"the producer has not ended in {seconds:g} s:\n{self.log[-4000:]}"
            ) from error

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        used = psutil.Process(self.process.pid).cpu_times()
        return used.user + used.system

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


class Feeding:
    """Producers of one topic, reading the feed at ``url``; :meth:`close` ends those that still run."""

    def __init__(self, services: Services, folder: Path, url: str) -> None:
        self.services = services
        self._folder = folder
        services.make_topic(TOPIC, PARTITIONS)
        wait_for("leaders of its partitions", self._has_leaders)
        services.postgres()
        platform = services.stack.home.platform / "producer.toml"
        own = folder / "producer.toml"
        own.touch(mode=0o600)
        own.write_text(f'{platform.read_text()}\n[feeds]\n{NAME} = "{url}"\n')
        self._environment = os.environ | {
            "SLUICE_PLATFORM_DIR": str(folder),
            "PYTHONPATH": f"{REPO}:{REPO / 'plugins'}",
            "PYTHONFAULTHANDLER": "1",
        }
        self._started: list[Running] = []

    def start(self, *options: str) -> Running:
        command = [sys.executable, str(SPEC.part("producer").script), *options]
        running = Running(command, self._environment, self._folder, len(self._started))
        self._started.append(running)
        return running

    def close(self) -> None:
        for running in self._started:
            if running.process.poll() is None:
                running.kill()

    def admin(self) -> AdminClient:
        return AdminClient({**self.services.kafka, "log_level": 0})

    def beat(self) -> tuple[dict[str, Any], dict[int, int]] | None:
        """The producer's newest heartbeat, and the offsets with it."""
        # As a consumer of the group that never joins it: librdkafka's AdminClient crashes on this question
        # while a broker looks for the group's coordinator.
        consumer = Consumer({**self.services.kafka, "group.id": f"sluice-{NAME}-producer", "log_level": 0})
        wanted = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        found = consumer.committed(wanted, timeout=20)
        consumer.close()
        texts = [place.metadata for place in found if place.metadata]
        return (json.loads(texts[0]), {p.partition: p.offset for p in found}) if texts else None

    def records(self) -> list[Record]:
        """The whole topic, each partition in its order."""
        consumer = Consumer(
            {**self.services.kafka, "group.id": "sluice-reader-test", "log_level": 0}
            | {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=20)[1]
            for partition in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        found: list[Record] = []
        deadline = time.monotonic() + 60
        while len(found) < sum(ends.values()):
            assert time.monotonic() < deadline, f"read {len(found)} of {ends}"
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                headers = dict(message.headers() or ())
                found.append(
                    Record(message.partition(), message.offset(), message.key(), message.value(), headers)
                )
        consumer.close()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def _has_leaders(self) -> bool:
        try:
            return self.count() == 0
        except KafkaException:
            return False

    def count(self) -> int:
        """How many records the topic holds."""
        consumer = Consumer({**self.services.kafka, "group.id": "sluice-reader-test", "log_level": 0})
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
        total = sum(consumer.get_watermark_offsets(place, timeout=20)[1] for place in places)
        consumer.close()
        return total


def wait_for(what: str, is_so: Callable[[], object], seconds: float = 30, pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(pause)
