"""Progress of real queries in a real bucket: what is kept, what a killed driver takes along, S3 failing."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from local.drills.proxy import FaultProxy, Rule
from local.services import streams
from local.stack import wait_until
from sluice.clients.errors import Refused
from sluice.clients.progress import Past, ProgressReader, StreamPast
from sluice.io.s3 import connect
from sluice.model.progress import Kind, Progress, Sign, Totals
from sluice.model.progress_lines import object_key, to_line
from spark_jobs.common import progress as module
from spark_jobs.common.progress import Listener, Writer
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.watched_driver import NAME, STREAM

WRITE_SECONDS = 0.5
START_SECONDS = 120
HOUR = 3600
DAY = 86_400


@pytest.fixture
def reader(services: Services) -> Callable[..., ProgressReader]:
    """Readers of a stream as Airflow's role, which has read nothing yet."""
    services.minio  # noqa: B018
    airflow = services.stack.platform("airflow")
    return lambda stream, **of: ProgressReader(connect(airflow.s3), airflow.lake.ledger, stream, **of)


@pytest.fixture
def drive(services: Services, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a driver over a topic; what it prints is in ``out``."""
    context = services.stack.context
    streams.prepare(context)
    started: list[subprocess.Popen[bytes]] = []
    # Its modules are the tests' own.
    repo = Path(__file__).resolve().parents[2]
    environment = context.job_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(repo), environment["PYTHONPATH"]])

    def start(topic: str) -> subprocess.Popen[bytes]:
        module = "tests.support.watched_driver"
        command = [str(context.python), "-m", module, topic, str(WRITE_SECONDS)]
        with (tmp_path / "out").open("wb") as out, (tmp_path / "log").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def only(found: StreamPast) -> Past:
    (past,) = found.queries
    return past


def test_a_killed_driver_takes_the_last_seconds_along_and_no_more(
    services: Services,
    reader: Callable[..., ProgressReader],
    drive: Callable[[str], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    services.minio  # noqa: B018
    services.make_topic("watched", 2)
    now = int(time.time()) // 600 * 600
    # An hour ago, then now, then an hour ago again: too late by 50 minutes.
    values = [now - HOUR] * 20 + [now] * 10
    services.send("watched", {0: [str(value).encode() for value in values]})
    driver = drive("watched")

    def past() -> StreamPast:
        return reader(STREAM).read(time.time() - HOUR, time.time())

    def started() -> bool:
        assert driver.poll() is None, (tmp_path / "log").read_text()[-3000:]
        found = past()
        return bool(found.queries) and sum(batch.rows for batch in found.queries[0].batches) == 30

    wait_until("the first batches", started, START_SECONDS, 0.2)
    services.send("watched", {0: [str(now - HOUR).encode()] * 3, 1: [str(now).encode()] * 20})
    wait_until("late rows", lambda: only(past()).batches[-1].totals.rows == 53, 30, 0.5)

    def said() -> list[tuple[int, float]]:
        """Which batches are done, and when."""
        lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
        return [(int(number), float(at)) for number, at in lines]

    def batch_behind(done: int) -> Callable[[], bool]:
        return lambda: len(said()) > done

    begun = time.time()
    while time.time() - begun < WRITE_SECONDS + 2.5:
        done = len(said())
        services.send("watched", {1: [str(now).encode()] * 10})
        wait_until("another batch", batch_behind(done), 30, 0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    killed = time.time()

    found = only(past())
    batches = found.batches
    assert found.query == NAME
    # None is missing in between, and at the end only those of the last seconds.
    assert [batch.batch for batch in batches] == list(range(len(batches)))
    old = [number for number, at in said() if killed - at > WRITE_SECONDS + 2]
    assert len(old) >= 2
    assert batches[-1].batch >= old[-1]
    print(f"{len(said())} batches were done, {len(batches)} are kept")
    # It could not say that it ended: its silence must tell.
    assert not found.latest.is_ended
    assert found.latest.sign is not None

    last = batches[-1]
    assert last.totals.rows == sum(batch.rows for batch in batches)
    assert last.totals.batches == len(batches)
    # Spark counts what reaches the state: rows of one window in one task are one by then.
    assert 1 <= last.totals.late <= 3
    assert last.totals.late == sum(batch.late for batch in batches)
    assert last.state is not None
    assert last.state.rows >= 1
    assert last.state.memory_bytes > 0
    assert sum(batch.state.removed for batch in batches if batch.state) >= 1
    assert last.watermark == now - 600
    assert batches[0].watermark is None
    behind = [batch.behind for batch in batches if batch.behind]
    assert max(found.most for found in behind) >= 10
    assert behind[-1].least == 0
    assert {"addBatch", "walCommit", "queryPlanning", "latestOffset"} <= set(last.parts)
    assert 0 < sum(last.parts.values()) <= last.seconds + 0.1
    assert any(batch.input_rate and batch.processed_rate for batch in batches)


def test_a_query_that_ends_says_so_and_all_of_it_is_kept(
    spark: SparkSession, services: Services, reader: Callable[..., ProgressReader], tmp_path: Path
) -> None:
    """In a process that ends well, or fails, the last lines are written at its end."""
    platform = services.stack.platform("consumer")
    services.minio  # noqa: B018
    began = time.monotonic()
    with module.attach(spark, platform, "ending"):
        for name, fails in (("good one", False), ("bad/one", True)):
            rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
            broken = "raise_error('no such luck')" if fails else "value"
            query = (
                rows.selectExpr(broken)
                .writeStream.queryName(name)
                .format("noop")
                .option("checkpointLocation", str(tmp_path / str(fails)))
                .trigger(processingTime="300 milliseconds")
                .start()
            )
            wait_until("its end", partial(_is_through, query, fails), 30, 0.1)
            query.stop()
    assert time.monotonic() - began < 25
    # After the block nobody listens any more.
    found = reader("ending").read(time.time() - HOUR, time.time())
    bad, good = found.queries
    assert (bad.query, good.query) == ("bad/one", "good one")
    assert isinstance(good.latest.newest, Sign)
    assert (good.latest.newest.kind, good.latest.newest.detail) == (Kind.ENDED, "")
    assert [batch.batch for batch in good.batches] == list(range(len(good.batches)))
    assert good.batches[-1].rows > 0
    assert (good.batches[-1].state, good.batches[-1].watermark, good.batches[-1].behind) == (None, None, None)
    assert isinstance(bad.latest.newest, Sign)
    assert bad.latest.newest.kind == Kind.ENDED
    assert "no such luck" in bad.latest.newest.detail
    assert "\n" not in bad.latest.newest.detail


def _is_through(query: StreamingQuery, fails: bool) -> bool:
    if fails:
        return not query.isActive
    return query.isActive and any(progress["numInputRows"] for progress in query.recentProgress)


# The writer, and S3 failing.


@pytest.fixture
def proxied(services: Services) -> Iterator[tuple[FaultProxy, Any]]:
    """A proxy before MinIO, and the platform of the consumer behind it."""
    services.minio  # noqa: B018
    consumer = services.stack.platform("consumer")
    with FaultProxy(services.minio_url) as proxy:
        yield proxy, replace(consumer, s3=replace(consumer.s3, endpoint=proxy.url))


def said(run: str, batch: int, name: str = "q", rows: int = 5) -> dict[str, Any]:
    """A batch as Spark's JSON says it, ended just now."""
    return {
        "id": "i",
        "runId": run,
        "name": name,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "batchId": batch,
        "batchDuration": 10,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 10},
        "stateOperators": [],
        "sources": [],
    }


