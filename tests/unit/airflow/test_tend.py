"""A part of a stream: looked at, restarted once for each end, listened for; red where that is called for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from botocore.exceptions import ClientError as S3Error

from sluice.clients.errors import ClientError, Missing, Unreachable
from sluice.clients.history import History
from sluice.clients.keys import history_name
from sluice.model.config import ConfigError
from sluice.model.health import Verdict
from sluice.model.process import ProcessState as S
from sluice.model.process import ProcessStatus
from sluice.model.tending import Beat, State
from sluice.operators import tend as module
from sluice.operators.tend import TendOperator
from sluice.runtime.base import Runtime
from tests.support.memory_s3 import MemoryS3
from tests.support.supervision import context, events

PROGRAM = "stream-wiki_changes-producer"
KINDS = ("verdict", "restart", "start", "stop", "hold", "release", "recovered")


class World(Runtime):
    """One part's process, its heartbeats and its history, on a clock that only sleeping moves.

    ``lives``: after a start, when it gives its first heartbeat (seconds), None: never; ``ends``: when it ends
    after a start, and how. ``foreign``: another one gives heartbeats.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: S = S.RUNNING) -> None:
        # Now, and not when the tests were collected: that may be an hour ago.
        self.began = self.now = datetime.now(UTC).timestamp()
        self.process = ProcessStatus(PROGRAM, state, 7 if state is S.RUNNING else None, self.now - 500, 0)
        self.heard: Beat | None = self.beat(2)
        self.memory = MemoryS3()
        name = history_name("wiki_changes", "producer")
        self.kept = History(self.memory.as_client(), "s3://w/ledger", name)
        self.did: list[Any] = []
        self.looks = 0
        self.away: dict[str, ClientError] = {}
        self.lives: float | None = 4.0
        self.ends: tuple[float, int] | None = None
        self.foreign = False
        self.state, self.state_since = State.STREAMING, 400.0
        self.meanwhile: Callable[[], None] = lambda: None
        monkeypatch.setattr(module, "time", self)

    # The clock.

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.meanwhile()

    # The runtime.

    def status(self, program: str) -> ProcessStatus:
        assert program == PROGRAM
        self._check("process")
        since = self.process.since or 0
        if self.ends and self.process.is_alive and self.now - since >= self.ends[0]:
            self.process = ProcessStatus(PROGRAM, S.EXITED, None, since, self.ends[1])
        return self.process

    def start(self, program: str) -> bool:
        assert program == PROGRAM
        self._check("process")
        self.did.append("start")
        self.process = ProcessStatus(program, S.RUNNING, 8, self.now)
        return True

    def stop(self, program: str, grace: float) -> ProcessStatus:
        assert program == PROGRAM
        self._check("process")
        self.did.append(f"stop {grace}")
        self.process = ProcessStatus(program, S.STOPPED, None, self.process.since, 0)
        return self.process

    def tail(self, program: str, size: int = 8192) -> list[str]:
        assert program == PROGRAM
        return ["Traceback", "psycopg2.OperationalError: no database"]

    # Kafka.

    def beat(self, ago: float, pid: int = 7, state: State = State.STREAMING, since: float = 400) -> Beat:
        return Beat(self.now - ago, pid, state, self.now - since)

    def newest(self, stream: str, part: str, topic: str) -> Beat | None:
        assert (stream, part, topic) == ("wiki_changes", "producer", "wiki-changes")
        self._check("kafka")
        self.looks += 1
        since = self.process.since or 0
        if self.foreign:
            self.heard = self.beat(1, pid=99)
        elif self.process.pid == 8 and self.lives is not None and self.now - since >= self.lives:
            self.heard = self.beat(1, pid=8, state=self.state, since=self.state_since)
        return self.heard

    def _check(self, system: str) -> None:
        if system in self.away:
            raise self.away[system]

    # The step.

    def operator(self, part: str = "producer") -> TendOperator:
        made = TendOperator(task_id=f"tend_{part}", stream="wiki_changes", part=part)
        hook = SimpleNamespace(runtime=self, kafka=SimpleNamespace(beat=self.newest), history=self._history)
        made.__dict__["platform_hook"] = hook
        return made

    def _history(self, name: str) -> History:
        assert name == "wiki_changes.producer"
        return self.kept

    def tend(self, **more: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.operator().execute(context(**more))
        return found

    def red(self, words: str, **more: Any) -> None:
        with pytest.raises(AirflowFailException, match=words):
            self.tend(**more)

    @property
    def happened(self) -> list[str]:
        return [
            f"verdict {event['verdict']}" if event["kind"] == "verdict" else event["kind"]
            for event in events(self.kept, *KINDS)
        ]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch, S.EXITED)


