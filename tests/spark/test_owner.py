"""The owner of a stream on real services: Kafka, a bucket, a catalog. Supervision is left out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import group, topic
from spark_jobs.common.fence import Superseded
from spark_jobs.common.iceberg import MAIN, Refused
from spark_jobs.common.owner import Owner
from spark_jobs.common.ownership import own
from tests.support.lakehouse import Stream
from tests.support.services import Services

_numbers = count()


@pytest.fixture
def stream(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Stream]:
    services.minio, services.postgres  # noqa: B018
    made = Stream(spark, services, f"stream_{next(_numbers)}", str(tmp_path))
    yield made
    made.stop()


def before_publishing(owner: Owner, do: Callable[[], None]) -> None:
    """Between a batch's append and its publishing: where the owner asks for the topic's id."""
    ask = owner.topic.id

    def asked() -> str:
        do()
        return ask()

    owner.topic.id = asked  # type: ignore[method-assign]


def test_snapshots_say_whose_topic_which_batch_and_when_and_the_group_follows(stream: Stream) -> None:
    stream.send(3)
    began = time.time()
    running = stream.run(stream.owner())
    assert stream.group() == {0: 3, 1: 3}
    stream.send(2)
    running.query.processAllAvailable()
    # What is sent meanwhile may come in more batches than one.
    *later, first, takeover, genesis = stream.summaries()
    batches = [first, *reversed(later)]
    assert [s["kind"] for s in (genesis, takeover)] == ["genesis", "takeover"]
    assert {s["kind"] for s in batches} == {"batch"}
    assert len(batches) >= 2
    topic_id = topic.Topic(stream.platform.kafka, stream.spec.topic.name).id()
    assert {s["topic_id"] for s in (genesis, takeover, *batches)} == {topic_id}
    assert [s.get("batch") for s in (takeover, *batches)] == [None, *map(str, range(len(batches)))]
    assert "began" not in takeover
    assert began * 1000 - 1 <= int(first["began"]) <= int(batches[-1]["began"]) <= time.time() * 1000
    assert stream.group() == {0: 5, 1: 5}
    stream.assert_exact(5)


def test_a_take_over_tells_the_group_where_the_stream_stands(stream: Stream) -> None:
    stream.owner().take_over()
    assert stream.group() == {0: 0, 1: 0}


def test_a_topic_that_is_made_anew_under_a_batch_publishes_nothing_of_it(stream: Stream) -> None:
    stream.send(3)
    owner = stream.owner()
    running = stream.run(owner)
    before_publishing(owner, stream.make_the_topic_anew)
    stream.send(4)
    with pytest.raises(LookupError, match=rf"topic '{stream.spec.topic.name}' has the id .* made anew"):
        stream.await_end(running)
    stream.assert_exact(3)
    assert stream.group() == {}, "Kafka has removed what was committed for the topic, and nothing came"


def test_a_topic_that_was_made_anew_and_has_grown_past_the_table_is_refused(stream: Stream) -> None:
    stream.send(3)
    stream.run(stream.owner()).query.stop()
    stream.make_the_topic_anew()
    stream.send(10)
    with pytest.raises(LookupError, match="the topic was made anew; give the stream a new table"):
        stream.owner().take_over()


def test_a_table_from_before_there_were_ids_accepts_the_topic_and_keeps_its_id(stream: Stream) -> None:
    owner = stream.owner()
    ends = '{"0": 0, "1": 0}'
    said = {"kind": "takeover", "token": "7", "starts": ends, "ends": ends, "claims": "{}"}
    owner.table.commit_empty(MAIN, {f"sluice.{key}": value for key, value in said.items()})
    stream.send(2)
    stream.run(owner)
    stream.assert_exact(2)
    assert [(s["token"], "topic_id" in s) for s in stream.summaries()] == [("8", True)] * 2 + [("7", False)]
    stream.make_the_topic_anew()
    with pytest.raises(LookupError, match="made anew"):
        stream.owner().take_over()


def test_nothing_is_published_when_kafka_does_not_say_which_topic_it_is(
    stream: Stream, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "ID_SECONDS", 2)
    stream.send(3)
    owner = stream.owner()
    positions = owner.take_over()
    before_publishing(owner, lambda: services.signal("kafka", signal.SIGSTOP))
    try:
        with pytest.raises(TimeoutError, match="no broker said within 2 s which id it has"):
            stream.await_end(stream.consume(owner, positions))
    finally:
        services.signal("kafka", signal.SIGCONT)
    assert stream.coordinates() == []
    stream.run(stream.owner())
    stream.assert_exact(3)


def test_maintenance_that_moves_main_makes_the_owner_take_over_again(stream: Stream) -> None:
    stream.send(3)
    owner, stop = stream.owner(), threading.Event()
    takeovers = []

    def consume(positions: dict[int, int]) -> None:
        takeovers.append(positions)
        if len(takeovers) == 1:
            before_publishing(owner, lambda: None if len(takeovers) > 1 else stream.move_main())
        running = stream.consume(owner, positions)
        if len(takeovers) > 1:
            running.query.processAllAvailable()
            stop.set()
        running.until(stop)

    own(owner, consume)
    stream.assert_exact(3)
    assert takeovers == [{0: 0, 1: 0}] * 2
    assert [s["token"] for s in stream.summaries()] == ["2", "2", "1", "1"]


def test_a_publish_that_raced_with_a_commit_to_another_branch_is_tried_again(stream: Stream) -> None:
    """What the catalog then says is no sign of maintenance: the owner must not take over from itself."""
    stream.send(3)
    owner = stream.owner()
    forward, races = owner.table.fast_forward, []

    def raced(branch: str, to: str) -> None:
        if owner.state.ends and not races:
            races.append(to)
            raise Refused("CommitFailedException: Table metadata refresh is required")
        forward(branch, to)

    positions = owner.take_over()
    owner.table.fast_forward = raced  # type: ignore[method-assign]
    running = stream.consume(owner, positions)
    running.query.processAllAvailable()
    assert races == ["w1"]
    stream.assert_exact(3)
    assert [s["kind"] for s in stream.summaries()] == ["batch", "takeover", "genesis"]


def test_a_zombie_neither_publishes_nor_moves_the_group(stream: Stream) -> None:
    stream.send(3)
    zombie = stream.owner()
    positions = zombie.take_over()

    def successor() -> None:
        stream.send(2)
        stream.run(stream.owner()).query.stop()

    before_publishing(zombie, successor)
    with pytest.raises(Superseded, match="owner 1 may not publish: owner 2 has taken over"):
        stream.await_end(stream.consume(zombie, positions))
    stream.assert_exact(5)
    assert stream.group() == {0: 5, 1: 5}


def test_an_owner_whose_checkpoint_its_successor_removed_is_superseded_and_has_not_failed(
    stream: Stream,
) -> None:
    stream.send(3)
    first = stream.run(stream.owner())
    stream.owner().take_over()
    stream.send(2)
    with pytest.raises(Superseded, match="owner 1 is over: owner 2 has taken over"):
        stream.await_end(first)
    stream.assert_exact(3)


def test_an_idle_owner_renews_its_group_and_a_zombie_does_not(stream: Stream) -> None:
    stream.send(3)
    zombie = stream.owner()
    stream.run(zombie)
    assert not zombie.group.is_due
    stream.send(1)
    owner = stream.owner()
    stream.run(owner)
    with pytest.raises(Superseded, match="owner 1 is over: owner 2 has taken over"):
        zombie.renew_group()
    owner.renew_group()
    assert stream.group() == {0: 4, 1: 4}


def test_offsets_that_expired_come_back_while_the_stream_is_idle(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "RENEW_SECONDS", 0)
    stream.send(3)
    running = stream.run(stream.owner())
    stream.forget_the_group()
    assert stream.group() == {}
    stop = threading.Event()
    threading.Timer(2, stop.set).start()
    running.until(stop)
    assert stream.group() == {0: 3, 1: 3}


def test_a_query_that_keeps_state_changes_hands_exactly(
    stream: Stream, configure: Callable[[dict[str, str]], None]
) -> None:
    """It looks at each record whether it came before, which is state of the Kafka source."""
    configure({"spark.sql.shuffle.partitions": "2"})
    stream.send(3)
    zombie = stream.owner(stateful=True)
    first = stream.run(zombie, keep=_each_once)
    stream.send(2)
    first.query.processAllAvailable()
    stream.assert_exact(5)
    before = published_batches(stream)

    def successor() -> None:
        owner = stream.owner(stateful=True)
        second = stream.run(owner, keep=_each_once)
        assert owner.state.holders == [1]
        stream.send(1)
        second.query.processAllAvailable()

    before_publishing(zombie, successor)
    stream.send(4)
    with pytest.raises(Superseded):
        stream.await_end(first)
    stream.assert_exact(10)
    batches = published_batches(stream)
    assert batches[: len(before)] == before
    assert batches == sorted(set(batches)), "the numbers go on over the take-over"
    stream.started[-1].query.stop()

    # Between publishing and completing, the process may die: then the batch runs again, for its state alone.
    for path in Path(stream.platform.checkpoints.root).glob(f"{stream.spec.name}/w2/commits/*"):
        if int(path.name.strip(".cr")) >= batches[-1]:
            path.unlink()
    third, ran = stream.owner(stateful=True), []
    write = third.batch

    def noted(records: DataFrame, number: int) -> None:
        ran.append(number)
        write(records, number)

    third.batch = noted  # type: ignore[method-assign]
    stream.send(1)
    stream.run(third, keep=_each_once)
    stream.assert_exact(11)
    assert ran[:2] == [batches[-1], batches[-1] + 1]
    assert published_batches(stream)[: len(batches)] == batches


def published_batches(stream: Stream) -> list[int]:
    return [int(s["batch"]) for s in reversed(stream.summaries()) if s["kind"] == "batch"]


def _each_once(records: DataFrame) -> DataFrame:
    """With a watermark, so that there are batches without records too, which only tidy up."""
    watermarked = records.withWatermark("timestamp", "1 second")
    return watermarked.dropDuplicatesWithinWatermark(["partition", "offset"])