def test_a_bucket_that_fails_is_said_once_and_its_lines_come_later_in_order(
    proxied: tuple[FaultProxy, Any], reader: Callable[..., ProgressReader], caplog: pytest.LogCaptureFixture
) -> None:
    proxy, platform = proxied
    caplog.set_level(logging.INFO, "spark_jobs.common.progress")
    listener = Listener()
    writer = Writer(listener, "failing", module.to_bucket(platform), time.time())

    def levels() -> list[str]:
        return [record.levelname for record in caplog.records]

    proxy.add(Rule("/progress/", "PUT", status=503))
    for number in range(3):
        listener.progressed(said("a", number))
        listener.progressed(said("b", number, "r"))
        writer.write()
    # One call a round: the second query's is not tried when the first's has failed.
    assert proxy.hits() == 3
    assert levels() == ["WARNING"]
    proxy.clear()
    listener.progressed(said("a", 3))
    writer.write()
    writer.write()
    assert levels() == ["WARNING", "INFO"]
    assert listener.dropped == 0
    found = {past.query: past for past in reader("failing").read(time.time() - HOUR, time.time()).queries}
    assert [batch.batch for batch in found["q"].batches] == [0, 1, 2, 3]
    assert [batch.totals.rows for batch in found["q"].batches] == [5, 10, 15, 20]
    assert [batch.batch for batch in found["r"].batches] == [0, 1, 2]

    # A second streak is said anew.
    proxy.add(Rule("/progress/", "PUT", cut="request"))
    listener.progressed(said("a", 4))
    writer.write()
    assert levels() == ["WARNING", "INFO", "WARNING"]


