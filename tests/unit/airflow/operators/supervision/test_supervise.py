"""Supervision of a component from the check to the recovery, as Airflow would carry it through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger, TaskSuccessEvent
from botocore.exceptions import ClientError as S3Error

from sluice.airflow.operators.supervision.supervise import SuperviseOperator, request_from
from sluice.airflow.triggers import health
from sluice.clients.processes.base import Runtime
from sluice.config import streams
from sluice.config.sections.supervision import Supervision
from sluice.core.errors import ClientError, Missing, Unreachable
from sluice.core.processes import exits
from sluice.core.processes.heartbeat import Heartbeat, HeartbeatState
from sluice.core.processes.status import ENDED, Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S
from sluice.core.tables.position import Position
from sluice.ledger.history import History
from sluice.ledger.keys import history_name
from sluice.supervision.decide import Decision, Step
from sluice.supervision.lifecycle import Request
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.status import WELL, Health
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import new_tables
from tests.support.supervision import T0, Ti, connect, context, events

STREAM = "wiki_changes"
SPEC = streams.load(STREAM)
KINDS = ("health", "restart", "start", "stop", "suspend", "resume", "recovered")
DENIED = S3Error({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")


WRONG = "SLU-101 ConfigError: stream.toml: unknown key 'x'"


class World(Runtime):
    """One component's process, its heartbeats and its history, on a clock that only sleeping moves.

    ``lives``: after a start, when it gives its first heartbeat (seconds), None: never; ``ends``: when it ends
    after a start, and how. ``foreign``: another one gives heartbeats.
    """

    def __init__(self, state: S = S.RUNNING, component: str = "producer") -> None:
        self.component = component
        self.program = SPEC.component(component).program
        self.began = self.now = datetime.now(UTC).timestamp()
        self.process = ProcessStatus(
            self.program, state, 7 if state is S.RUNNING else None, self.now - 500, 0
        )
        self.heard: Heartbeat | None = self.heartbeat(2)
        self.memory = MemoryS3()
        name = history_name(STREAM, component)
        self.kept = History(self.memory.as_client(), "s3://w/ledger", name)
        self.did: list[Any] = []
        self.observations = 0
        self.away: dict[str, ClientError] = {}
        self.lives: float | None = 4.0
        self.ends: tuple[float, int] | None = None
        self.foreign = False
        self.state, self.state_since = HeartbeatState.STREAMING, 400.0
        self.meanwhile: Callable[[], None] = lambda: None
        self.ti = Ti({})
        # How far the clock was set back; the monotonic one was not.

    # The clock.

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.meanwhile()

    # The runtime.

    def status(self, program: str) -> ProcessStatus:
        assert program == self.program
        self._check("process")
        since = self.process.since or 0
        if self.ends and self.process.is_alive and self.now - since >= self.ends[0]:
            said = WRONG if self.ends[1] == exits.CONFIGURATION else ""
            self.process = ProcessStatus(program, S.EXITED, None, since, self.ends[1], said)
        return self.process

    def start(self, program: str) -> bool:
        self._check("process")
        self.did.append("start")
        self.process = ProcessStatus(program, S.RUNNING, 8, self.now)
        return True

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        self._check("process")
        assert instance in (None, self.process.identity)
        self.did.append(f"stop {grace}")
        self.process = ProcessStatus(program, S.STOPPED, None, self.process.since, 0)
        return self.process

    def tail(self, program: str, size: int = 8192) -> list[str]:
        return ["Traceback", "psycopg2.OperationalError: no database"]

    # Kafka and the lake.

    def heartbeat(
        self, ago: float, pid: int = 7, state: HeartbeatState = HeartbeatState.STREAMING, since: float = 400
    ) -> Heartbeat:
        return Heartbeat(self.now - ago, pid, state, self.now - since)

    def newest(self, name: str, component: str, topic: str) -> Heartbeat | None:
        assert (name, component, topic) == (STREAM, self.component, "wiki-changes")
        self._check("kafka")
        self.observations += 1
        since = self.process.since or 0
        if self.foreign:
            self.heard = self.heartbeat(1, pid=99)
        elif self.process.pid == 8 and self.lives is not None and self.now - since >= self.lives:
            self.heard = self.heartbeat(1, pid=8, state=self.state, since=self.state_since)
        return self.heard

    def describe(self, topic: str) -> Any:
        return SimpleNamespace(id="t", partitions=1)

    def begins(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 0}

    def ends_of(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 10}

    def position(self, table: str, quarantine: str) -> Position:
        """The consumer acquires the lease ``lives`` seconds after its start, and everything is published."""
        is_new = self.process.pid == 8 and self.lives is not None
        started = (self.process.since or 0.0) + (self.lives or 0)
        epoch, at = (4, started) if is_new and self.now >= started else (3, self.began - 490)
        return Position(epoch=epoch, at=at, acquired_at=at, starts={0: 0}, ends={0: 10}, topic_id="t")

    def _check(self, system: str) -> None:
        if system in self.away:
            raise self.away[system]

    # Airflow.

    def observed(self, spec: Any, component: str) -> Any:
        raise Unreachable("the observer does not answer")

    def sampler(self, spec: Any, component: str) -> Sampler:
        kafka = SimpleNamespace(
            heartbeat=self.newest, describe=self.describe, begins=self.begins, ends=self.ends_of
        )
        return Sampler(cast("Any", kafka), lambda: new_tables(self), self, spec, component)

    @property
    def hook(self) -> Any:
        def history(name: str) -> History:
            if name == f"{STREAM}.maintenance":
                return History(self.memory.as_client(), "s3://w/ledger", name)
            assert name == history_name(STREAM, self.component)
            return self.kept

        return SimpleNamespace(
            runtime=self, history=history, brief_history=history, observed=self.observed, sampler=self.sampler
        )

    def operator(self) -> SuperviseOperator:
        made = SuperviseOperator(task_id=self.component, stream=STREAM, component=self.component)
        made.__dict__["platform_hook"] = self.hook
        return made

    def supervise(self, **request: Any) -> str:
        """One task as Airflow carries it through; the health of its check. Raises what makes it red."""
        made, given = self.operator(), context(**request)
        given["ti"] = given["task_instance"] = self.ti
        arguments = made.start_trigger_args
        assert arguments is not None
        assert arguments.trigger_cls == f"{health.__name__}.HealthTrigger"
        event = self._fire(health.HealthTrigger(**(arguments.trigger_kwargs or {})), given)
        if isinstance(event, TaskSuccessEvent):
            assert event.xcoms is not None
            return str(cast("Any", event.xcoms["return_value"])["health"])
        method, arguments_of = arguments.next_method, {"event": event.payload}
        while True:
            try:
                getattr(made, method)(given, **arguments_of)
            except TaskDeferred as waits:
                fired = self._fire(waits.trigger, given)
                method, arguments_of = waits.method_name, {"event": fired.payload, **(waits.kwargs or {})}
            else:
                break
        return str(self.ti.pushed["return_value"]["health"])

    def _fire(self, trigger: BaseTrigger, given: Any) -> Any:
        path, values = trigger.serialize()
        assert path == f"{health.__name__}.{type(trigger).__name__}"
        return self.fire(type(trigger)(**values), given)

    def fire(self, made: Any, given: Any = None) -> Any:
        """The first event of a trigger, on this clock."""
        connect(made, self.hook)
        made.clock, made.sleep = lambda: self.now, self.sleep
        made.task_instance = SimpleNamespace(
            task=None, task_id=self.component, get_template_context=lambda: given
        )

        async def first() -> Any:
            return await anext(made.run())

        return asyncio.run(first())

    def red(self, *data: str, **request: Any) -> None:
        with raising(AirflowFailException, *data):
            self.supervise(**request)

    @property
    def happened(self) -> list[str]:
        return [
            f"health {event['health']}" if event["kind"] == "health" else event["kind"]
            for event in events(self.kept, *KINDS)
        ]


@pytest.fixture(params=["consumer", "producer"])
def ended(request: pytest.FixtureRequest) -> World:
    return World(S.EXITED, request.param)


@pytest.fixture(params=["consumer", "producer"])
def world(request: pytest.FixtureRequest) -> World:
    return World(S.RUNNING, request.param)


@pytest.fixture
def producer() -> World:
    return World()


def test_what_is_healthy_costs_one_sample_and_no_worker(world: World) -> None:
    seen = {world.supervise() for _ in range(2)}
    assert seen <= {"healthy", "idle"}
    assert (world.now, world.did, world.ti.pushed) == (world.began, [], {})
    assert world.happened == [f"health {health}" for health in seen], "only what changed is recorded"


def test_what_ended_for_good_is_started_and_recovers(ended: World) -> None:
    assert ended.supervise() == "down"
    assert ended.did == ["start"]
    assert ended.happened == ["health down", "restart", "recovered"]
    (restart,) = events(ended.kept, "restart")
    assert (restart["who"], restart["requested"], restart["health"]) == ("schedule", False, "down")
    assert ended.supervise() in ("healthy", "idle")


def test_what_the_runtime_restarts_is_left_to_it(ended: World) -> None:
    ended.process = replace(
        ended.process,
        state=S.BACKOFF,
        last_exit=ProcessExit(ended.now, 1, 3.0),
        restart_at=ended.now + 9,
    )
    assert ended.supervise() == "starting"
    assert (ended.did, ended.happened) == ([], ["health starting"])


def test_hung_queries_or_producers_are_killed_and_restarted(producer: World) -> None:
    producer.heard = producer.heartbeat(61)
    assert producer.supervise() == "stalled"
    assert producer.did == ["stop 0", "start"]
    assert producer.supervise() == "healthy"


def test_one_sample_is_not_enough_to_kill(producer: World) -> None:
    """Kafka was away: the heartbeats come again, a moment after the first sample."""
    producer.heard = producer.heartbeat(100)

    def back() -> None:
        producer.heard = producer.heartbeat(1)

    producer.meanwhile = back
    assert producer.supervise() == "healthy"
    assert (producer.observations, producer.did) == (2, [])


def test_where_another_one_sends_nothing_is_started() -> None:
    ended = World(S.EXITED)
    ended.foreign = True
    assert ended.supervise() == "fenced"
    assert (ended.did, ended.happened) == ([], ["health fenced"])


def test_a_start_that_finds_another_one_at_work_is_not_red() -> None:
    """It has waited for the lock and ended; the other one began in between."""
    ended = World(S.EXITED)
    ended.lives, ended.ends = None, (30, 76)

    def other() -> None:
        ended.foreign = ended.did == ["start"]

    ended.meanwhile = other
    assert ended.supervise() == "down"
    assert ended.did == ["start"]
    assert "recovered" not in ended.happened


# Left to a person.


def flapping(component: str) -> World:
    """The runtime has restarted it three times and goes on doing so."""
    made = World(S.EXITED, component)
    made.process = replace(
        made.process,
        state=S.BACKOFF,
        restarts=tuple(made.now - ago for ago in (90, 60, 30)),
        last_exit=ProcessExit(made.now - 10, 1, 3.0),
        restart_at=made.now + 600,
    )
    return made


WAYS_ON = ("wiki_changes_stream with action restart", "action stop", "/dags/wiki_changes_stream")


@pytest.mark.parametrize("component", ["consumer", "producer"])
def test_a_component_that_flaps_is_red_and_untouched_with_the_ways_on(component: str) -> None:
    world = flapping(component)
    for _ in range(3):
        world.red("SLU-614", f"the {component} of wiki_changes", "psycopg2.OperationalError", *WAYS_ON)
        assert world.did == []
    assert world.happened.count("restart") == 3, "the runtime's restarts are in the history"
    assert world.happened.count("health flapping") == 1


@pytest.mark.parametrize("component", ["consumer", "producer"])
def test_it_stays_so_when_the_restarts_are_long_ago_until_a_person_acts(component: str) -> None:
    """A system that does not answer meanwhile takes nothing back."""
    world = World(S.EXITED, component)
    old = datetime.now(UTC) - timedelta(seconds=SPEC.supervision.restart_window_seconds + 60)
    flapped = {"health": "flapping", "left_since": old.timestamp(), "requested_at": 0.0}
    world.kept.record("health", flapped, old)
    for _ in range(2):
        world.red("SLU-614", "no person has acted", *WAYS_ON)
    world.away["process"] = Unreachable("supervisord is away")
    world.red("unknown")
    world.away.clear()
    world.red("SLU-614", *WAYS_ON)
    assert (world.did, world.happened.count("restart")) == ([], 0)
    world.supervise(user="ada", action="restart", at=datetime.now(UTC))
    assert world.did == ["start"]
    assert world.supervise() in ("healthy", "idle")
    world.process = replace(world.process, state=S.EXITED, pid=None)
    assert world.supervise() == "down", "the counts began again"
    assert world.did == ["start", "start"]


def test_a_component_that_flaps_again_after_a_persons_restart_is_left_again() -> None:
    """Within one check the runtime may restart it as often as before."""
    world = flapping("producer")
    world.red("SLU-614")
    (first,) = events(world.kept, "health")
    world.kept.record("resume", {"who": "ada"}, datetime.now(UTC))
    again = datetime.now(UTC).timestamp()
    world.process = replace(world.process, restarts=tuple(again + ago for ago in (0.1, 0.2, 0.3)))
    world.red("SLU-614")
    assert world.happened.count("health flapping") == 2
    *_, newest = events(world.kept, "health")
    assert newest["left_since"] > first["left_since"]


def test_a_component_that_works_again_by_itself_is_left_no_more() -> None:
    world = flapping("producer")
    world.red("SLU-614")
    started = world.now - SPEC.supervision.startup_timeout_seconds - 1
    world.process = replace(world.process, state=S.RUNNING, pid=8, since=started, restart_at=None)
    world.heard = world.heartbeat(1, pid=8)
    assert world.supervise() == "healthy"
    assert world.kept.restart_history(datetime.now(UTC), SPEC.supervision).left_since is None


def test_a_persons_restart_is_carried_out_on_what_flaps() -> None:
    world = flapping("producer")
    world.red("SLU-614")
    world.supervise(user="ada", action="restart", at=datetime.now(UTC))
    assert world.did == ["stop 20", "start"]
    assert world.supervise() == "healthy"


def test_a_persons_stop_keeps_what_flaps_stopped() -> None:
    world = flapping("producer")
    world.red("SLU-614")
    world.supervise(user="ada", action="stop")
    assert world.did == ["stop 20"]
    assert [world.supervise() for _ in range(2)] == ["suspended"] * 2


def test_a_component_that_is_misconfigured_is_left_to_a_person_at_once(ended: World) -> None:
    ended.process = replace(ended.process, exit_status=exits.CONFIGURATION, description=WRONG)
    for _ in range(2):
        with raising(AirflowFailException, ended.program, *(WAYS_ON[0], WAYS_ON[2])) as caught:
            ended.supervise()
        assert str(caught.value).startswith(WRONG)
        assert ended.did == []
        assert ended.happened == ["health down"]
    (event,) = events(ended.kept, "health")
    assert WRONG in event["message"]


def test_a_consumer_that_a_schema_stopped_is_left_with_the_way_on() -> None:
    world = World(S.EXITED, "consumer")
    said = "SLU-516 SchemaNotFollowed: schema id 7 cannot be followed"
    world.process = replace(world.process, exit_status=exits.CONFIGURATION, description=said)
    what = "the consumer of wiki_changes ended at an incompatible schema: "
    world.red("SLU-616", what, "schema id 7", *(WAYS_ON[0], WAYS_ON[2]))
    assert world.did == []


def test_a_restart_into_the_same_wrong_configuration_is_red_with_it_first(ended: World) -> None:
    ended.process = replace(ended.process, exit_status=exits.CONFIGURATION, description=WRONG)
    ended.lives, ended.ends = None, (3.0, exits.CONFIGURATION)
    said = (ended.program, "wiki_changes_stream", "restart")
    with raising(AirflowFailException, *said) as caught:
        ended.supervise(user="ada", action="restart")
    assert str(caught.value).startswith(WRONG)
    assert str(caught.value).count("ConfigError") == 1
    assert ended.did == ["start"]


def test_restarts_that_did_not_help_are_not_repeated() -> None:
    ended = World(S.EXITED)
    for number in range(3):
        ended.kept.record("restart", {"requested": False, "n": number}, datetime.now(UTC))
    ended.red("SLU-614", "flapping")
    assert ended.did == []


# Red.


def test_a_source_that_does_not_answer_is_red_and_not_restarted(producer: World) -> None:
    producer.heard = producer.heartbeat(1, state=HeartbeatState.CONNECTING, since=75)
    producer.red("producer", "wiki_changes", "source unavailable", "75 s")
    assert (producer.did, producer.happened) == ([], ["health source unavailable"])


def test_a_missing_image_is_red_and_not_restarted(producer: World) -> None:
    said = "x/jobs:1: not found"
    producer.process = replace(
        producer.process, state=S.STARTING, description=said, problem=Problem.IMAGE_MISSING
    )
    producer.red("SLU-608", "producer", "wiki_changes", "image missing", said)
    assert (producer.did, producer.happened) == ([], ["health image missing"])


@pytest.mark.parametrize(
    ("state", "problem"), [(S.RUNNING, Problem.NODE_LOST), (S.EXITED, Problem.OUT_OF_MEMORY)]
)
def test_what_a_cluster_took_is_restarted(state: S, problem: Problem) -> None:
    world = World(state)
    world.process = replace(world.process, problem=problem)
    assert world.supervise() == problem
    assert world.did == (["stop 0", "start"] if state is S.RUNNING else ["start"])


def test_what_its_runtime_restarts_is_left_to_it(ended: World) -> None:
    ended.process = replace(
        ended.process,
        state=S.BACKOFF,
        last_exit=ProcessExit(ended.now - 10, 137, 3.0),
        problem=Problem.OUT_OF_MEMORY,
    )
    assert ended.supervise() == "out of memory"
    assert (ended.did, ended.happened) == ([], ["health out of memory"])


def test_overdue_maintenance_is_red_though_the_consumer_is_well() -> None:
    world = World(component="consumer")
    ended = datetime.now(UTC) - 3 * timedelta(hours=SPEC.maintenance.schedule_hours, minutes=1)
    world.kept.record_maintenance(ended, "r")
    world.red("SLU-511", ended.isoformat(timespec="seconds"), "24 hours", "wiki_changes_maintenance")
    assert world.did == []
    world.kept.record_maintenance(ended + timedelta(minutes=10), "r")
    assert world.supervise() in WELL


def test_maintenance_recorded_by_a_clock_that_was_ahead_is_red() -> None:
    world = World(component="consumer")
    world.kept.record_maintenance(datetime.now(UTC) + timedelta(days=365), "r")
    world.red("SLU-511", "ahead of Airflow's clock")


def test_a_stream_without_maintenance_is_well_for_as_long_and_one_that_is_stopped_always() -> None:
    world = World(component="consumer")
    assert world.supervise() in WELL
    (first,) = events(world.kept, "maintenance")
    assert datetime.now(UTC) - datetime.fromisoformat(first["at"]) < timedelta(minutes=10)
    world.supervise(user="ada", action="stop")
    assert world.supervise() == "suspended"


@pytest.mark.parametrize("end", [None, (5.0, 1)])
def test_a_start_that_does_not_recover_is_red_with_its_logs_reason(ended: World, end: Any) -> None:
    ended.lives, ended.ends = None, end
    ended.red(ended.program, "psycopg2.OperationalError: no database")
    assert ended.did == ["start"]
    assert "recovered" not in ended.happened
    waited = ended.now - ended.began
    assert waited >= 110 if end is None else waited < 35, "what has ended is not waited for"


REFUSED = "SLU-210 LoginRefused: Kafka at b:1 refuses the login: unknown user"


def test_a_login_that_is_refused_is_red_and_counts_no_restart(ended: World) -> None:
    """And is well once it is corrected, however often it was tried."""
    refused: dict[str, Any] = {"exit_status": exits.LOGIN_REFUSED, "description": REFUSED}
    for attempt in range(1, 7):
        at = tuple(ended.now - 5 - number for number in range(attempt))
        tried: dict[str, Any] = {"restarts": at, "refused": at}
        tried |= {"last_exit": ProcessExit(ended.now - 1, 77, 3.0), "restart_at": ended.now + 9}
        ended.process = replace(ended.process, state=S.BACKOFF, **(refused | tried))
        ended.red("SLU-617", "unknown user", "restarts it in")
        ended.now += 30
    assert (ended.did, ended.happened) == ([], ["health login refused"])
    assert not ended.kept.restart_history(datetime.now(UTC), Supervision()).restarts


def test_a_refused_login_that_no_runtime_tries_again_supervision_does(ended: World) -> None:
    refused = replace(ended.process, exit_status=exits.LOGIN_REFUSED, description=REFUSED)
    for _ in range(5):
        ended.process = refused
        ended.red("SLU-617", "unknown user")
        ended.now += 120
    assert ended.did == ["start"] * 5
    assert not ended.kept.restart_history(datetime.now(UTC), Supervision()).restarts
    ended.supervise(user="ada", action="stop")
    ended.process = replace(refused, state=S.STOPPED)
    assert ended.supervise() == "suspended"
    assert ended.did[5:] == ["stop 20"]


def test_a_restart_that_ends_over_a_refused_login_says_so(ended: World) -> None:
    ended.lives, ended.ends = None, (5.0, exits.LOGIN_REFUSED)
    ended.red("SLU-617", ended.component, "login refused")
    assert ended.now - ended.began < 35


@pytest.mark.parametrize("system", ["process", "kafka", "history"])
@pytest.mark.parametrize("state", [S.RUNNING, S.EXITED])
def test_what_is_unknown_is_red_and_left_alone(system: str, state: S) -> None:
    world = World(state)
    world.away[system] = Unreachable(f"{system} is away")
    if system == "history":
        world.memory.refuse_lists = [DENIED] * 99
    world.red("unknown", system)
    assert world.did == []


def test_a_topic_that_is_missing_is_red_with_its_fix(producer: World) -> None:
    producer.away["kafka"] = Missing("topic 'wiki-changes' does not exist; run provision_topic")
    producer.red("unknown", "run provision_topic")


def test_a_restart_that_cannot_be_recorded_is_not_done(ended: World) -> None:
    ended.memory.refuse_puts = ["ServiceUnavailable"] * 99
    with pytest.raises(Unreachable):
        ended.supervise()
    assert ended.did == []


# Requests.


def test_stop_suspends_the_component_until_start(world: World) -> None:
    world.supervise(user="ada", action="stop", reason="new feed")
    assert world.did == ["stop 20"]
    assert world.supervise() == "suspended"
    assert world.did == ["stop 20"], "a suspended component is left alone"
    suspended = world.kept.suspended()
    assert suspended is not None
    assert (suspended["who"], suspended["reason"]) == ("ada", "new feed")
    world.supervise(user="ada", action="start")
    assert world.did == ["stop 20", "start"]
    assert world.happened[-3:] == ["resume", "start", "recovered"]


def test_a_suspension_that_a_restored_ledger_forgot_is_not_ended(world: World) -> None:
    before = dict(world.memory.objects)
    world.supervise(user="ada", action="stop", reason="new feed")
    world.memory.objects = dict(before)
    for _ in range(2):
        world.red("SLU-105", "suspend", "action start or stop", "Ledger lost")
    assert "start" not in world.did
    world.supervise(user="ada", action="stop", reason="still")
    assert world.supervise() == "suspended"
    world.memory.objects = dict(before)
    world.supervise(user="ada", action="start")
    assert world.did[-1] == "start"
    # As any that ended: a person has acted.
    world.process = replace(world.process, state=S.EXITED, pid=None)
    assert world.supervise() == "down"


def test_a_resumption_that_a_restored_ledger_forgot_stops_nothing(world: World) -> None:
    world.supervise(user="ada", action="stop")
    before = dict(world.memory.objects)
    world.supervise(user="ada", action="start")
    world.memory.objects = dict(before)
    did = list(world.did)
    world.red("SLU-105", "resume", "Ledger lost")
    assert (world.did, world.process.state) == (did, S.RUNNING)


@pytest.mark.parametrize("state", [S.RUNNING, S.BACKOFF])
def test_what_runs_though_it_is_suspended_is_stopped_again(world: World, state: S) -> None:
    """A start was under way, or a backup of the cluster from before the stop was restored."""
    world.supervise(user="ada", action="stop", reason="new feed")
    world.process = replace(world.process, state=state, since=world.now)
    assert world.supervise() == "suspended"
    assert world.did == ["stop 20", "stop 20"]
    assert world.process.state in ENDED
    *_, again = events(world.kept, "stop")
    assert (again["who"], again["requested"]) == ("schedule", False)
    assert world.supervise() == "suspended"
    assert world.did == ["stop 20", "stop 20"]


def test_start_leaves_what_runs_alone(world: World) -> None:
    world.supervise(user="ada", action="start")
    assert world.did == []


def test_a_request_may_be_for_another_component(world: World) -> None:
    other = "producer" if world.component == "consumer" else "consumer"
    assert world.supervise(user="ada", action="stop", component=other) in ("healthy", "idle")
    assert world.did == []


def test_a_restart_on_request_counts_for_no_flapping(world: World) -> None:
    world.supervise(user="ada", action="restart", reason="new address", at=datetime.now(UTC))
    assert world.did == ["stop 20", "start"]
    (restart,) = events(world.kept, "restart")
    assert (restart["who"], restart["reason"], restart["requested"]) == ("ada", "new address", True)
    assert world.kept.restart_history(datetime.now(UTC), SPEC.supervision).restarts == []


def test_a_request_to_what_cannot_be_observed(producer: World) -> None:
    producer.away["process"] = Unreachable("supervisord is away")
    with pytest.raises(Unreachable):
        producer.supervise(user="ada", action="restart")
    producer.away = {"kafka": Unreachable("Kafka is away")}
    producer.red("Kafka is away", user="ada", action="restart", at=datetime.now(UTC))
    assert producer.did == ["stop 20", "start"], "it is done all the same"


def test_what_flaps_is_flapping_for_its_history_too() -> None:
    world = flapping("producer")
    world.red(Health.FLAPPING)
    assert world.happened[-1] == f"health {Health.FLAPPING}"


def test_a_request_names_who_triggered_the_run() -> None:
    asked = Decision(Step.RESTART, "reason", requested=True)
    assert request_from(context(user="ada"), asked) == Request("ada", "reason", "run-1", True, T0)
    assert request_from(context(), Decision(Step.RESTART, "reason")).who == "schedule"
