"""A report on real services: a bucket, a catalog, and a table that is written as the stream's owner does."""

from __future__ import annotations

import logging
import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from local.services import streams
from local.stack import wait_until
from sluice.clients.report import ReportReader
from sluice.clients.table import Lake
from sluice.model import stream
from sluice.model.process import SUPERSEDED_STATUS
from sluice.model.tending import Beat, parse_beat
from spark_jobs.common import report_owner
from spark_jobs.common.fence import Superseded
from spark_jobs.common.iceberg import MAIN, IcebergTable
from spark_jobs.common.ownership import own
from tests.support.changes import Change, Changes, moment
from tests.support.services import Services

# The broker makes the topic of the groups with the first question.
MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
REPORT = stream.load("wiki_changes").part("report").arguments

# Its subject goes soon; until then all of it in `make test-all`.
pytestmark = pytest.mark.exhaustive

MINUTE = 60
# For a JVM and its first commit, on a machine with much else to do.
START_SECONDS = 240
_numbers = count()


@pytest.fixture
def changes(spark: SparkSession, services: Services) -> Changes:
    services.minio, services.postgres  # noqa: B018
    return Changes(spark, services, f"changes_{next(_numbers)}")


def some(chance: random.Random, number: int) -> list[Change]:
    """A batch of what comes in ten minutes: of all types, by few users, some late, some much too late."""
    made = []
    for _ in range(40):
        back = chance.choices([0, 12, 25, 70], [30, 4, 2, 1])[0]
        made.append(
            Change(
                at=number * 10 * MINUTE + chance.randrange(10 * MINUTE) - back * MINUTE,
                user=chance.choice(["Ann", "Bob", "Ann's bot", "<b>Eve</b>", None]),
                bot=chance.choice([True, False, None]),
                type=chance.choices(["edit", "new", "log", "categorize"], [6, 2, 1, 3])[0],
                arrived=number * 10 * MINUTE + 10 * MINUTE,
                server=chance.choice(["en.wikipedia.org", "commons.wikimedia.org"]),
            )
        )
    return made


def test_it_is_the_same_however_the_batches_are_counted(changes: Changes) -> None:
    """One by one, several at once, all at once after a compaction, and by SQL over the table."""
    chance = random.Random(5)  # noqa: S311
    one_by_one, in_steps = changes.counted(), changes.counted(table="reports.in_steps")
    for number in range(7):
        changes.publish(some(chance, number))
        assert changes.count(one_by_one)
        if number in (0, 1, 4, 6):
            assert changes.count(in_steps)
        if number in (3, 5):
            changes.compact()
            assert not changes.count(one_by_one)
    changes.compact()
    all_at_once = changes.counted(table="reports.at_once")
    expected = changes.expected()
    assert len({row[0].date() for row in expected}) == 2, "it goes over midnight"
    assert sum(row[5] for row in expected) > 3, "some come late"
    assert changes.rows() == expected
    assert changes.rows("reports.in_steps") == expected
    assert changes.rows("reports.at_once") == expected
    states = [owner.state for owner in (one_by_one, in_steps, all_at_once)]
    assert states[0] == states[1]
    assert len({(s.records, s.newest, s.late, tuple(s.ends.items())) for s in states}) == 1
    assert states[0].records == 280
    assert states[0].late == sum(row[5] for row in expected)
    assert states[0].ends == changes.ends


