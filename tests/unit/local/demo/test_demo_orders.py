"""The demo of a topic of others: what the shop sends, and what must hold of its table."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.error import KafkaError

from local.base import EXAMPLES, REPO, UsageError
from local.commands import stack as commands
from local.demo.checks import DemoResult
from local.demo.orders import plain_consumer, shop
from local.demo.orders.comparison import (
    ADDED,
    Row,
    Settings,
    Table,
    Topic,
    differences,
    expected_row,
    found_row,
    result,
)
from local.demo.orders.demo import OrdersDemo, is_kept
from local.demo.orders.plain_consumer import Record
from local.demo.orders.shop import UNREADABLE_KINDS, VERSIONS, Kind, Place, Shop, Step, plan
from local.demo.run import chosen
from local.progress import ProgressDisplay
from local.stack.stack import Stack
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from tests.support.raising import raising

TOPIC = "shop.orders"
REGISTRY = {"url": "mock://registry"}


# What the shop sends.


@dataclass
class Message:
    """As of confluent-kafka; of an acknowledged record, or of one that is read."""

    at: Place
    sent: bytes | None = None
    key_text: str = ""
    sent_headers: list[tuple[str, bytes]] = field(default_factory=list)

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes:
        return self.key_text.encode()

    def value(self) -> bytes | None:
        return self.sent

    def headers(self) -> list[tuple[str, bytes]]:
        return self.sent_headers


class Broker:
    """Takes what producers send to one partition, with what they do of transactions."""

    def __init__(self) -> None:
        self.log: list[Message | str] = []
        self.refuses = ""

    def producer(self, settings: dict[str, Any]) -> FakeProducer:
        return FakeProducer(self, "transactional.id" in settings)

    @property
    def records(self) -> list[Message]:
        return [one for one in self.log if isinstance(one, Message)]


class FakeProducer:
    def __init__(self, broker: Broker, is_transactional: bool) -> None:
        self.broker, self.is_transactional = broker, is_transactional
        self.waiting: list[tuple[Message, Callable[..., None]]] = []

    def init_transactions(self, seconds: float) -> None: ...

    def begin_transaction(self) -> None:
        assert self.is_transactional
        self.broker.log.append("begin")

    def commit_transaction(self, seconds: float) -> None:
        assert not self.waiting
        self.broker.log.append("commit")

    def abort_transaction(self, seconds: float) -> None:
        assert not self.waiting
        self.broker.log.append("abort")

    def produce(
        self, topic: str, value: bytes | None, key: str, headers: Any, on_delivery: Callable[..., None]
    ) -> None:
        assert topic == TOPIC
        message = Message((0, len(self.broker.log)), value, key, headers)
        self.broker.log.append(message)
        self.waiting.append((message, on_delivery))

    def poll(self, seconds: float) -> None: ...

    def flush(self, seconds: float) -> None:
        for message, told in self.waiting:
            refused = self.broker.refuses and self.broker.refuses in str(message.sent_headers)
            told(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if refused else None, message)
        self.waiting.clear()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(shop, "Producer", made.producer)
    return made


@pytest.fixture
def seller() -> Shop:
    return Shop({"bootstrap.servers": "127.0.0.1:1"}, REGISTRY, TOPIC)


def test_the_plan_has_every_kind_and_both_versions() -> None:
    planned: Counter[Kind] = Counter()
    for step in plan():
        planned[step.kind] += step.count
    assert planned.keys() == set(Kind)
    assert planned[Kind.ORDER] > 2_000
    # Else the load would fail: `max_quarantined_percent` of its form is 5.
    assert sum(planned[kind] for kind in UNREADABLE_KINDS) < 0.05 * planned.total()
    assert {step.version for step in plan()} == set(range(len(VERSIONS)))
    assert [step.in_transaction for step in plan() if step.kind is Kind.ABORTED] == [True]
    assert {step.in_transaction for step in plan() if step.kind is Kind.ORDER} == {True, False}


def test_what_is_sent_is_as_planned_and_a_plain_consumer_reads_it(broker: Broker, seller: Shop) -> None:
    steps = [
        Step(0, Kind.ORDER, 2),
        Step(0, Kind.ABORTED, 1),
        Step(0, Kind.CANCELLED, 1),
        *(Step(version, kind, 2, False) for version in (0, 1) for kind in UNREADABLE_KINDS),
        Step(1, Kind.ORDER, 1),
    ]
    sent = seller.send(steps)
    marks = [one if isinstance(one, str) else "" for one in broker.log]
    assert marks[:10] == ["begin", "", "", "commit", "begin", "", "abort", "begin", "", "commit"]
    assert Counter(sent.values()) == {
        Kind.ORDER: 3,
        Kind.ABORTED: 1,
        Kind.CANCELLED: 1,
        **dict.fromkeys(UNREADABLE_KINDS, 4),
    }
    reader = plain_consumer.reader(seller._registry, TOPIC)
    for message in broker.records:
        kind, record = sent[message.at], reader(message)  # type: ignore[arg-type]
        assert dict(record.headers)["kind"] == kind.encode()
        assert bool(record.error) is (kind in UNREADABLE_KINDS)
        assert (record.value is None) is (kind not in (Kind.ORDER, Kind.ABORTED))
        if record.value is not None:
            assert record.key == str(record.value["order_id"])
    assert seller.versions() == 2
    first, *_, last = broker.records
    assert set(reader(last).value or {}) - set(reader(first).value or {}) == {"channel"}  # type: ignore[arg-type]


def test_a_record_that_kafka_does_not_take_ends_the_sending(broker: Broker, seller: Shop) -> None:
    broker.refuses = "order"
    with raising(KafkaException, "MSG_SIZE_TOO_LARGE"):
        seller.send([Step(0, Kind.ORDER, 1)])


def test_a_topic_that_the_broker_learns_of_later_is_waited_for(
    seller: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: Future[None] = Future()
    created.set_result(None)
    answers: list[int | None] = [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_OR_PART, None]

    def settings() -> dict[str, Any]:
        code = answers.pop(0)
        if code is not None:
            raise KafkaException(KafkaError(code))
        return {}

    monkeypatch.setattr(seller, "_admin", SimpleNamespace(create_topics=lambda _: {TOPIC: created}))
    monkeypatch.setattr(seller, "settings", settings)
    seller.create_topic()
    assert answers == []
    answers.append(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with raising(KafkaException, "TOPIC_AUTHORIZATION_FAILED"):
        seller.create_topic()
    monkeypatch.setattr(shop, "SECONDS", -1.0)
    answers.append(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with raising(KafkaException, "UNKNOWN_TOPIC_OR_PART"):
        seller.create_topic()


def test_orders_of_the_example_have_the_fields_of_its_schema() -> None:
    declared = json.loads((EXAMPLES / "orders" / "schema.avsc").read_text())["fields"]
    assert [{key: one[key] for key in one if key != "doc"} for one in declared] == shop.ORDER_FIELDS
    numbers = [one["order_id"] for one in islice(shop.new_orders(), 5)]
    assert numbers == list(range(numbers[0], numbers[0] + 5))


# What must hold of the table.

COLUMNS = ("order_id", "items")
HEADERS: list[tuple[str, bytes | None]] = [("kind", b"order")]
STEPS = [Step(0, kind, 1) for kind in Kind]
PLACES: dict[Kind, Place] = {kind: (0, number) for number, kind in enumerate(Kind)}
REASON = {
    Kind.NOT_FRAMED: "starts with 7B, not Confluent's wire format (00 and a schema id)",
    Kind.UNKNOWN_SCHEMA: "schema id 7 is unknown to the schema registry 'embedded'",
    Kind.TRUNCATED: "not an Avro body of Order",
}


def row(place: Place, **changes: Any) -> Row:
    headers = [{"key": name, "value": value} for name, value in HEADERS]
    return (
        dict(
            zip(
                ("order_id", "items", *ADDED),
                (1, ["a"], "1", headers, '{"channel":"app"}', *place),
                strict=True,
            )
        )
        | changes
    )


def green() -> dict[str, Any]:
    order = Record("1", {"order_id": 1, "items": ["a"], "channel": "app"}, HEADERS)
    committed = {
        PLACES[Kind.ORDER]: order,
        PLACES[Kind.CANCELLED]: replace(order, value=None),
        **{PLACES[kind]: Record("1", error="no") for kind in UNREADABLE_KINDS},
    }
    marker = (0, len(Kind))
    places = set(PLACES.values())
    empty = dict.fromkeys(("order_id", "items", "_unknown_fields"))
    return {
        "steps": STEPS,
        "sent": {place: kind for kind, place in PLACES.items()},
        "topic": Topic({0: (0, marker[1] + 1)}, committed, places),
        "table": Table(
            [row(PLACES[Kind.ORDER]), row(PLACES[Kind.CANCELLED], **empty)],
            {PLACES[kind]: REASON[kind] for kind in UNREADABLE_KINDS},
            WithoutRecord(control=ranges(marker), aborted=ranges(PLACES[Kind.ABORTED])),
        ),
        "columns": COLUMNS,
        "versions": 2,
        "settings": Settings({"retention.ms": "1"}, {"retention.ms": "1"}),
    }


def ranges(*places: Place) -> OffsetRanges:
    return OffsetRanges.of({part: [(offset, offset + 1)] for part, offset in places})


def changed(**changes: Any) -> DemoResult:
    """With other fields of the table; or another argument."""
    given = green()
    of_table = {name: changes.pop(name) for name in list(changes) if hasattr(given["table"], name)}
    given["table"] = replace(given["table"], **of_table)
    return result(**{**given, **changes})


def test_a_demo_that_is_as_it_must_be() -> None:
    found = changed()
    assert found.failures == []
    assert found.to_json() == {
        "sent": 6,
        "topic_offsets": 7,
        "lake_rows": 2,
        "tombstones": 1,
        "unknown_fields": 1,
        "different_rows": 0,
        "quarantined": 3,
        "not_framed": 1,
        "unknown_schema_id": 1,
        "truncated": 1,
        "control": 1,
        "aborted": 1,
        "gaps": 0,
        "duplicates": 0,
        "schema_versions": 2,
        "changed_settings": 0,
    }


def failures() -> Iterator[tuple[dict[str, Any], list[str]]]:
    given = green()
    rows, quarantined, without = (getattr(given["table"], one) for one in ("rows", "quarantined", "without"))
    yield {"rows": rows[1:]}, ["1 offsets of the topic are neither", "1 rows differ", "no row has a text"]
    yield {"rows": [*rows, rows[0]]}, ["1 records are in the lake more than once"]
    yield {"rows": [row(PLACES[Kind.ORDER], items=["b"]), rows[1]]}, ["1 rows differ"]
    yield {"rows": [*rows, row((0, 9))]}, ["1 rows differ from a plain consumer's records: 0:9 has a row"]
    yield {"rows": [*rows, row(PLACES[Kind.ABORTED])]}, ["0:2 has a row, and no record"]
    yield (
        {"without": replace(without, aborted=ranges())},
        [
            "1 records sent as aborted are not found as such",
            "1 offsets of the topic are neither",
            "0 offsets are accounted for as aborted, and plain consumers find 1",
        ],
    )
    yield (
        {"without": replace(without, absent=ranges((0, 6)), control=ranges())},
        ["0 offsets are accounted for as control", "1 offsets are accounted for as absent"],
    )
    unsaid = {**quarantined, PLACES[Kind.TRUNCATED]: "something else"}
    yield {"quarantined": unsaid}, ["1 records sent as truncated are not found as such"]
    yield (
        {
            "quarantined": {
                place: said for place, said in quarantined.items() if place != PLACES[Kind.NOT_FRAMED]
            }
        },
        ["records sent as not framed", "1 offsets", "a plain consumer cannot read 3 records, and 2 are"],
    )
    fewer = {place: kind for place, kind in given["sent"].items() if kind is not Kind.CANCELLED}
    yield {"sent": fewer}, ["1 records of kind cancelled were to be sent, and 0 were"]
    other = given["sent"] | {PLACES[Kind.CANCELLED]: Kind.ORDER, PLACES[Kind.ORDER]: Kind.CANCELLED}
    yield {"sent": other}, ["1 records sent as order are not", "1 records sent as cancelled are not"]
    yield {"versions": 1}, ["the registry has 1 versions, and not 2"]
    yield (
        {"settings": Settings({"retention.ms": "1"}, {"rights": []})},
        ["of the topic retention.ms, rights changed"],
    )


@pytest.mark.parametrize(("changes", "said"), list(failures()))
def test_each_thing_that_must_not_be(changes: dict[str, Any], said: list[str]) -> None:
    found = changed(**changes).failures
    assert len(found) == len(said)
    for failure, text in zip(found, said, strict=True):
        assert text in failure


def test_a_row_has_all_that_was_sent() -> None:
    bare = Record("k", {"order_id": 1, "items": []})
    assert expected_row(bare, COLUMNS) == {
        "order_id": 1, "items": [], "key": "k", "headers": None, "_unknown_fields": None
    }  # fmt: skip
    assert found_row(row((0, 1), headers=None, _unknown_fields=None))["headers"] is None
    given = green()
    for change in ({"key": "2"}, {"headers": None}, {"_unknown_fields": '{"channel":"web"}'}):
        table = replace(given["table"], rows=[row(PLACES[Kind.ORDER], **change), given["table"].rows[1]])
        assert len(differences(given["topic"], table, COLUMNS)) == 1


def test_what_the_topic_keeps_no_more_is_not_compared() -> None:
    topic = {0: (5, 9)}
    assert [is_kept(row((0, offset)), topic) for offset in (4, 5, 9)] == [False, True, True]
    assert is_kept(row((1, 0)), topic)


# The stream in a stack.


def test_the_example_is_none_of_every_stacks_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert "orders" not in streams.names()
    demo = chosen("orders")
    assert isinstance(demo, OrdersDemo)
    assert demo.result == REPO / "build" / "demo-orders.json"
    assert not demo.spec.topic.managed
    # As the taxi's: other demos leave the stack's streams as they are.
    assert chosen("").folder is None


def test_the_stack_keeps_the_folder_beside_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    home = tmp_path / "home"
    assert Stack(home, folder=EXAMPLES).streams == str(EXAMPLES)
    monkeypatch.setenv(VARIABLE, os.pathsep.join(["/srv/own", str(EXAMPLES)]))
    both = os.pathsep.join(["/srv/own", str(EXAMPLES)])
    assert Stack(home, folder=EXAMPLES).streams == both
    assert Stack(home).streams == both


def test_it_is_refused_in_containers_and_with_an_external_kafka(
    monkeypatch: pytest.MonkeyPatch, stack: Callable[[str], Stack]
) -> None:
    # A container's stack takes folders of this machine for its own.
    monkeypatch.setattr(commands.containers, "ContainerStack", lambda: pytest.fail("a stack was opened"))
    monkeypatch.setenv("SLUICE_PROFILES", "")
    with raising(UsageError, "demo of orders adds a stream", "without Docker"):
        commands.demo("orders")
    made = stack("public")
    made.context = replace(made.context, external="/srv/platform")
    with raising(UsageError, "SLUICE_EXTERNAL", "Fix: "):
        OrdersDemo().prepare(made, ProgressDisplay())
