"""A load's step over a feed: the producer runs once to its end, from where the run began, whatever comes."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.clients import keys
from sluice.hooks import feed as feeds
from sluice.hooks import plan as plans
from sluice.model import stream
from sluice.operators.produce_feed import ProduceFeedOperator
from tests.support.raising import raising
from tests.support.steps import given, ledger

COUNTS: dict[str, Any] = {
    "events": 6, "sent": 5, "known": 2, "canary": 1, "poison": 1, "adopted": False, "seconds": 1.5,
}  # fmt: skip
RESULT: dict[str, Any] = {"begin": {"0": 5, "1": 0}, "ends": {"0": 9, "1": 2}, **COUNTS}
# Tells how it was called and by which environment, says that it runs, and then does what it is given.
PROGRAM = """\
import json, os, signal, sys, time
with open({calls!r}, "a") as file:
    file.write(json.dumps([os.getpid(), *sys.argv[1:], os.environ["SLUICE_PLATFORM_DIR"]]) + "\\n")
def ready():
    open({calls!r} + ".ready", "w").close()
    time.sleep(60)
print("reading the feed", file=sys.stderr, flush=True)
{end}
"""


class Declared(stream.StreamSpec):
    """A stream whose producer is another script."""

    script: Path

    @property
    def parts(self) -> dict[str, stream.Part]:
        return {"producer": stream.Part("producer", "", (str(self.script),))}


class World:
    """A topic, a ledger, and a producer's script of our own."""

    def __init__(self, folder: Path) -> None:
        self.script, self.calls = folder / "producer.py", folder / "calls"
        self.ledger = ledger("wiki_changes")
        self.now, self.after = {0: 5, 1: 0}, {0: 9, 1: 2}
        self.platform = SimpleNamespace(feeds={"wiki_changes": "http://127.0.0.1:9/replay"})
        self.kafka = self
        self.does("raise SystemExit('not to be started')")

    def does(self, end: str) -> None:
        self.script.write_text(PROGRAM.format(calls=str(self.calls), end=end))

    def gives(self, **more: Any) -> None:
        """The producer ends well, with that result."""
        self.does(f"print('half way')\nprint({json.dumps(RESULT | more)!r})")

    def ends(self, topic: str) -> dict[int, int]:
        """The topic's, as KafkaAdmin: what was sent is there once the producer was started."""
        assert topic == "wiki-changes"
        return dict(self.after if self.started else self.now)

    @property
    def started(self) -> list[list[Any]]:
        """The process id, the arguments and the platform folder of each start."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [json.loads(line) for line in lines]

    def operator(self) -> ProduceFeedOperator:
        made = ProduceFeedOperator(task_id="produce", stream="wiki_changes")
        spec = Declared(**vars(stream.load("wiki_changes")))
        spec.__dict__["script"] = self.script
        made.__dict__ |= {"platform_hook": self, "ledger": self.ledger, "spec": spec}
        return made

    @property
    def is_ready(self) -> bool:
        """Whether the producer says so."""
        return self.calls.with_name("calls.ready").exists()

    def run(self, run: str = "r", made: ProduceFeedOperator | None = None, **params: Any) -> dict[str, Any]:
        values = {"events": 6, "minutes": 3, **params}
        return (made or self.operator()).work(given(run_id=run, params=values))

    def settled(self, run: str = "r") -> dict[str, Any] | None:
        return self.ledger.get(keys.produced_key(feeds.source_id(run)))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", "/the/folder")
    return World(tmp_path)


def test_a_run_of_the_producer_is_a_source_that_the_next_steps_find(world: World) -> None:
    world.gives()
    source = {
        "feed": "http://127.0.0.1:9/replay",
        "source_id": feeds.source_id("r"),
    }
    assert world.run() == {
        "topic": "wiki-changes",
        "records": 6,
        "ranges": {"0": [[5, 9]], "1": [[0, 2]]},
        "sources": [{**source, "offsets": 6, "sent_now": True, **COUNTS}],
    }
    (call,) = world.started
    assert call[1:] == ["--events", "6", "--minutes", "3", "/the/folder"]
    plan, (document,) = plans.produced(world.ledger, "r")
    assert plan["sources"] == [{**source, "kind": "feed", "topic": "wiki-changes", "begin": {"0": 5, "1": 0}}]
    assert (document["ranges"], document["counts"]) == ({"0": [5, 9], "1": [0, 2]}, COUNTS)
    assert plan["sources"][0]["source_id"].startswith("feed-")


def test_its_lines_are_in_the_tasks_log_and_its_result_is_not(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.gives()
    world.run()
    said = capsys.readouterr().out
    assert "reading the feed" in said
    assert "half way" in said
    assert '"begin"' not in said
    assert all(f"{name}={value}" in said for name, value in COUNTS.items())


def test_the_feeds_own_servers_are_not_asked_in_nobodys_name(world: World) -> None:
    world.platform.feeds.clear()
    made = ProduceFeedOperator(task_id="produce", stream="wiki_changes")
    made.__dict__ |= {"platform_hook": world, "ledger": world.ledger}
    with raising(AirflowFailException, "https://stream.wikimedia.org"):
        made.execute(given(run_id="r", params={}))
    assert world.started == []


def test_what_was_sent_is_not_sent_again(world: World) -> None:
    world.gives()
    first = world.run()
    world.does("raise SystemExit('not to be started')")
    again = world.run(events=999)
    assert len(world.started) == 1
    assert again["sources"][0].pop("sent_now") is False
    assert first["sources"][0].pop("sent_now") is True
    assert again == first


def test_another_run_is_another_source(world: World) -> None:
    world.gives()
    world.run()
    world.now, world.calls = {0: 9, 1: 2}, world.calls.with_name("calls2")
    world.after = {0: 19, 1: 2}
    world.gives(begin={"0": 9, "1": 2}, ends={"0": 19, "1": 2}, events=10, sent=10)
    assert world.run("r2")["ranges"] == {"0": [[9, 19]]}
    assert feeds.source_id("r") != feeds.source_id("r2")


def test_a_retry_proves_what_the_killed_attempt_sent_too(world: World) -> None:
    world.does("os.kill(os.getpid(), signal.SIGKILL)")
    with raising(AirflowException, "signal 9", "reading the feed") as caught:
        world.run()
    assert not isinstance(caught.value, AirflowFailException)
    # It had sent up to 8, and the next one begins there; with the form's values of the first attempt.
    world.gives(begin={"0": 8, "1": 1}, sent=2)
    assert world.run(events=999)["ranges"] == {"0": [[5, 9]], "1": [[0, 2]]}
    assert [call[1:3] for call in world.started] == [["--events", "6"]] * 2


def test_of_two_attempts_at_once_the_first_one_counts(world: World) -> None:
    world.gives(ends={"0": 8, "1": 1}, events=5)
    other = world.operator()
    source = feeds.pin(
        world.ledger, world, run_id="r", stream="wiki_changes", topic="wiki-changes", feed="f", params={}
    )["sources"][0]
    plans.settle(world.ledger, source, {0: 7, 1: 0}, "r", counts=COUNTS)
    assert world.run(made=other)["ranges"] == {"0": [[5, 7]]}
    assert world.started == []


def test_a_partition_that_was_added_counts_from_its_first_offset(world: World) -> None:
    world.after = {0: 9, 1: 2, 2: 4}
    world.gives(ends={"0": 9, "1": 2, "2": 4}, events=10)
    assert world.run()["ranges"]["2"] == [[0, 4]]


# Red.

RED: dict[str, tuple[str, type[AirflowException], tuple[str, ...]]] = {
    "a failure": ("print('psycopg2.OperationalError: no', file=sys.stderr); sys.exit(1)", AirflowException,
        ("'wiki_changes'", " 1: psycopg2.OperationalError: no")),
    "another producer": ("sys.exit(76)", AirflowException, (" 76: reading the feed",)),
    "a wrong declaration": ("print('failed: ConfigError: x', file=sys.stderr); sys.exit(1)",
        AirflowFailException, (" 1: ConfigError: x",)),
    "half a result": ("print('{\"begin\": {\"0\"')", AirflowFailException, ("""'{"begin": {"0"'""",)),
}  # fmt: skip


@pytest.mark.parametrize(("end", "kind", "data"), RED.values(), ids=RED.keys())
def test_what_is_no_good_end_is_red_and_settles_nothing(
    world: World, end: str, kind: type[AirflowException], data: tuple[str, ...]
) -> None:
    world.does(end)
    with raising(AirflowException, *data) as caught:
        world.run()
    assert type(caught.value) is kind
    assert world.settled() is None
    world.gives()
    assert world.run()["records"] == 6, "another attempt goes on"


def test_a_feed_that_gave_nothing_is_red(world: World) -> None:
    world.gives(ends={"0": 5, "1": 0}, events=0, sent=0, known=0, poison=0, seconds=180.2)
    with raising(AirflowException, "3 min", "http://127.0.0.1:9/replay"):
        world.run()
    assert world.settled() is None


def test_fewer_events_are_enough_when_the_time_is_up(world: World) -> None:
    world.gives(seconds=180.0)
    assert world.run(events=1000)["records"] == 6


def test_a_run_that_somebody_else_ended_early_is_red(world: World) -> None:
    world.gives(seconds=20)
    with raising(AirflowException, "20 s", "6 of 1000"):
        world.run(events=1000)
    assert world.settled() is None


def test_offsets_that_the_topic_does_not_have_are_refused(world: World) -> None:
    world.gives(ends={"0": 10, "1": 2}, events=7)
    with raising(plans.Refused, "partition 0", "at 9", "to 10"):
        world.run()
    assert world.settled() is None


def test_a_plan_for_another_topic_is_refused(world: World) -> None:
    world.ledger.put(keys.run_key("r", "plan"), {"topic": "old", "sources": []})
    with raising(plans.Refused, "'r'", "'old'", "'wiki-changes'"):
        world.run()


def test_a_stream_without_a_feed_is_refused(world: World) -> None:
    made = ProduceFeedOperator(task_id="produce", stream="nyc_taxi")
    made.__dict__ |= {"platform_hook": world, "ledger": world.ledger}
    with raising(AirflowFailException, "'nyc_taxi'"):
        made.execute(given(run_id="r", params={}))


# The end of the task is the producer's.

# Ends well when it is told to, as the producer does: with the result of what it got so far.
GENTLE = f"""\
def end(*_):
    print({json.dumps(RESULT | {"events": 1, "sent": 1})!r}, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
ready()
"""


def until_ready(world: World) -> None:
    deadline = time.monotonic() + 20
    while not world.is_ready:
        assert time.monotonic() < deadline, world.started
        time.sleep(0.01)


def in_the_background(world: World, made: ProduceFeedOperator, **params: Any) -> list[Exception]:
    """Runs it in a thread, until its producer is ready; what it raises comes into the list at its end."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            world.run(made=made, **params)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until_ready(world)
    made.on_kill()
    thread.join(20)
    assert not thread.is_alive()
    return raised


def test_a_killed_task_ends_its_producer_and_takes_no_part_for_the_whole(world: World) -> None:
    world.does(GENTLE)
    (raised,) = in_the_background(world, world.operator(), events=1)
    assert (type(raised), "'wiki_changes'" in str(raised)) == (AirflowException, True)
    assert not psutil.pid_exists(world.started[0][0])
    assert world.settled() is None
    world.gives()
    assert world.run()["records"] == 6


def test_killed_before_it_began(world: World) -> None:
    world.does("ready()")
    made = world.operator()
    made.kill_seconds = 20
    made.on_kill()
    began = time.monotonic()
    with raising(AirflowException, "'wiki_changes'") as caught:
        world.run(made=made)
    assert time.monotonic() - began < 30, "it was not waited for"
    assert type(caught.value) is AirflowException, "another attempt may go on"
    assert world.settled() is None


def test_a_producer_that_does_not_come_to_its_end_is_ended(world: World) -> None:
    world.does(GENTLE)
    made = world.operator()
    made.beyond_seconds = 0.5
    with raising(AirflowException, "'wiki_changes'"):
        world.run(made=made, minutes=0)
    assert world.settled() is None
    assert not any(psutil.pid_exists(pid) for pid, *_ in world.started)


def test_the_tasks_timeout_ends_it_too(world: World) -> None:
    world.does(GENTLE)
    made = world.operator()

    def timeout(*_: Any) -> None:
        raise TimeoutError("the task's")

    def alarm() -> None:
        until_ready(world)
        signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, timeout)
    try:
        threading.Thread(target=alarm, daemon=True).start()
        with raising(TimeoutError, "the task's"):
            world.run(made=made)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not psutil.pid_exists(world.started[0][0])
