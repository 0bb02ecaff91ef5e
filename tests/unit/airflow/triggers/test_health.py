"""A check: when it ends, what it takes along, what it records, and when it ends its task."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent

from sluice.airflow.hook import StreamClients
from sluice.airflow.triggers import base
from sluice.airflow.triggers.health import MAX_SAMPLES, HealthTrigger
from sluice.config.reading.references import SecretNotFound
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.supervision import Supervision
from sluice.core.errors import Unreachable
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessExit, ProcessState, ProcessStatus
from sluice.ledger.history import History
from sluice.supervision.checks.check import Check
from sluice.supervision.observation import Observation
from sluice.supervision.observer.live import FRESH_SECONDS
from sluice.supervision.rules.status import Health, HealthReport, no_action
from tests.support.memory_s3 import MemoryS3
from tests.support.supervision import SPEC, connect, events, report, sample

NOW = 10_000.0
UNCLEAR = report(Health.UNKNOWN)
WELL_NOW = report(Health.HEALTHY)
CERTAIN = report(Health.DOWN, is_final=True)


class Task:
    """The task instance as a triggerer has it for a trigger that the scheduler made."""

    task = None
    task_id = "consumer"

    def __init__(self, earlier: Any = None, action: str = "check", component: str = "all") -> None:
        self.earlier = earlier
        self.params = {"action": action, "component": component}
        self.pulled: list[dict[str, Any]] = []

    def get_template_context(self) -> dict[str, Any]:
        return {"params": self.params}

    async def axcom_pull(self, **given: Any) -> Any:
        self.pulled.append(given)
        if isinstance(self.earlier, Exception):
            raise self.earlier
        return self.earlier


class Kept(History):
    """``unanswered``: so many questions find S3 away; ``is_full``: nothing can be recorded."""

    unanswered = 0
    is_full = False

    def restart_history(self, now: datetime, policy: Supervision) -> RestartHistory:
        if self.unanswered:
            self.unanswered -= 1
            raise Unreachable("S3 is away")
        return super().restart_history(now, policy)

    def record(self, kind: str, document: dict[str, Any], at: datetime) -> dict[str, Any]:
        if self.is_full:
            raise Unreachable("S3 is full")
        return super().record(kind, document, at)


class World:
    """A clock that moves by sleeping, reports in turn. ``assessed``: each time the moments of the
    samples."""

    def __init__(self, says: list[HealthReport]) -> None:
        self.now = NOW
        self.says = says
        self.assessed: list[list[float]] = []
        self.restarts: list[Any] = []
        self.kept = Kept(MemoryS3().as_client(), "s3://warehouse/ledger", SPEC.name)
        self.observing: Any = lambda now: sample(now)
        # Ages of the observer's samples; None: it does not answer.
        self.series: list[float] | None = None
        # Errors in its newest sample.
        self.errors: dict[str, str] = {}
        self.request_timeout_seconds = base.REQUEST_TIMEOUT_SECONDS
        self.fired = threading.Event()
        self.ended_task = False

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def assess(self, component: str, samples: Any, policy: Any, restarts: Any) -> HealthReport:
        assert component == "consumer"
        self.assessed.append([s.at for s in samples])
        self.restarts.append(restarts)
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]

    def observed(self, spec: Any, component: str) -> Any:
        assert (spec, component) == (SPEC, "consumer")
        if self.series is None:
            raise Unreachable("the observer does not answer")
        found = [sample(self.now + seconds) for seconds in self.series]
        return [*found[:-1], replace(found[-1], errors=self.errors)]

    def sampler(self, spec: Any, component: str) -> Any:
        assert (spec, component) == (SPEC, "consumer")
        return SimpleNamespace(observe=self.observing)

    def history(self, stream: str) -> Any:
        return self.kept

    def close(self) -> None: ...

    def fire(self, task: Any = None, timeout_after: float | None = None) -> dict[str, Any]:
        trigger = HealthTrigger(stream="nyc_taxi", component="consumer")
        connect(trigger, self)
        trigger.clock, trigger.sleep, trigger.assess = lambda: self.now, self.sleep, self.assess
        trigger.request_timeout_seconds = self.request_timeout_seconds
        trigger.task_instance = task
        if timeout_after is not None:
            trigger.timeout_after = datetime.fromtimestamp(timeout_after, UTC)

        async def first() -> dict[str, Any]:
            event = await anext(trigger.run())
            self.fired.set()
            self.ended_task = isinstance(event, TaskSuccessEvent)
            payload: Any = event.payload
            if isinstance(event, TaskSuccessEvent):
                payload = (event.xcoms or {})["return_value"]
            return dict(payload)

        return asyncio.run(first())


@pytest.mark.parametrize("health", Health)
def test_it_ends_the_task_if_there_is_nothing_to_do_and_no_request(health: Health) -> None:
    world = World([report(health, is_final=True)])
    if health is Health.SUSPENDED:
        world.fire(Task())
        assert not world.ended_task, "it runs though it is suspended"
        world.observing = lambda at: sample(at, ProcessStatus("p", ProcessState.STOPPED))
    world.fire(Task())
    assert world.ended_task is (health in no_action("consumer"))
    world.fire(Task(action="stop"))
    assert not world.ended_task
    world.fire(Task(action="stop", component="queries"))
    assert world.ended_task is (health in no_action("consumer")), "the request is for another component"


def test_what_the_runtime_restarted_is_recorded_once() -> None:
    world = World([WELL_NOW])
    now = time.time()
    process = replace(
        sample().process or ProcessStatus("p", ProcessState.RUNNING),
        restarts=(now - 40, now - 30, now - 20),
        refused=(now - 40,),
        last_exit=ProcessExit(now - 21, 1, 9.0),
    )
    world.observing = lambda at: sample(at, process)
    for _ in range(2):
        world.fire(Task())
    first, second = events(world.kept, "restart")
    assert (first["who"], first["requested"], first["reason"]) == ("runtime", False, "exit code 1 after 9 s")
    assert second["at"] == datetime.fromtimestamp(now - 20, UTC).isoformat()


@pytest.mark.parametrize(
    ("component", "tables"),
    [
        ("consumer", ["raw.wiki_changes", "raw.wiki_changes_quarantine"]),
        ("queries", ["queries.wiki_changes", "results.wiki_changes_editors"]),
        ("producer", []),
    ],
)
def test_the_ledger_is_told_of_a_components_tables_at_its_first_check(
    component: str, tables: list[str]
) -> None:
    """Not at the first maintenance, a day later: until then a lost one would count as new."""
    noted = list[str]()
    trigger = HealthTrigger(stream="wiki_changes", component=component)
    trigger.clock = lambda: NOW
    kept = Kept(MemoryS3().as_client(), "s3://warehouse/ledger", "wiki_changes")
    clients = StreamClients("wiki_changes", component)
    known = SimpleNamespace(note=lambda *names: noted.extend(names))
    clients.__dict__ |= {"history": kept, "tables": known, "platform_hook": SimpleNamespace()}
    trigger.requests.connect = lambda: clients
    observation = Observation.of(WELL_NOW, [sample()])
    asyncio.run(trigger._record(observation, RestartHistory()))
    assert noted == tables


def test_it_ends_with_the_first_sample_that_is_certain() -> None:
    world = World([CERTAIN])
    observation = Observation.from_json(world.fire(Task()))
    assert (observation.report, [s.at for s in observation.samples]) == (CERTAIN, [NOW])


def test_what_is_well_only_so_far_is_observed_until_that_is_certain() -> None:
    """Records wait and nothing moves, but for no longer than it may: a moment later it is stalled."""
    world = World([WELL_NOW, WELL_NOW, WELL_NOW, CERTAIN])
    assert Observation.from_json(world.fire(Task())).report == CERTAIN
    assert world.now == NOW + 15


def test_what_stays_unclear_is_observed_until_the_time_is_up() -> None:
    world = World([UNCLEAR])
    observation = Observation.from_json(world.fire(Task()))
    assert (world.now, observation.report.health) == (NOW + 75, Health.UNKNOWN)
    assert len(observation.samples) <= MAX_SAMPLES


def test_another_triggerer_takes_the_whole_time_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World([UNCLEAR])
    # Made 40 s ago, and given up in 200 s.
    world.fire(Task(), timeout_after=NOW + 200)
    assert world.now == NOW + 75


def test_it_ends_before_airflow_gives_it_up() -> None:
    world = World([UNCLEAR])
    world.fire(Task(), timeout_after=NOW + 120)
    assert world.now == NOW + 30


def test_after_the_time_two_samples_are_taken_all_the_same() -> None:
    world = World([UNCLEAR])
    world.fire(Task(), timeout_after=NOW + 60)
    assert world.assessed == [[NOW], [NOW, NOW + 5]]


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_an_order_does_not_wait(action: str) -> None:
    world = World([WELL_NOW])
    world.fire(Task(action=action))
    assert world.assessed == [[NOW]]


def test_the_observers_samples_are_assessed_and_no_system_is_asked() -> None:
    world = World([WELL_NOW, CERTAIN])
    world.series = [-300, -120, -3]
    world.observing = lambda now: pytest.fail("it observed by itself")
    observation = Observation.from_json(world.fire(Task()))
    assert world.assessed == [[NOW - 296, NOW - 116, NOW + 1], [NOW - 291, NOW - 111, NOW + 6]]
    assert [s.at for s in observation.samples] == [NOW + 6]


def test_an_observer_that_ends_meanwhile_leaves_the_check_to_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World([WELL_NOW, WELL_NOW, CERTAIN])
    world.series = [-10, 0]
    world.observing = lambda now: sample(now)

    async def end(seconds: float) -> None:
        world.now, world.series = world.now + seconds, None

    world.sleep = end  # type: ignore[method-assign]
    world.fire(Task())
    assert world.assessed == [[NOW - 10, NOW], [NOW + 5], [NOW + 5, NOW + 10]]
    assert capsys.readouterr().out.count("looks for itself") == 1


def test_memory_without_the_observer_reaches_as_far_as_the_observers() -> None:
    world = World([CERTAIN])
    for _ in range(20):
        world.fire(Task())
        world.now += SPEC.supervision.interval_seconds / 2
    kept = world.assessed[-1]
    assert kept[-1] - kept[0] >= 2 * SPEC.supervision.lag_window_seconds


def test_a_check_without_the_observer_has_what_earlier_ones_saw() -> None:
    """Else one sample would do, and what grows or stands for longer than a check would never be found."""
    world = World([CERTAIN])
    world.series = [-300, 0]
    world.fire(Task())
    world.now, world.series = world.now + 120, None
    world.fire(Task())
    assert world.assessed[-1] == [NOW - 300, NOW, NOW + 120]
    world.now += 120
    world.fire(Task())
    assert world.assessed[-1] == [NOW - 300, NOW, NOW + 120, NOW + 240]


def test_what_was_before_the_check_began_is_no_answer_to_it() -> None:
    """A person has just repaired something, or ended it."""
    world = World([CERTAIN])
    world.series = [-60, -50]
    world.fire(Task())
    assert world.assessed == [[world.now]]
    assert NOW + FRESH_SECONDS <= world.now < NOW + FRESH_SECONDS + 5


def test_what_a_system_did_not_tell_the_observer_is_asked() -> None:
    """A request of another stream hangs, so the observer asks that system for none."""
    world = World([CERTAIN])
    world.series, world.errors = [-20, 0], {"lake": "no answer to an earlier request"}
    world.fire(Task())
    assert world.assessed == [[NOW - 20, NOW, NOW]]


@pytest.mark.parametrize("action", ["stop", "start", "restart"])
def test_a_request_is_carried_out_on_what_is_so_now(action: str) -> None:
    world = World([WELL_NOW])
    world.series = [-30, -9]
    world.fire(Task(action=action))
    assert world.assessed == [[NOW]]


def test_what_a_task_returns_is_small() -> None:
    """A check of a topic with 100 partitions."""
    many = dict.fromkeys(range(100), 10**12)
    world = World([replace(WELL_NOW, is_final=True, details={"lag_by_partition": many})])
    world.observing = lambda at: replace(sample(at), ends=many, begins=many)
    returned = world.fire(Task())
    assert world.ended_task
    assert returned == {"health": "healthy", "message": "so it is"}


def test_the_history_tells_of_restarts_and_holds() -> None:
    world = World([CERTAIN])
    world.kept.record("suspend", {"who": "ada", "reason": "new schema"}, datetime(2026, 1, 1, tzinfo=UTC))
    world.fire(Task())
    assert world.restarts[0].suspended == "by ada since 2026-01-01T00:00:00+00:00: new schema"


def test_without_the_history_nothing_can_be_said() -> None:
    world = World([CERTAIN])
    world.kept.unanswered = 2
    assert Observation.from_json(world.fire(Task())).report == CERTAIN
    assert world.now == NOW + 10

    world.kept.unanswered = 1000
    seen = Observation.from_json(world.fire(Task())).report
    assert (seen.health, "S3 is away" in seen.message) == (Health.UNKNOWN, True)


def test_a_health_is_recorded_when_it_is_another() -> None:
    dead = report(Health.DOWN, is_final=True, details={"still_seconds": 3})
    world = World([CERTAIN])
    for says in (dead, dead, WELL_NOW):
        world.says = [says]
        world.fire(Task())
    first, second = events(world.kept, "health")
    assert (first["health"], first["before"], first["details"]) == ("down", None, {"still_seconds": 3})
    assert (second["health"], second["before"], second["message"]) == ("healthy", "down", "so it is")


def test_a_health_that_cannot_be_recorded_is_one_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    world = World([CERTAIN])
    world.kept.is_full = True
    assert Observation.from_json(world.fire(Task())).report == CERTAIN
    assert "S3 is full" in capsys.readouterr().out


def test_a_wrong_declaration_ends_it_and_says_so() -> None:
    world = World([CERTAIN])

    def invalid(now: float) -> Any:
        raise ConfigError("platform/airflow.toml: no [supervisor]")

    world.observing = invalid
    assert world.fire(Task()) == {"error": "SLU-101 platform/airflow.toml: no [supervisor]"}


def test_a_secret_that_is_missing_ends_the_check_and_says_so() -> None:
    world = World([CERTAIN])

    def missing(at: float) -> Any:
        raise SecretNotFound("airflow.toml s3 secret_key: file /s cannot be read")

    world.observing = missing
    found = world.fire(Task())
    assert found == {"error": "SLU-106 airflow.toml s3 secret_key: file /s cannot be read"}


def test_an_observation_that_hangs_is_one_that_saw_nothing() -> None:
    world = World([CERTAIN])
    world.request_timeout_seconds = 0.5
    world.observing = lambda now: world.fired.wait(20)
    (seen,) = Observation.from_json(world.fire(Task())).samples
    assert (seen.process, seen.errors) == (None, {"observer": "no answer within 0.5 s"})


def test_each_check_is_reported_whatever_it_found_and_a_request_is_not() -> None:
    world = World([WELL_NOW, UNCLEAR, CERTAIN])
    reported: list[Check] = []
    world.report_check = reported.append  # type: ignore[attr-defined]
    for _ in range(3):
        world.fire(Task())
    assert len(reported) == 3
    assert reported[-1] == Check("nyc_taxi", "consumer", world.now, 4.0 * SPEC.supervision.interval_seconds)
    world.fire(Task(action="stop"))
    assert len(reported) == 3

    def away(check: Check) -> None:
        raise Unreachable("no listener")

    world.report_check = away  # type: ignore[attr-defined]
    world.says = [WELL_NOW]
    world.fire(Task())
    assert world.ended_task, "the check itself counts"
