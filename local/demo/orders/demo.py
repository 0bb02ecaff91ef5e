"""The demo: the shop fills its topic, the stream reads it, and all of it is compared."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.schema_registry.error import SchemaRegistryError
from pyiceberg.expressions import AlwaysTrue
from rich.console import Console

from local.base import EXAMPLES, UsageError, one_line
from local.demo.base import Demo
from local.demo.checks import DemoResult
from local.demo.orders import plain_consumer
from local.demo.orders.comparison import ADDED, PLACE, Row, Settings, Table, Topic, result
from local.demo.orders.shop import Kind, Place, Shop, plan
from local.progress import ProgressDisplay
from local.stack import lake as details
from local.stack.base import BaseStack
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.reading import files
from sluice.core.offsets.ranges import OffsetRanges

STREAM = "orders"


class OrdersDemo(Demo):
    """Some thousand records of a topic that the shop creates and fills, as Kafka's superuser: no role of the
    stack may."""

    folder = EXAMPLES

    def __init__(self) -> None:
        super().__init__(STREAM)
        declared = json.loads((EXAMPLES / STREAM / self.spec.schema).read_text())
        self._columns = [one["name"] for one in declared["fields"]]
        self._steps = plan()
        self._sent: dict[Place, Kind] = {}
        self._settings = Settings()

    def prepare(self, stack: BaseStack, board: ProgressDisplay) -> None:
        if stack.context.external is not None:
            raise UsageError(
                f"the demo of {STREAM} fills a topic of the embedded Kafka, and this stack's is external "
                "(SLUICE_EXTERNAL). Fix: run it with another SLUICE_HOME, and SLUICE_EXTERNAL empty"
            )
        # Confluent's client of the registry heeds a proxy of the environment, which reaches no loopback.
        os.environ.update({name: stack.context.environment()[name] for name in ("NO_PROXY", "no_proxy")})
        shop = self._shop(stack)
        try:
            with board.step(f"the shop fills topic {shop.topic}"):
                shop.create_topic()
                self._settings = Settings(before=shop.settings())
                self._sent = shop.send(self._steps)
        except (KafkaException, SchemaRegistryError) as error:
            raise UsageError(f"the shop cannot fill topic {shop.topic}: {one_line(error)}") from error

    def _shop(self, stack: BaseStack) -> Shop:
        return Shop(stack.kafka("admin"), _registry(stack, "producer"), self.spec.topic.name)

    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        shop = self._shop(stack)
        topic = self._topic(stack)
        return result(
            self._steps,
            self._sent,
            topic,
            self._table(stack, topic.ends),
            self._columns,
            shop.versions(),
            replace(self._settings, after=shop.settings()),
        )

    def _topic(self, stack: BaseStack) -> Topic:
        name, kafka = self.spec.topic.name, stack.kafka("admin")
        return Topic(
            topic_offsets(stack.platform("reader").kafka, name),
            plain_consumer.committed(kafka, _registry(stack, "reader"), name),
            plain_consumer.delivered(kafka, name),
        )

    def _table(self, stack: BaseStack, topic: details.Offsets) -> Table:
        """What it has of the offsets that the topic still keeps."""
        lake, quarantine = details.tables(stack, self.spec)
        columns = (*self._columns, *ADDED)
        rows = [row for batch in details.read(lake, columns) for row in batch.to_pylist()]
        refused = files.quarantined(quarantine, AlwaysTrue())
        every = OffsetRanges.of({part: [ends] for part, ends in topic.items()})
        return Table(
            [row for row in rows if is_kept(row, topic)],
            {place_of(row): str(row["reason"]) for row in refused if is_kept(row, topic)},
            stack.systems("reader").batch_log(self.spec.table).without_record(every),
        )


def place_of(row: Row) -> Place:
    return row[PLACE[0]], row[PLACE[1]]


def is_kept(row: Row, topic: details.Offsets) -> bool:
    """False for a record that the topic had, and keeps no more."""
    partition, offset = place_of(row)
    return offset >= topic.get(partition, (0, 0))[0]


def _registry(stack: BaseStack, role: str) -> dict[str, Any]:
    """The settings of Confluent's client, with a role's rights."""
    registry = stack.platform(role).need_registry()
    return {"url": registry.url, "basic.auth.user.info": f"{registry.username}:{registry.password}"}