def test_where_a_window_begins_and_ends_and_what_is_late(changes: Changes) -> None:
    """Twenty minutes after a window's end it is closed: ten until the watermark, and from its end on."""
    owner = changes.counted()
    changes.publish([Change(0), Change(9 * MINUTE + 59), Change(10 * MINUTE), Change(60 * MINUTE)])
    assert changes.count(owner)
    one, two, midnight = moment(0), moment(10 * MINUTE), moment(60 * MINUTE)
    assert midnight.hour == midnight.minute == 0
    after = moment(70 * MINUTE)
    assert changes.rows() == [
        (one, two, "Ann", False, 2, 0),
        (two, moment(20 * MINUTE), "Ann", False, 1, 0),
        (midnight, after, "Ann", False, 1, 0),
    ]
    # The newest is of minute 60, so the watermark is 50: a window that ends then is closed, the next is not.
    late, in_time = Change(50 * MINUTE - 1, "Bob"), Change(50 * MINUTE, "Bob")
    changes.publish([late, in_time, Change(49 * MINUTE, "Bob", type="log"), Change(61 * MINUTE)])
    assert changes.count(owner)
    assert changes.rows()[2:] == [
        (moment(40 * MINUTE), moment(50 * MINUTE), "Bob", False, 0, 1),
        (moment(50 * MINUTE), midnight, "Bob", False, 1, 0),
        (midnight, after, "Ann", False, 2, 0),
    ]
    assert changes.rows() == changes.expected()
    said = changes.said()
    newest = int(moment(61 * MINUTE).timestamp() * 1000)
    assert (said["kind"], said["records"], said["late"]) == ("report", "8", "1")
    assert (said["newest"], said["watermark"]) == (str(newest), str(newest - 600_000))
    assert said["ends"] == '{"0": 4, "1": 2, "2": 2}'


def test_what_comes_in_one_batch_with_the_newest_is_not_late(changes: Changes) -> None:
    changes.publish([Change(0), Change(300 * MINUTE)])
    changes.counted()
    assert sum(row[5] for row in changes.rows()) == 0
    assert changes.rows() == changes.expected()


def test_an_event_of_tomorrow_makes_nothing_of_today_late(changes: Changes) -> None:
    owner = changes.counted()
    changes.publish([Change(MINUTE), Change(20 * 60 * MINUTE, "Clock", arrived=2 * MINUTE)])
    changes.count(owner)
    changes.publish([Change(3 * MINUTE)])
    changes.count(owner)
    assert sum(row[5] for row in changes.rows()) == 0
    assert changes.rows() == changes.expected()
    assert owner.state.newest == int(moment(3 * MINUTE).timestamp() * 1000)


def test_rows_that_are_taken_away_ask_for_counting_anew(
    changes: Changes, caplog: pytest.LogCaptureFixture
) -> None:
    owner = changes.counted()
    for number in range(3):
        changes.publish([Change(number * 10 * MINUTE, user) for user in ("Ann", "Bob")])
    changes.count(owner)
    changes.delete("user = 'Ann'")
    changes.publish([Change(31 * MINUTE, "Cid")])
    with caplog.at_level(logging.WARNING):
        assert changes.count(owner)
    assert "took rows away" in caplog.text
    assert {row[2] for row in changes.rows()} == {"Bob", "Cid"}
    assert changes.rows() == changes.expected()
    assert owner.state.records == 4
    changes.publish([Change(32 * MINUTE, "Cid")])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert changes.count(owner)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "once"
    assert changes.rows() == changes.expected()