def test_what_is_well_costs_one_look(world: World) -> None:
    found = world.tend()
    assert (found["diagnosis"]["verdict"], found["act"]) == ("healthy", None)
    assert (world.looks, world.now, world.did) == (1, world.began, [])
    assert world.happened == ["verdict healthy"]
    world.tend()
    assert world.happened == ["verdict healthy"], "only what changed is recorded"


def test_the_history_is_the_parts_own(world: World) -> None:
    world.tend()
    (key,) = [key for _, key in world.memory.objects]
    assert key.startswith("ledger/wiki_changes.producer/history/verdict/")
    assert history_name("wiki_changes", "consumer") == "wiki_changes"


def test_what_ended_is_restarted_and_gives_a_heartbeat(ended: World) -> None:
    found = ended.tend()
    assert (found["diagnosis"]["verdict"], found["act"]["done"]) == ("healthy", True)
    assert ended.did == ["start"]
    assert ended.happened == ["verdict dead", "restart", "recovered", "verdict healthy"]
    (recovered,) = events(ended.kept, "recovered")
    assert (recovered["run"], set(recovered)) == ("run-1", {"at", "how", "kind", "run", "seconds", "stream"})
    (restart,) = events(ended.kept, "restart")
    assert (restart["who"], restart["asked"], restart["verdict"]) == ("schedule", False, "dead")
    assert ended.looks >= 3, "two before, and at least one behind"


def test_what_hangs_is_killed(world: World) -> None:
    world.heard = world.beat(61)
    assert world.tend()["diagnosis"]["verdict"] == "healthy"
    assert world.did == ["stop 0", "start"]


def test_one_look_is_not_enough_to_kill(world: World) -> None:
    """Kafka was away: the beats come again, a moment after the first look."""
    world.heard = world.beat(100)

    def back() -> None:
        world.heard = world.beat(1)

    world.meanwhile = back
    assert world.tend()["diagnosis"]["verdict"] == "healthy"
    assert (world.looks, world.did) == (2, [])


def test_what_starts_is_left_alone(world: World) -> None:
    world.process = ProcessStatus(PROGRAM, S.RUNNING, 7, world.began - 20)
    world.heard = None
    assert world.tend()["diagnosis"]["verdict"] == "starting"
    assert world.did == []


def test_where_another_one_sends_nothing_is_started(ended: World) -> None:
    ended.foreign = True
    assert ended.tend()["diagnosis"]["verdict"] == "superseded"
    assert (ended.did, ended.happened) == ([], ["verdict superseded"])


def test_a_start_that_finds_another_one_at_work_is_not_red(ended: World) -> None:
    """It has waited for the lock and ended; the other one began in between."""
    ended.lives, ended.ends = None, (30, 76)

    def other() -> None:
        ended.foreign = ended.did == ["start"]

    ended.meanwhile = other
    assert ended.tend()["diagnosis"]["verdict"] == "superseded"
    assert ended.did == ["start"]


# Red.


def test_a_source_that_does_not_answer_is_red_and_not_restarted(world: World) -> None:
    world.heard = world.beat(1, state=State.CONNECTING, since=75)
    world.red(r"^the producer of wiki_changes is cut off: .*has not answered for 75 s")
    assert (world.did, world.happened) == ([], ["verdict cut off"])


def test_a_start_that_finds_its_source_away_is_red(ended: World) -> None:
    ended.state, ended.state_since = State.CONNECTING, 61
    ended.red("is cut off: .*; stream-wiki_changes-producer is EXITED: started anew")
    assert ended.happened == ["verdict dead", "restart", "recovered", "verdict cut off"]


@pytest.mark.parametrize("end", [None, (5.0, 1)])
def test_a_start_without_a_heartbeat_is_red_with_its_last_words(ended: World, end: Any) -> None:
    ended.lives, ended.ends = None, end
    ended.red(
        r"^stream-wiki_changes-producer was started, and no heartbeat came within 90 s: .*"
        r"its log ends: psycopg2.OperationalError: no database$"
    )
    assert ended.did == ["start"]
    waited = ended.now - ended.began
    # What has ended is not waited for, but for a second look.
    assert (90 <= waited - 7 < 100) if end is None else waited < 25
    assert "recovered" not in ended.happened


