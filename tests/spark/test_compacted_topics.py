"""Topics of others that Kafka's own cleaner compacts, before, while and after a stream reads them.

Each row is compared with a record of Confluent's consumer, and each hole with what that one does not read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.sql import SparkSession

from local.stack.stack import wait_until
from sluice.changes import stream as changed_stream
from sluice.changes.plan import plan_action
from sluice.changes.stream import PlannedStream
from sluice.core.errors import Refused
from sluice.core.offsets.offset_set import OffsetSet
from spark_jobs.common.consumer.run import decoding
from spark_jobs.common.maintenance.change import Change
from tests.support.declared import Declaration, DeclaredStream, Place, offsets, read
from tests.support.raising import raising
from tests.support.services import Services

PARTITIONS = 2
# In each partition; each wave has each of them once.
KEYS = 20
# Keys of which the last record is a tombstone.
GONE = 4
COMPACTED = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    # Never.
    "min.cleanable.dirty.ratio": "1.0",
}
# While the cleaner shall work; it needs closed segments, and a record that comes a little later closes one.
SEGMENT_MS = 200
CLEANED = {"min.cleanable.dirty.ratio": "0.01", "segment.ms": str(SEGMENT_MS)}
# Then a tombstone or a marker goes with the second round that sees it.
FORGETTING = {"delete.retention.ms": "0"}
# The key, and the value, of a record that closes a segment.
LAST = b"last"
_numbers = count()


@pytest.fixture(scope="module")
def cleaning(services: Services) -> AdminClient:
    """A broker whose log cleaner looks again and again at once."""
    admin = AdminClient({**services.kafka, "log_level": 0})
    entry = ConfigEntry("log.cleaner.backoff.ms", "50", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([broker]).values()
    future.result(20)
    return admin


class Compacted(DeclaredStream):
    """A compacted topic with keys and tombstones."""

    def fill(self, wave: int, transaction: bool | None = None) -> None:
        """A record of each key in each partition, of several batches; ``transaction``: whether it is
        committed, None for none."""
        settings = {**self.services.kafka, "batch.num.messages": 5, "linger.ms": 50, "log_level": 0}
        if transaction is not None:
            settings["transactional.id"] = f"{self.name}-{wave}"
        producer = Producer(settings)
        if transaction is not None:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in range(KEYS):
            for partition in range(PARTITIONS):
                is_gone = number < GONE and wave > 0
                producer.produce(
                    self.name,
                    None if is_gone else f"{wave}-{number}",
                    f"key-{number}",
                    partition=partition,
                    headers=[("wave", str(wave).encode())],
                )
        assert producer.flush(30) == 0
        if transaction is not None:
            (producer.commit_transaction if transaction else producer.abort_transaction)(30)

    def fill_transactions(self) -> None:
        """All by one producer, each second one aborted; with a record of each key, and of one of its own, in
        each partition."""
        settings = {**self.services.kafka, "transactional.id": self.name, "batch.num.messages": 3}
        producer = Producer({**settings, "log_level": 0})
        producer.init_transactions(30)
        for number in range(8):
            producer.begin_transaction()
            for key in [*range(KEYS), f"of-{number}"]:
                for partition in range(PARTITIONS):
                    producer.produce(self.name, f"t{number}", f"key-{key}", partition=partition)
            producer.flush(30)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)

    def compact(self, is_forgetting: bool = False) -> None:
        """Let the cleaner work until each key is there once, but for the one that closes segments; without
        tombstones, if ``is_forgetting``. When this returns it does nothing any more."""
        before = self.delivered()
        self._configure(CLEANED | (FORGETTING if is_forgetting else {}))

        def is_clean() -> bool:
            time.sleep(SEGMENT_MS / 1000)
            self._close_segment()
            kept = self.plain()
            keys = [(place[0], message.key()) for place, message in kept.items() if message.key() != LAST]
            is_forgotten = not is_forgetting or all(message.value() for message in kept.values())
            return len(keys) == len(set(keys)) and len(kept) < len(before) and is_forgotten

        wait_until(f"the cleaner of {self.name}", is_clean, 60, 0.05)
        self._configure({"min.cleanable.dirty.ratio": "1.0"})
        seen = [0, -1]

        def is_still() -> bool:
            time.sleep(0.3)
            seen.append(len(self.delivered()))
            return seen[-1] == seen[-2] == seen[-3]

        wait_until("the cleaner's end", is_still, 30, 0.05)

    def _close_segment(self) -> None:
        producer = Producer({**self.services.kafka, "log_level": 0})
        for partition in range(PARTITIONS):
            producer.produce(self.name, LAST, LAST, partition=partition)
        assert producer.flush(30) == 0

    def _configure(self, values: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in values.items()
        ]
        topic = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([topic]).values():
            future.result(20)

    def plain(self) -> dict[Place, Message]:
        return read(self.services.kafka, self.name)

    def delivered(self) -> dict[Place, Message]:
        """Also of aborted transactions."""
        return read(self.services.kafka, self.name, "read_uncommitted")

    def assert_rows_are(self, expected: dict[Place, Message]) -> None:
        assert self.rows() == {place: row_of(message) for place, message in expected.items()}


def row_of(message: Message) -> dict[str, Any]:
    """The row that a record of the plain consumer is."""
    key, value = message.key(), message.value()
    headers: Any = message.headers() or []
    return {
        "value": None if value is None else bytes(value).decode(),
        "key": None if key is None else bytes(key).decode(),
        "headers": [{"key": name, "value": content} for name, content in headers] or None,
    }


@pytest.fixture
def compacted(
    spark: SparkSession,
    services: Services,
    cleaning: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Compacted]:
    """``request.param``: what becomes of tombstones, a row by default."""
    services.minio, services.postgres  # noqa: B018
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path))
    name = f"compacted_{next(_numbers)}"
    topic = f"shop.{name}"
    cleaning.create_topics([NewTopic(topic, PARTITIONS, 1, config=COMPACTED)])[topic].result(20)
    tombstones = getattr(request, "param", "row")
    records = f'format = "text"\nkey = "text"\nheaders = "headers"\ntombstones = "{tombstones}"'
    made = Compacted(spark, services, name, tmp_path, Declaration(topic, records))
    yield made
    made.stop()


def test_of_a_topic_that_was_compacted_each_surviving_record_is_a_row(compacted: Compacted) -> None:
    for wave in range(3):
        compacted.fill(wave)
    sent = compacted.plain()
    compacted.compact()
    survived = compacted.plain()
    vanished = offsets(sent.keys() - survived.keys())
    assert vanished.count >= 2 * KEYS

    compacted.run(compacted.writer())
    compacted.plan("one")
    proof = compacted.verify("one")
    compacted.assert_rows_are(survived)
    without = compacted.without_record()
    assert without.absent == without.offsets == compacted.all_offsets().minus(offsets(survived))
    assert "compact" in without.evidence
    assert proof["published"] == len(survived)
    assert proof["without_record"]["absent"] == without.count
    verified = compacted.reconcile()
    assert verified.present == OffsetSet.of(offsets(survived))
    assert verified.without_record == OffsetSet.of(without.offsets)


@pytest.mark.exhaustive
def test_of_compacted_transactions_each_surviving_record_is_a_row(compacted: Compacted) -> None:
    compacted.fill_transactions()
    sent, delivered = compacted.plain(), compacted.delivered()
    compacted.compact(is_forgetting=True)
    survived = compacted.plain()
    keys = [bytes(message.key() or b"").decode() for message in survived.values()]
    own = sorted(key for key in keys if key.startswith("key-of-"))
    assert own == sorted([f"key-of-{number}" for number in (0, 2, 4, 6)] * PARTITIONS)
    assert len(survived) < len(sent) < len(delivered)
    # In several batches, whose bounds are where others' records were.
    compacted.spec = replace(
        compacted.spec, consumer=replace(compacted.spec.consumer, max_offsets_per_trigger=30)
    )
    compacted.run(compacted.writer())
    compacted.plan("one")
    compacted.verify("one")
    compacted.assert_rows_are(survived)
    without = compacted.without_record()
    assert without.offsets == compacted.all_offsets().minus(offsets(survived))
    assert without.absent.count >= len(sent) - len(survived)
    assert compacted.reconcile().present == OffsetSet.of(offsets(survived))


def test_compaction_between_plan_and_consumption_leaves_holes_and_no_gaps(compacted: Compacted) -> None:
    compacted.fill(0)
    compacted.run(compacted.writer()).query.stop()
    for wave in (1, 2):
        compacted.fill(wave)
    first = compacted.rows().keys()
    # No consumer runs meanwhile.
    compacted.plan("one")
    end = compacted.all_offsets()
    compacted.compact()
    survived = compacted.plain()
    compacted.run(compacted.writer())
    proof = compacted.verify("one")
    assert proof["topic_records"] < end.count
    rows = compacted.rows()
    # What was read before is there still, though the topic has it no more.
    assert first - survived.keys()
    assert rows.keys() == first | survived.keys()
    assert {place: rows[place] for place in survived} == {
        place: row_of(message) for place, message in survived.items()
    }
    without = compacted.without_record()
    assert without.absent == without.offsets == compacted.all_offsets().minus(offsets(rows))
    assert without.absent.intersect(end).count > 0
    compacted.reconcile()


@pytest.mark.parametrize(
    "compacted", [pytest.param("row", marks=pytest.mark.exhaustive), "skip"], indirect=True
)
def test_compaction_after_consumption_changes_nothing_of_what_was_verified(compacted: Compacted) -> None:
    is_skipping = compacted.spec.records is not None and compacted.spec.records.tombstones == "skip"
    for wave in range(3):
        compacted.fill(wave)
    compacted.fill(3, transaction=True)
    compacted.fill(4, transaction=False)
    sent = compacted.plain()
    running = compacted.run(compacted.writer())
    compacted.plan("one")
    before_proof = compacted.verify("one")
    before = compacted.reconcile()
    rows, without = compacted.rows(), compacted.without_record()
    tombstones = {place for place, message in sent.items() if message.value() is None}
    assert len(tombstones) == 3 * GONE * PARTITIONS
    assert rows.keys() == sent.keys() - (tombstones if is_skipping else set())
    assert without.skipped == (offsets(tombstones) if is_skipping else offsets([]))
    assert (without.control.count, without.aborted.count) == (2 * PARTITIONS, KEYS * PARTITIONS)

    compacted.compact(is_forgetting=True)
    survived = compacted.plain()
    # Rows, tombstones and markers are gone from the topic by now.
    assert len(survived.keys() & sent.keys()) < KEYS * PARTITIONS
    assert tombstones.isdisjoint(survived)
    # The same load once more, and all of both tables.
    after_proof = compacted.verify("one")
    assert after_proof["without_record"] == before_proof["without_record"]
    assert {place: row for place, row in compacted.rows().items() if place in rows} == rows
    running.query.processAllAvailable()
    compacted.plan("two")
    compacted.verify("two")
    for verified in (compacted.reconcile(before), compacted.reconcile()):
        assert verified.present == OffsetSet.of(offsets(compacted.rows()))
        assert verified.without_record == OffsetSet.of(compacted.without_record().offsets)


def test_what_compaction_took_is_not_read_again_and_stays(
    compacted: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wave in range(3):
        compacted.fill(wave)
    compacted.run(compacted.writer()).query.stop()
    rows, read_first = compacted.rows(), compacted.all_offsets()
    compacted.compact()
    kept = offsets(compacted.plain().keys() & rows.keys())
    # Its files, of which it has none.
    monkeypatch.setattr(changed_stream, "reading_of", lambda _: None)
    with compacted.systems() as systems:
        planned = PlannedStream(systems, compacted.spec, compacted.ledger, "run")
        lost = read_first.count - kept.count
        with raising(Refused, f"compaction has deleted {lost} of {read_first.count} records", "Fix: "):
            plan_action(planned, {"action": "replay", "ranges": str(read_first)})
        planned = PlannedStream(systems, compacted.spec, compacted.ledger, "partial")
        plan = plan_action(planned, {"action": "replay", "ranges": str(read_first), "partial": True})
    assert (plan.rows_out, plan.rows_in) == (kept, kept)
    decoder = partial(decoding, compacted.spec, None)
    Change(compacted.spark, compacted.platform, compacted.spec, decoder, plan).run()
    assert compacted.rows() == rows
    compacted.reconcile()
