"""Epochs and batches that a sink finds, without a server: who may open it, and what it has lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import pytest

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.s3 import S3
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.core.queries.committed_batch import CommittedBatch
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.queries.run import raise_above
from spark_jobs.common.sinks import transactions
from spark_jobs.common.sinks.base import SinkWriteFailed, Target
from spark_jobs.common.sinks.files import FilesSink
from spark_jobs.common.sinks.query_topic import QueryTopic
from spark_jobs.common.sinks.transactions import Record, Transactions
from spark_jobs.common.spark.failures import Fenced
from tests.support.raising import raising

T = TypeVar("T")


def target(sink: Sink) -> Target:
    return Target("isp", "hits", Query([sink], ["zipcode"]), sink, threading.Event(), 1)


class Markers:
    """Markers of a prefix in a bucket. ``before_put`` is called once."""

    def __init__(self) -> None:
        self.numbers: dict[str, set[int]] = {}
        self.before_put: Callable[[], None] = lambda: None

    def newest(self, kind: str) -> int | None:
        return max(self.numbers.get(kind, ()), default=None)

    def put(self, kind: str, number: int, document: Mapping[str, Any]) -> bool:
        act, self.before_put = self.before_put, lambda: None
        act()
        existed = number in self.numbers.setdefault(kind, set())
        self.numbers[kind].add(number)
        return not existed


@pytest.fixture
def markers() -> Markers:
    return Markers()


def files(markers: Markers) -> FilesSink:
    made = FilesSink(
        target(Sink("files", prefix="hits/")), S3("key", "secret", "http://127.0.0.1:1"), "s3://b/l"
    )
    fake: Any = markers
    made._markers = fake
    return made


def test_files_of_an_epoch_that_is_issued_again_are_another_writers(markers: Markers) -> None:
    files(markers).open(5)
    with raising(Fenced, "hits", "writer epoch 5") as caught:
        files(markers).open(5)
    assert caught.value.epoch == 5
    assert files(markers).open(6) is None


def test_of_two_writers_with_one_epoch_at_once_one_opens_the_files(markers: Markers) -> None:
    markers.before_put = lambda: markers.numbers.update(writers={5})
    with raising(Fenced, "writer epoch 5"):
        files(markers).open(5)


def test_files_do_not_take_a_whole_result_since_they_cannot_remove_rows(markers: Markers) -> None:
    sink = files(markers)
    sink.open(5)
    rows: Any = None
    with raising(ValueError, "hits/", "append only"):
        sink.write(0, rows, is_whole=True)
    assert "started" not in markers.numbers


class Silent:
    """A producer without a broker."""

    def __init__(self, settings: object) -> None:
        pass

    def init_transactions(self, seconds: float) -> None:
        pass

    def poll(self, seconds: float) -> None:
        pass

    def begin_transaction(self) -> None:
        pass

    def commit_transaction(self, seconds: float) -> None:
        pass

    def abort_transaction(self, seconds: float) -> None:
        pass

    def purge(self, **how: bool) -> None:
        pass

    def __len__(self) -> int:
        return 0


class Held:
    """What the topic holds: ``committed_batch``, of its group; its records are not looked at."""

    group = "g"

    def __init__(self, committed_batch: CommittedBatch | None) -> None:
        self.committed_batch = committed_batch

    def check(self) -> None:
        pass

    def committed(self, isolation: str) -> CommittedBatch | None:
        return self.committed_batch

    def newest_version(self) -> int:
        return -1


class Topic(Transactions):
    """Over ``marker``, the group's offset."""

    def __init__(self, marker: CommittedBatch | None) -> None:
        super().__init__(target(Sink("kafka", topic="hits", partitions=1)), Kafka("127.0.0.1:1"))
        self.held = Held(marker)
        self._topic = cast("QueryTopic", self.held)

    @property
    def marker(self) -> CommittedBatch | None:
        return self.held.committed_batch

    def _send_committed_batch(self, producer: Any, committed: CommittedBatch) -> None:
        self.held.committed_batch = committed

    def disconnect(self) -> None:
        self._is_disconnected = True


def none() -> Iterable[Record]:
    return ()


@pytest.fixture(autouse=True)
def producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "Producer", Silent)


def test_a_topic_of_an_epoch_that_is_issued_again_is_another_writers() -> None:
    topic = Topic(CommittedBatch(5, 10))
    with raising(Fenced, "hits", "writer epoch 5") as caught:
        topic.open(5)
    assert caught.value.epoch == 5
    with raising(LookupError, "open()"):
        topic.write_records(11, none)
    assert topic.open(6) == 10
    topic.disconnect()
    assert topic.write_records(11, none), "its own epoch is no other writer's"
    assert topic.marker == CommittedBatch(6, 11)


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize(
    ("marker", "last"), [(CommittedBatch(4, 10), 10), (CommittedBatch(6, 11), 11), (None, -1)]
)
def test_a_topic_that_lost_batches_takes_no_later_one(
    marker: CommittedBatch | None, last: int, is_connected: bool
) -> None:
    topic = Topic(CommittedBatch(4, 10))
    topic.open(6)
    assert [topic.write_records(batch, none) for batch in (11, 12)] == [True, True]
    topic.held.committed_batch = marker
    if not is_connected:
        topic.disconnect()
    for _ in range(2):
        with raising(SinkWriteFailed, "hits", f"last batch is {last}", "batch 12"):
            topic.write_records(13, none)
    assert topic.marker == marker
    assert topic.open(7) == (last if last >= 0 else None), "from which the query is rebuilt"


class Lease:
    """The queries' table, with the epoch of another writer, or not."""

    table = type("Table", (), {"name": "queries.isp"})
    at_least = 1

    def __init__(self, *, has_other_writer: bool) -> None:
        self.has_other_writer = has_other_writer

    def raise_if_fenced(self) -> None:
        if self.has_other_writer:
            raise Fenced("a later writer", 6)


def test_an_epoch_is_acquired_above_the_one_that_a_sink_has() -> None:
    lease: Any = Lease(has_other_writer=False)
    with raising(ConcurrentCommit, "queries.isp"):
        raise_above(lease, Fenced("the same", 5))
    assert lease.at_least == 6
    other: Any = Lease(has_other_writer=True)
    with raising(Fenced, "a later writer"):
        raise_above(other, Fenced("the same", 5))