def test_memory_is_bounded_and_the_oldest_are_dropped() -> None:
    listener = Listener(most_lines=5)
    for number in range(4):
        listener.progressed(said("a", number))
    lines = listener.take()["q"]
    for number in range(4, 8):
        listener.progressed(said("a", number))
    listener.give_back("q", lines)
    assert listener.dropped == 3
    kept = [module.json.loads(line)["batch"] for line in listener.take()["q"]]
    assert kept == [3, 4, 5, 6, 7]
    for number in range(20):
        listener.progressed(said("a", number))
    assert len(listener.take()["q"]) == 5
    assert listener.dropped == 3 + 15


def test_a_query_that_is_silent_gives_a_sign_and_one_that_ended_gives_none() -> None:
    now = [0.0]
    listener = Listener(clock=lambda: now[0])
    listener.progressed(said("a", 0))
    listener.take()
    now[0] = module.SIGN_SECONDS - 1
    assert listener.take() == {}
    now[0] += 1
    (line,) = listener.take()["q"]
    assert module.json.loads(line)["kind"] == Kind.WORKING
    assert listener.take() == {}

    event: Any = SimpleNamespace(runId="a", exception=None)
    listener.onQueryIdle(event)
    listener.onQueryIdle(event)
    (line,) = listener.take()["q"]
    assert module.json.loads(line)["kind"] == Kind.IDLE
    now[0] += module.SIGN_SECONDS
    (line,) = listener.take()["q"]
    assert module.json.loads(line)["kind"] == Kind.IDLE
    listener.onQueryTerminated(event)
    assert module.json.loads(listener.take()["q"][0])["kind"] == Kind.ENDED
    now[0] += 10 * module.SIGN_SECONDS
    assert listener.take() == {}
    assert listener.all_ended.is_set()


def test_the_consumer_may_write_progress_and_nothing_else_of_the_ledger(services: Services) -> None:
    services.minio  # noqa: B018
    consumer = services.stack.platform("consumer")
    client = connect(consumer.s3)
    bucket, root = consumer.lake.ledger.removeprefix("s3://").split("/")
    client.put_object(Bucket=bucket, Key=f"{root}/progress/rights/q/2026-01-01/x", Body=b"")
    for key in ("rights/x.json", "progressx/x", "progress"):
        with pytest.raises(ClientError, match="AccessDenied"):
            client.put_object(Bucket=bucket, Key=f"{root}/{key}", Body=b"")
    with pytest.raises(ClientError, match="AccessDenied"):
        client.get_object(Bucket=bucket, Key=f"{root}/progress/rights/q/2026-01-01/x")


# The reader.


