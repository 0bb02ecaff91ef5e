"""Generated histories of schemas under a stream that keeps ending: each record is a row with all that it has,
as Confluent's deserializer reads it, or is in quarantine with all of its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.demo.orders.plain_consumer import committed
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.lake.writer_lease import WriterLease
from tests.spark.test_schema_changes import OWN, Orders, _avro
from tests.support.lakehouse import PARTITIONS
from tests.support.schema_histories import Unplanned, is_whole
from tests.support.services import Services
from tests.unit.core.decoding.avro.test_both_ways import simple

# The ends of reasons for a value that its version has and that its column cannot have.
VALUES = ("more digits", "bytes that are no text")
# Where a consumer ends: in the commit of columns, in that of a batch; before or after it.
ENDS = [(name, is_after) for name in ("change_schema", "_publish") for is_after in (False, True)]


class Ended(Exception):
    """As a process that is killed: nothing that it had in mind is done."""


class Ending:
    """Ends the consumer once at one of the commits, until :meth:`ended` says that it did."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._armed: tuple[str, bool] | None = None
        for name in ("change_schema", "_publish"):
            patch.setattr(WriterLease, name, self._wrapped(name, getattr(WriterLease, name)))

    def arm(self, where: tuple[str, bool]) -> None:
        self._armed = where

    def ended(self) -> bool:
        return self._armed is None

    def disarm(self) -> None:
        self._armed = None

    def _wrapped(self, name: str, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commits(*arguments: Any, **options: Any) -> Any:
            if self._armed == (name, False):
                self._armed = None
                raise Ended
            found = commit(*arguments, **options)
            if self._armed == (name, True):
                self._armed = None
                raise Ended
            return found

        return commits


class History(Orders):
    """A stream whose first schema, and all others, are a history's."""

    def __init__(self, spark: SparkSession, services: Services, root: Path, seed: int) -> None:
        self.chance = Unplanned(Random(seed))  # noqa: S311
        self.versions = self.chance.history(self.chance.random.randint(3, 8))
        super().__init__(spark, services, root, "quarantine", (), json.dumps(self.versions[0]))
        # Schema id of each version that is registered; partition -> what was sent to it.
        self.ids_of: dict[int, int] = {}
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def send_batch(self, batch: list[int]) -> None:
        """Records of these versions, from 0; which partition each goes to is chance."""
        subject = f"{self.spec.topic.name}-value"
        for version in batch:
            if version not in self.ids_of:
                text = json.dumps(self.versions[version])
                self.ids_of[version] = self._client.register_schema(subject, _avro(text))
            for body in self.chance.values(self.versions[version], 2):
                partition = self.chance.random.randrange(PARTITIONS)
                self.values[partition].append(b"\0" + self.ids_of[version].to_bytes(4, "big") + body)
                self.producer.produce(self.spec.topic.name, self.values[partition][-1], partition=partition)
        assert self.producer.flush(30) == 0

    def kept(self) -> dict[tuple[int, int], tuple[str, bytes]]:
        """Partition and offset -> reason and value, of what is in quarantine."""
        table = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}")
        found = table.select("_kafka_partition", "_kafka_offset", "reason", "value").collect()
        assert len({(row[0], row[1]) for row in found}) == len(found)
        return {(row[0], row[1]): (row[2], bytes(row[3])) for row in found}

    def assert_nothing_is_lost(self) -> tuple[int, int]:
        """The numbers of rows and of what is in quarantine."""
        rows, kept = self.rows(), self.kept()
        topic = committed(self.services.kafka, self.registry, self.spec.topic.name)
        assert len(topic) == sum(map(len, self.values))
        assert rows.keys() | kept.keys() == topic.keys()
        assert not rows.keys() & kept.keys()
        for place, record in topic.items():
            if place in kept:
                reason, value = kept[place]
                assert value == self.values[place[0]][place[1]]
                assert "cannot be followed: " in reason or reason.endswith(VALUES), reason
                continue
            row = {name: one for name, one in rows[place].items() if name not in OWN}
            assert rows[place]["_unknown_fields"] is None
            assert is_whole(simple(row), record.value), (row, record.value)
        return len(rows), len(kept)


@pytest.fixture
def made(
    spark: SparkSession, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], History]]:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "streams"))
    services.minio, services.postgres, services.registry  # noqa: B018
    found: list[History] = []

    def make(seed: int) -> History:
        found.append(History(spark, services, tmp_path, seed))
        return found[-1]

    yield make
    for one in found:
        one.stop()


@pytest.mark.parametrize(
    "seed", [7, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(100, 150))]
)
def test_every_record_of_a_history_is_there_with_all_that_it_has(
    made: Callable[[int], History], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    history, ending = made(seed), Ending(monkeypatch)
    random = history.chance.random
    running, ends = history.run(history.writer()), 0
    for batch in history.chance.schedule(len(history.versions)):
        if random.random() < 0.6:
            ending.arm(random.choice(ENDS))
        history.send_batch(batch)
        try:
            running.query.processAllAvailable()
        except Exception:
            if not ending.ended():
                raise
            ends += 1
            running = history.run(history.writer())
        ending.disarm()
    rows, kept = history.assert_nothing_is_lost()
    print(f"seed {seed}: {len(history.versions)} versions, {ends} ends, {rows} rows, {kept} in quarantine")
    assert rows