def test_a_heartbeat_before_its_end_is_no_recovery(ended: World) -> None:
    """The beat behind the start was its own: it is not taken for somebody else's."""
    ended.lives, ended.ends = 1.0, (1.5, 1)
    ended.red("no heartbeat came")
    assert Verdict.SUPERSEDED.value not in str(ended.happened)


def test_what_keeps_ending_is_not_started_again(ended: World) -> None:
    for _ in range(3):
        ended.kept.record("restart", {"asked": False, "n": ended.looks}, datetime.now(UTC))
        ended.looks += 1
    ended.red("is flapping: dead: .*restarted 3 times.*trigger wiki_changes_stream with action restart$")
    assert ended.did == []


DENIED = S3Error({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")


@pytest.mark.parametrize("system", ["process", "kafka", "history"])
@pytest.mark.parametrize("state", [S.RUNNING, S.EXITED])
def test_what_could_not_be_looked_at_is_red_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, system: str, state: S
) -> None:
    world = World(monkeypatch, state)
    world.away[system] = Unreachable(f"{system} is away")
    if system == "history":
        world.memory.refuse_lists = [DENIED] * 9
    world.red(f"is unobservable: {system}: .*")
    assert world.did == []


def test_a_topic_that_is_missing_is_red_with_its_mend(world: World) -> None:
    world.away["kafka"] = Missing("topic 'wiki-changes' does not exist; run provision_topic")
    world.red("unobservable: kafka: topic 'wiki-changes' does not exist; run provision_topic")


def test_a_restart_that_cannot_be_recorded_is_not_done(ended: World) -> None:
    ended.memory.refuse_puts = ["ServiceUnavailable"] * 9
    with pytest.raises(Unreachable):
        ended.tend()
    assert ended.did == []


def test_a_verdict_that_cannot_be_recorded_is_one_all_the_same(world: World) -> None:
    world.memory.refuse_puts = ["ServiceUnavailable"]
    assert world.tend()["diagnosis"]["verdict"] == "healthy"
    assert world.happened == []


def test_what_another_run_is_at_is_red_until_it_is_well(ended: World) -> None:
    """Its claim is there, and its act is not: nobody knows whether it comes."""
    key = "supervision/claims/" + ended.process.identity + "-1.json"
    ended.kept.ledger.put(key, {"actor": "other", "at": datetime.now(UTC).isoformat()})
    ended.red("is dead: .*another run is restarting it$")
    assert ended.did == []


def test_a_part_that_the_stream_does_not_have_is_a_wrong_declaration(world: World) -> None:
    with pytest.raises(
        AirflowFailException, match="has no part 'editor'; it has consumer, producer, queries"
    ):
        world.operator("editor").execute(context())
    assert issubclass(ConfigError, ValueError)


# A person's orders.


def test_stop_holds_the_part_and_ends_it(world: World) -> None:
    found = world.tend(user="ada", action="stop", why="new feed")
    assert found["diagnosis"]["verdict"] == "held"
    assert world.did == ["stop 20"]
    assert world.happened == ["verdict healthy", "hold", "stop", "verdict held"]
    world.tend()
    assert world.did == ["stop 20"], "a held part is left alone"


def test_start_ends_the_hold_and_starts(ended: World) -> None:
    ended.kept.record("hold", {"who": "ada"}, datetime.now(UTC))
    assert ended.tend(user="ada", action="start")["diagnosis"]["verdict"] == "healthy"
    assert ended.happened == ["hold", "verdict held", "release", "start", "recovered", "verdict healthy"]


def test_start_leaves_what_runs_alone(world: World) -> None:
    found = world.tend(user="ada", action="start")
    assert (found["act"]["done"], world.did) == (False, [])


def test_restart_restarts_what_is_well_and_counts_for_no_flapping(world: World) -> None:
    world.tend(user="ada", action="restart", why="new address", at=datetime.now(UTC))
    assert world.did == ["stop 20", "start"]
    (restart,) = events(world.kept, "restart")
    assert (restart["who"], restart["why"], restart["asked"]) == ("ada", "new address", True)


def test_an_order_to_what_cannot_be_looked_at_is_red(world: World) -> None:
    world.away["process"] = Unreachable("supervisord is away")
    with pytest.raises(Unreachable, match="supervisord is away"):
        world.tend(user="ada", action="restart")
    world.away = {"kafka": Unreachable("Kafka is away")}
    world.red(
        "no heartbeat came within 90 s: kafka: Kafka is away",
        user="ada",
        action="restart",
        at=datetime.now(UTC),
    )
    assert world.did == ["stop 20", "start"], "it is done all the same"