def test_rows_of_no_batch_and_a_snapshot_that_is_gone_too(
    changes: Changes, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    owner = changes.counted()
    changes.publish([Change(0), Change(1)])
    before = changes.source().head(MAIN)
    changes.count(owner)
    changes.append(spark.table(changes.table).where("_kafka_partition = 0").withColumn("user", F.lit("Dan")))
    assert changes.count(owner)
    assert "appended rows that are of no batch" in caplog.text
    assert changes.rows() == changes.expected()
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{changes.spec.table}', {before})")
    changes.publish([Change(3)])
    assert changes.count(owner)
    assert "is gone from main" in caplog.text
    assert {row[2] for row in changes.rows()} == {"Ann"}
    assert changes.rows() == changes.expected()


def test_another_rule_counts_anew(changes: Changes) -> None:
    changes.publish([Change(0), Change(15 * MINUTE)])
    changes.publish([Change(1), Change(16 * MINUTE)])
    changes.counted()
    changes.counted(window_minutes=5, watermark_minutes=1)
    assert changes.rows() == changes.expected(5, 1)
    assert changes.said()["rule"] == "windows of 5 min, watermark 1 min"


def test_what_holds_no_edits_moves_the_report_on_without_rows(changes: Changes) -> None:
    owner = changes.counted()
    changes.publish([Change(0)])
    changes.count(owner)
    changes.publish([Change(40 * MINUTE, type="log")])
    changes.count(owner)
    changes.publish([], quarantined=2)
    changes.count(owner)
    changes.publish([Change(5)])
    changes.count(owner)
    assert [row[4:] for row in changes.rows()] == [(1, 1)]
    assert changes.rows() == changes.expected()
    assert owner.state.ends == changes.ends


def test_without_news_nothing_is_asked_of_spark_or_the_bucket(
    changes: Changes, services: Services, spark: SparkSession
) -> None:
    """MinIO stands still meanwhile: who asked it would wait."""
    changes.publish([Change(0)])
    owner, source = changes.counted(), changes.source()
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup()
    services.signal("minio", signal.SIGSTOP)
    try:
        assert owner.look(source) is None
        assert owner.look(source) is None
    finally:
        services.signal("minio", signal.SIGCONT)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup() == jobs
    changes.say("takeover")
    changes.compact()
    assert owner.look(source) is None
    changes.publish([Change(1)])
    assert owner.look(source) is not None


def test_a_zombie_publishes_nothing(changes: Changes) -> None:
    zombie = changes.counted()
    changes.publish([Change(0)])
    news = zombie.look(changes.source())
    assert news is not None
    successor = changes.counted()
    with pytest.raises(Superseded, match="owner 1 is over: owner 2 has taken over"):
        zombie.count(news)
    with pytest.raises(Superseded, match="owner 1 is over"):
        zombie.refuse_if_superseded()
    assert changes.rows() == changes.expected()
    changes.publish([Change(1)])
    changes.count(successor)
    assert changes.rows() == changes.expected()
    assert changes.said()["token"] == "2"


def test_maintenance_that_moves_the_report_makes_the_owner_take_over_again(changes: Changes) -> None:
    owner = changes.owner()
    taken = []

    def work(state: object) -> None:
        taken.append(state)
        changes.publish([Change(len(taken))])
        news = owner.look(changes.source())
        assert news is not None
        if len(taken) == 1:
            IcebergTable(changes.spark, changes.report.table).commit_empty(MAIN, {"who": "maintenance"})
        owner.count(news)

    own(owner, work)
    assert len(taken) == 2
    assert changes.rows() == changes.expected()


def test_the_tables_metadata_does_not_grow(changes: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_owner, "TIDY_EVERY", 2)
    for start in range(2):
        owner = changes.counted(keep_snapshots=2)
        for number in range(4):
            changes.publish([Change(start * 10 * MINUTE + number)])
            changes.count(owner)
    kept = list(IcebergTable(changes.spark, changes.report.table).lineage(MAIN))
    assert 2 <= len(kept) <= 2 + 2
    assert sorted(owner.table.branches()) == ["main", "w2"]
    assert changes.rows() == changes.expected()


def test_what_spark_writes_the_page_reads(changes: Changes) -> None:
    owner = changes.counted()
    reader = ReportReader(Lake.open(changes.platform), changes.report.table)
    assert reader.read(0).windows == ()
    for number in range(3):
        changes.publish([*some(random.Random(number), number), Change(1, "<i>\u202e🦉")])  # noqa: S311
        changes.count(owner)
        report = reader.read(0)
        read = [
            (window.start, window.end, editor.user, editor.bot, editor.edits, editor.late)
            for window in report.windows
            for editor in window.editors
        ]
        expected = [(row[0].timestamp(), row[1].timestamp(), *row[2:]) for row in changes.expected()]
        assert sorted(read) == expected
    state = owner.state
    assert (report.records, report.late) == (state.records, state.late)
    moments = [state.source_at, state.newest, state.watermark(10)]
    assert [report.source_at, report.newest, report.watermark] == [ms / 1000 for ms in moments if ms]
    assert report.pace is not None


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(services: Services, tmp_path: Path) -> Iterator[Start]:
    """Starts ``python <command>`` as the runtime does; ``log`` is its output."""
    context = services.stack.context
    streams.prepare(context)
    started = []

    def start(*command: str | Path) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                [context.python, *command], env=context.job_environment(), stdout=log, stderr=log
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_the_process_waits_stops_dies_and_gives_way(
    spark: SparkSession, services: Services, start: Start, tmp_path: Path
) -> None:
    services.minio, services.postgres  # noqa: B018
    declared = stream.load("wiki_changes")
    services.make_topic(declared.topic.name, declared.topic.partitions)
    group = {**services.kafka, "group.id": f"sluice-{declared.name}-report", "log_level": 0}
    consumer = Consumer(group)

    def seen() -> Beat | None:
        """The heartbeat. Not by an AdminClient: it crashes while the broker makes the topic of the groups."""
        places = [TopicPartition(declared.topic.name, p) for p in range(declared.topic.partitions)]
        try:
            found = [place for place in consumer.committed(places, timeout=30) if place.offset >= 0]
        except KafkaException as error:
            if error.args[0].code() not in MOVING:
                raise
            return None
        if not found:
            return None
        return parse_beat(found[0].metadata or "", {place.partition: place.offset for place in found})

    def log() -> str:
        return (tmp_path / "log").read_text()

    def told(words: str) -> bool:
        beat = seen()
        return beat is not None and words in beat.detail

    def until(what: str, holds: Callable[[], bool]) -> None:
        """Waits; the processes' output is the failure's reason."""
        try:
            wait_until(what, holds, START_SECONDS, 0.5)
        except Exception as error:
            raise AssertionError(f"{error}:\n{log()[-5000:]}") from error

    process = start(*REPORT)
    until("the wait for the stream's table", lambda: told("waiting for table raw.wiki_changes"))
    changes = Changes(spark, services, declared.name)
    changes.publish([Change(0), Change(30 * MINUTE)])
    until("the first batch", lambda: changes.is_reported() and changes.rows() == changes.expected())
    until("its heartbeat", lambda: told(f"counted up to snapshot {changes.source().head(MAIN)}"))
    beat = seen()
    assert beat is not None
    assert (beat.state, beat.pid, beat.ends) == ("idle", process.pid, changes.ends)
    process.send_signal(signal.SIGTERM)
    assert process.wait(START_SECONDS) == 0, log()
    assert log().rstrip().endswith("stopped as asked")

    before = changes.rows()
    changes.publish([Change(31 * MINUTE), Change(0, "Bob")])
    process = start("-m", "tests.support.held_report", "_publish", "hang", tmp_path / "hang")
    until("its publishing", (tmp_path / "hang").exists)
    process.kill()
    process.wait()
    assert changes.rows() == before

    changes.publish([Change(32 * MINUTE), Change(1, "Bob"), Change(33 * MINUTE)])
    process = start("-m", "tests.support.held_report", "_publish", "stop", tmp_path / "stop")
    assert process.wait(START_SECONDS) == 0, log()
    assert (tmp_path / "stop").exists()
    assert changes.rows() == changes.expected(), "the commit in flight is finished"

    process = start(*REPORT)
    changes.publish([Change(45 * MINUTE)])
    until("the batches so far", lambda: changes.rows() == changes.expected())
    assert sum(row[5] for row in changes.rows()) == 2
    changes.counted()
    changes.publish([Change(46 * MINUTE)])
    assert process.wait(START_SECONDS) == SUPERSEDED_STATUS, log()
    assert "superseded: the report of wiki_changes" in log()
    assert changes.rows() != changes.expected()
    changes.counted()
    assert changes.rows() == changes.expected()
    consumer.close()
    changes.drop()
