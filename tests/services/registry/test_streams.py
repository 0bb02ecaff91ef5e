"""Streams over a registry, by the processes of the stack: one that registers its schema itself, and the
example whose topic a shop fills."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from rich.console import Console

from local.base import EXAMPLES, REPO
from local.demo.orders.demo import OrdersDemo
from local.demo.orders.shop import plan
from local.progress import ProgressDisplay
from local.services import kafka as broker
from sluice.airflow import forms
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.objects import Bucket
from sluice.config import streams
from sluice.config.folders import STREAMS, VARIABLE
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import StreamSpec
from sluice.core.registry.errors import IncompatibleVersion, UnknownSchema
from sluice.core.registry.framing import PREFIX_BYTES
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import schema
from sluice.loads.sources.csv_object import select_objects
from spark_jobs.common.producer.run import frame_of
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.stream_processes import consuming, send

# The taxi stream under another name, since the stack's own stays without a registry.
NAME = "trips"
ROWS = 40
SAMPLE = REPO / "samples" / "nyc_taxi" / "taxi-data.csv.gz"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("streams"))
    made.kafka, made.minio, made.registry  # noqa: B018
    yield made
    made.stop()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    found = os.pathsep.join([str(tmp_path / "streams"), str(EXAMPLES)])
    monkeypatch.setenv(VARIABLE, found)
    return found


def declare(tmp_path: Path, *, registry: bool) -> StreamSpec:
    """The taxi stream as ``trips``, with and without ``registry = true``."""
    folder = tmp_path / "streams" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    taxi = STREAMS / "nyc_taxi"
    text = (taxi / "stream.toml").read_text()
    for old, new in (
        ('"nyc_taxi"', f'"{NAME}"'),
        ("raw.nyc_taxi", f"raw.{NAME}"),
        ("nyc_taxi/", f"{NAME}/"),
        ("nyc-avro-topic", f"{NAME}-topic"),
        ("partitions = 10", "partitions = 2"),
        ("[topic]\n", "[topic]\nregistry = true\n" if registry else "[topic]\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "stream.toml").write_text(text)
    (folder / "schema.avsc").write_text((taxi / "schema.avsc").read_text())
    return streams.load(NAME)


class Load:
    """A load of one file, by its steps: provisioned, planned, and sent by the producer's process."""

    def __init__(self, services: Services, spec: StreamSpec, folders: str) -> None:
        self.services, self.spec, self.folders = services, spec, folders

    def send(self, run: str, lines: list[str]) -> str:
        systems = self.services.stack.systems("airflow")
        platform = systems.platform
        schema.register(systems, self.spec)
        self.services.minio.put_object(
            Bucket=platform.source.bucket, Key=f"{NAME}/{run}.csv", Body="\n".join(lines).encode()
        )
        ledger = Ledger(self.services.minio, platform.lake.ledger, NAME)
        planner = LoadPlanner(
            ledger,
            KafkaAdmin(platform.kafka),
            self.spec.topic.name,
            forms.defaults(self.spec),
            rules=lambda: SendingRules.of(self.spec, MAX_MESSAGE_BYTES),
        )
        select = partial(select_objects, ledger, Bucket(self.services.minio, platform.source.bucket))
        planner.pin(run, {"objects": [f"{NAME}/{run}.csv"]}, select)
        return send(self.services, self.spec, ledger.uri(run_key(run, "plan")), self.folders)


def messages(services: Services, topic: str) -> Iterator[Message]:
    """All records of a topic, of a partition in their order."""
    consumer = Consumer({**services.kafka, "group.id": "test", "log_level": 0})
    with closing(consumer):
        for partition, (begin, end) in topic_offsets(services.stack.platform("reader").kafka, topic).items():
            consumer.assign([TopicPartition(topic, partition, begin)])
            for _ in range(begin, end):
                message = consumer.poll(20)
                assert message is not None
                assert message.error() is None
                yield message