class Kept:
    """Puts objects as writers do, at any time."""

    def __init__(self, services: Services, stream: str) -> None:
        self.client, self.stream = services.minio, stream
        _, _, self.bucket, self.root = services.stack.platform("airflow").lake.ledger.split("/")

    def put(self, query: str, at: float, *batches: int, body: bytes | None = None) -> str:
        lines = [
            to_line(Progress(query, "r", number, at - 1, 1.0, 10, Totals(0.0, number + 1)))
            for number in batches
        ]
        key = f"{self.root}/{object_key(self.stream, query, at, 0.0)}"
        self.client.put_object(
            Bucket=self.bucket, Key=key, Body="\n".join(lines).encode() if body is None else body
        )
        return key


def test_what_is_asked_for_is_listed_and_read_once(
    services: Services, reader: Callable[..., ProgressReader]
) -> None:
    kept, now = Kept(services, "asked"), 1_795_302_000.0  # at 23:00 UTC
    midnight = now // DAY * DAY
    kept.put("q", now - 2 * HOUR, 0)
    for number, at in enumerate((now - 1000, now - 500, now - 10), 1):
        kept.put("q", at, number)
    kept.put("long ago", now - 3 * DAY, 1)
    kept.put("long ago", now - 3 * DAY + 60, 2, 3)
    kept.put("forgotten", now - 9 * DAY, 1)
    kept.put("around midnight", midnight - 30, 1)
    kept.put("around midnight", midnight + 30, 2)
    made = reader("asked", most_reads=3)

    def calls(since: float) -> tuple[StreamPast, dict[str, int]]:
        before = services.stack.minio_requests()
        found = made.read(since, now)
        after = services.stack.minio_requests()
        return found, {api: n - before.get(api, 0) for api, n in after.items() if n > before.get(api, 0)}

    found, spent = calls(now - HOUR)
    assert spent["GetObject"] == 3
    # The newest first: what is older comes with the next question.
    assert not found.complete
    batches = {past.query: [batch.batch for batch in past.batches] for past in found.queries}
    assert batches == {"around midnight": [], "long ago": [], "q": [1, 2, 3]}
    found, spent = calls(now - HOUR)
    assert found.complete
    assert spent["GetObject"] == 2
    words = {past.query: past.latest.progress for past in found.queries}
    assert words["long ago"] is not None
    assert (words["long ago"].batch, words["long ago"].ended) == (3, now - 3 * DAY + 60)
    found, spent = calls(now - HOUR)
    assert "GetObject" not in spent
    assert sum(spent.values()) <= 1 + 3 * 4

    # Over midnight both days are listed.
    found, _ = calls(midnight - 3600)
    while not found.complete:
        found, _ = calls(midnight - 3600)
    batches = {past.query: [batch.batch for batch in past.batches] for past in found.queries}
    assert batches == {"around midnight": [1, 2], "long ago": [], "q": [0, 1, 2, 3]}


def test_a_stream_of_which_nothing_is_kept(reader: Callable[..., ProgressReader]) -> None:
    assert reader("nobody").read(time.time() - HOUR, time.time()) == StreamPast((), complete=True)


def test_an_object_that_is_none_is_refused_by_name_and_one_that_went_is_left_out(
    services: Services, reader: Callable[..., ProgressReader]
) -> None:
    kept, now = Kept(services, "odd"), time.time()
    key = kept.put("q", now - 20, 1)

    class Late(ProgressReader):
        """The object goes when it was listed."""

        def _objects(self, prefix: str, after: str) -> list[str]:
            found = super()._objects(prefix, after)
            services.minio.delete_object(Bucket=kept.bucket, Key=key)
            return found

    airflow = services.stack.platform("airflow")
    made = Late(connect(airflow.s3), airflow.lake.ledger, "odd")
    assert made.read(now - HOUR, now).queries[0].latest.newest is None
    bad = kept.put("q", now - 10, body=b'{"kind": "idle", "query": "q"}\n')
    with raising(Refused, f"s3://{kept.bucket}/{bad}", "line 1"):
        reader("odd").read(now - HOUR, now)
