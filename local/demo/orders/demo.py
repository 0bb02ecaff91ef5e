"""The demo of the stream orders: the shop fills its topic, the load verifies it, a plain consumer compares."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.base import REPO, UsageError, printable
from local.demo.base import Demo
from local.demo.checks import DemoResult
from local.demo.orders import comparison, plain_consumer
from local.demo.orders.comparison import KAFKA, Lake, Place, Plain
from local.demo.orders.shop import Kind, Shop
from local.progress import ProgressDisplay
from local.runtime.ports import HOST
from local.runtime.registry_access import registry_section
from local.stack import lake as details
from local.stack.base import BaseStack
from local.stack.lake import Offsets
from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.stream import StreamSpec
from sluice.core.offsets.ranges import OffsetRanges

STREAM = "orders"
# A folder of SLUICE_STREAMS.
FOLDER = REPO / "samples" / "streams"
# Role of the shop's login at the registry: the one that may register schemas.
_REGISTRY_ROLE = "producer"


class OrdersDemo(Demo):
    """The shop is another company's program: Kafka's superuser, since no role may create or fill the topic."""

    def __init__(self) -> None:
        super().__init__(STREAM)
        self._sent: Mapping[Place, Kind] = {}
        self._settings: Mapping[str, Any] = {}
        self._reasons: Mapping[str, int] = {}

    def prepare(self, stack: BaseStack, board: ProgressDisplay) -> None:
        if stack.context.external is not None:
            raise UsageError(
                "the demo of orders creates and fills a topic as superuser, and Kafka is external "
                "(SLUICE_EXTERNAL). Fix: run it on an embedded stack, with another SLUICE_HOME"
            )
        with board.step("the shop sends its orders"):
            shop = self._shop(stack)
            shop.create_topic()
            self._sent = shop.send()
            self._settings = shop.settings()

    def _shop(self, stack: BaseStack) -> Shop:
        return Shop(stack.kafka("admin"), registry_settings(stack), self.spec.topic.name)

    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        name = self.spec.topic.name
        topic = topic_offsets(stack.platform("reader").kafka, name)
        kafka, registry = stack.kafka("admin"), registry_settings(stack)
        versions = SchemaRegistryClient(registry).get_versions(f"{name}-value")
        plain = Plain(
            set(places(OffsetRanges.of({partition: [span] for partition, span in topic.items()}))),
            plain_consumer.delivered(kafka, name),
            plain_consumer.committed(kafka, registry, name),
            len(versions),
        )
        found = read(stack, self.spec, topic)
        settings = self._shop(stack).settings()
        changed = sorted(
            setting
            for setting in settings.keys() | self._settings.keys()
            if settings.get(setting) != self._settings.get(setting)
        )
        self._reasons = comparison.reasons(found)
        columns = [column for column in self.spec.columns if column not in self._added]
        return comparison.result(self._sent, found, plain, columns, changed)

    @property
    def _added(self) -> Iterable[str]:
        return self.spec.records.added_columns if self.spec.records else ()

    def show(self, stack: BaseStack, console: Console) -> None:
        table = Table("quarantined", "reason")
        for reason, count in self._reasons.items():
            table.add_row(f"{count:,}", Text(printable(reason)))
        console.print(table)


def registry_settings(stack: BaseStack) -> dict[str, str]:
    """Of Confluent's client, for the shop and its consumer."""
    section = registry_section(_REGISTRY_ROLE, stack.context.network, stack.secrets)
    # Its client has no setting that leaves out a proxy of the environment.
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(dict.fromkeys(filter(None, [*os.environ.get(name, "").split(","), HOST])))
    return {
        "url": str(section["url"]),
        "basic.auth.user.info": f"{section['username']}:{section['password']}",
    }


def read(stack: BaseStack, spec: StreamSpec, topic: Offsets) -> Lake:
    """The rows of `main`, the quarantine, and what the batches say of the other offsets."""
    table, quarantine = details.tables(stack, spec)
    rows = details.read(table, (*spec.columns, *KAFKA)).read_all().to_pylist()
    rejected = details.read(quarantine, (*KAFKA, "reason")).read_all().to_pylist()
    offsets = OffsetRanges.of({partition: [span] for partition, span in topic.items()})
    account = stack.systems("airflow").batch_log(spec.table).without_record(offsets)
    return Lake(
        rows,
        sorted({(comparison.place_of(row), str(row["reason"])) for row in rejected}),
        frozenset(places(account.control)),
        frozenset(places(account.aborted)),
        frozenset(places(account.absent)),
    )


def places(offsets: OffsetRanges) -> Iterable[Place]:
    """Each of them."""
    for partition, ranges in offsets.partitions.items():
        for begin, until in ranges:
            yield from ((partition, offset) for offset in range(begin, until))