def confluents(services: Services, role: str = "reader") -> SchemaRegistryClient:
    registry = services.stack.platform(role).need_registry()
    login = f"{registry.username}:{registry.password}"
    return SchemaRegistryClient.new_client({"url": registry.url, "basic.auth.user.info": login})


def table_rows(services: Services, table: str) -> dict[tuple[int, int], dict[str, Any]]:
    """The published rows, by partition and offset."""
    with closing(Lake.open(services.stack.platform("reader"))) as lake:
        rows = lake.table(table).scan().to_arrow().to_pylist()
    found = {(row["_kafka_partition"], row["_kafka_offset"]): row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.exhaustive
def test_the_taxi_stream_registers_its_schema_and_confluents_deserializer_reads_its_rows(
    services: Services, folders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    header, *lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()[: 2 * ROWS + 1]
    spec = declare(tmp_path, registry=False)
    services.make_topic(spec.topic.name, spec.topic.partitions)
    # Records of before, which name their schema by a header.
    Load(services, spec, folders).send("plain", [header, *lines[:ROWS]])

    spec = declare(tmp_path, registry=True)
    producer = services.stack.platform("producer")
    with raising(UnknownSchema, f"'{NAME}-topic-value'", "provision_topic"):
        frame_of(spec, producer)
    said = Load(services, spec, folders).send("framed", [header, *lines[ROWS:]])
    version = confluents(services).get_latest_version(f"{NAME}-topic-value")
    assert f"schema id={version.schema_id} topic={NAME}-topic" in said
    assert "HTTP Request" not in said, "a line for each"
    # Again: no second version.
    schema.register(services.stack.systems("airflow"), spec)
    assert confluents(services).get_versions(f"{NAME}-topic-value") == [version.version]
    assert frame_of(spec, producer) == b"\0" + (version.schema_id or 0).to_bytes(4, "big")

    with consuming(services, spec, folders, tmp_path / "consumer.log"):
        pass
    rows = table_rows(services, spec.table)
    assert len(rows) == 2 * ROWS
    read = AvroDeserializer(confluents(services))
    columns = [field["name"] for field in json.loads(spec.schema_file.read_text())["fields"]]
    framed, keys = 0, set()
    for message in messages(services, spec.topic.name):
        row, value = rows[message.partition() or 0, message.offset() or 0], message.value() or b""
        keys.add(message.key())
        if message.headers():
            continue
        framed += 1
        assert value[:PREFIX_BYTES] == frame_of(spec, producer)
        found = read(value, SerializationContext(spec.topic.name, MessageField.VALUE))
        assert isinstance(found, dict)
        known = {name: dict(one) if isinstance(one := row[name], list) else one for name in columns}
        assert known == found
    assert (framed, len(keys)) == (ROWS, 2 * ROWS)

    # A version that the subject's rule refuses ends the first step, and nothing is planned or sent.
    tree = json.loads(spec.schema_file.read_text())
    tree["fields"].append({"name": "surcharge", "type": "double"})
    spec.schema_file.write_text(json.dumps(tree))
    with raising(IncompatibleVersion, f"'{NAME}-topic-value'", "surcharge", "Fix: "):
        schema.register(services.stack.systems("airflow"), spec)
    assert confluents(services).get_versions(f"{NAME}-topic-value") == [version.version]


def test_the_orders_of_the_example_are_all_found_again_by_the_demos_own_checks(
    services: Services, folders: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``local/run demo orders`` without Airflow: the shop, the consumer's process, and the comparison."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    demo, stack = OrdersDemo(), services.stack
    # The roles' rights, which a stack has given before.
    broker.provision(stack.context, [], [], {demo.spec.topic.name: demo.spec.topic.start_group})
    demo.prepare(stack, ProgressDisplay())
    with consuming(services, demo.spec, folders, tmp_path / "consumer.log"):
        pass
    result = demo.collect(stack, Console(quiet=True), {})
    assert result.failures == []
    figures = result.to_json()
    assert figures["sent"] == sum(step.count for step in plan())
    assert (
        figures["lake_rows"] + figures["quarantined"] + figures["control"] + figures["aborted"]
        == (figures["topic_offsets"])
    )
