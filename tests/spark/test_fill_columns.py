"""Columns that came after their records: filled from what was kept, once the topic has lost the records."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from local.demo.orders.plain_consumer import committed
from sluice.changes.plan import plan_change
from sluice.changes.verify import ChangeVerification
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.core.changes.plan import ChangePlan
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.documents import Ledger
from spark_jobs.common.consumer.run import decoding, registry_of
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.changed_stream import ChangeRefused
from spark_jobs.common.maintenance.staged_change import StagedChange
from tests.spark import test_protobuf_changes as protobuf
from tests.spark.test_schema_changes import EACH, Orders, assert_row, orders
from tests.support.lakehouse import PARTITIONS
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger

__all__ = ["messages", "orders"]
messages = protobuf.orders


def fill(
    orders: Orders | protobuf.Orders, run_id: str, kept: Ledger | None = None, **params: str
) -> dict[str, Any]:
    """A run of the change DAG; what its last step says. ``kept``: of an attempt before."""
    with closing(Lake.open(orders.platform)) as lake:
        systems: Any = SimpleNamespace(
            lake=lake,
            kafka=KafkaAdmin(orders.platform.kafka),
            s3=connect(orders.platform.s3),
            source=SimpleNamespace(within=lambda *given: None),
        )
        kept = kept or ledger(orders.spec.name, MemoryS3())
        asked = {"action": "fill_columns", **params}
        document = plan_change(systems, orders.spec, kept, run_id, asked, lambda: True)
        plan = ChangePlan.from_document(document)
        if not plan.is_empty:
            decoder = partial(decoding, orders.spec, registry_of(orders.spec, orders.platform))
            Change(orders.spark, orders.platform, orders.spec, decoder, plan).run()
        return ChangeVerification(systems, orders.spec, kept, run_id).run(lambda: True)


@pytest.mark.exhaustive
def test_rows_get_columns_that_came_after_them_though_the_topic_has_lost_their_records(
    orders: Orders,
) -> None:
    following = orders.spec
    assert following.records is not None
    orders.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    running = orders.run(orders.writer())
    for version in (1, 2):
        orders.send_version(version)
        running.query.processAllAvailable()
    # Without a column there is nothing to fill, and the rows stay as they are.
    before = orders.rows()
    assert fill(orders, "r0")["filled"] == "0 rows filled; nothing stays"
    assert orders.rows() == before
    running.query.stop()
    records = committed(orders.services.kafka, orders.registry, orders.spec.topic.name)
    admin = AdminClient(orders.services.kafka)
    for deleted in admin.delete_records(
        [TopicPartition(orders.spec.topic.name, partition, 2 * EACH) for partition in range(PARTITIONS)]
    ).values():
        deleted.result(30)
    orders.spec = following
    orders.send_version(2)
    running = orders.run(orders.writer())
    assert {"channel"} <= orders.columns().keys()
    assert sum(row["_unknown_fields"] is not None for row in orders.rows().values()) == EACH * PARTITIONS

    # One partition, then all that is left, beside the running stream.
    found = fill(orders, "r1", ranges=f"{orders.spec.topic.name}: 0=[0,{3 * EACH})")
    assert found["filled"].startswith(
        f"{EACH} rows filled (address.zip {EACH}, channel {EACH}, lines[].count"
    )
    assert sum(row["_unknown_fields"] is not None for row in orders.rows().values()) == EACH * (
        PARTITIONS - 1
    )
    found = fill(orders, "r2")
    assert found["filled"].startswith(f"{EACH * (PARTITIONS - 1)} rows filled (")
    rows = orders.rows()
    assert len(rows) == len(orders.sent)
    for place, record in records.items():
        assert_row(rows[place], record)
    assert fill(orders, "r3") == {"rows_out": 0, "published": 0}
    # The stream goes on.
    running.query.stop()
    orders.send_version(2)
    orders.run(orders.writer()).query.stop()
    assert len(orders.rows()) == len(orders.sent)
    assert orders.quarantined() == {}


def test_messages_get_columns_that_came_after_them_as_their_serializer_reads_them(
    messages: protobuf.Orders,
) -> None:
    following = messages.spec
    assert following.records is not None
    messages.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    for version in (1, 2):
        messages.send_version(version)
    messages.run(messages.writer()).query.stop()
    messages.spec = following
    messages.send_version(3)
    running = messages.run(messages.writer())
    kept = [row for row in messages.rows().values() if row["_unknown_fields"] is not None]
    assert len(kept) == protobuf.EACH * PARTITIONS
    reader = OffsetReader(connect(messages.platform.s3))
    with StagedChange(messages.spark, messages.spec.table, reader) as staged:
        every = OffsetRanges.of({p: [(0, 3 * protobuf.EACH)] for p in range(PARTITIONS)})
        files = staged.candidates(every)
        with_texts = staged.candidates(every, not_null="_unknown_fields")
        assert (len(with_texts), len(files)) == (1, 2)
    found = fill(messages, "r1")
    assert found["filled"] == (
        f"{len(kept)} rows filled (address.zip {len(kept)}, channel {len(kept)}, lines[].count {len(kept)}, "
        f"rates[].by {len(kept)}); nothing stays"
    )
    messages.assert_complete()
    # The stream goes on.
    running.query.stop()
    messages.send_version(2)
    messages.run(messages.writer()).query.stop()
    messages.assert_complete()


@pytest.mark.exhaustive
def test_a_fill_that_is_killed_or_overtaken_is_made_once(
    messages: protobuf.Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one, by a batch that widens a column, and twice by an end of its process."""
    following, topic = messages.spec, messages.spec.topic.name
    assert following.records is not None
    messages.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    for version in (2, 1):
        messages.send_version(version)
    messages.run(messages.writer()).query.stop()
    messages.spec = following
    messages.send_version(2)
    messages.run(messages.writer()).query.stop()
    publish, columns = StagedChange.publish, messages.columns()

    def other_first(*parts: Any) -> bool:
        monkeypatch.setattr(StagedChange, "publish", publish)
        assert fill(messages, "other", ranges=f"{topic}: 0=[0,1)")["filled"].startswith("1 rows filled")
        return publish(*parts)

    monkeypatch.setattr(StagedChange, "publish", other_first)
    with raising(ChangeRefused, "1 changes are published", "planned after 0", "trigger a new run"):
        fill(messages, "r1")

    def wider_first(*parts: Any) -> bool:
        monkeypatch.setattr(StagedChange, "publish", killed_before)
        messages.send_version(3)
        messages.run(messages.writer()).query.stop()
        return publish(*parts)

    def killed_before(*parts: Any) -> bool:
        raise KeyboardInterrupt

    def killed_after(*parts: Any) -> bool:
        assert publish(*parts)
        raise KeyboardInterrupt

    kept = ledger(messages.spec.name, MemoryS3())
    for dies in (wider_first, killed_after):
        monkeypatch.setattr(StagedChange, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            fill(messages, "r2", kept)
    assert (columns["number"], messages.columns()["number"]) == ("int", "long")
    monkeypatch.setattr(StagedChange, "publish", publish)
    found = fill(messages, "r2", kept)["filled"]
    assert found.startswith(f"{protobuf.EACH * PARTITIONS - 1} rows filled (")
    messages.assert_complete()
    with closing(Lake.open(messages.platform)) as lake:
        assert lake.changes(messages.spec.table).count == 2
