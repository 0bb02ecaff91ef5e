"""The observer of all streams: what it knows after a cycle, what it reads again, and one system's silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.errors import Unreachable
from sluice.core.processes.status import ProcessState
from sluice.core.tables.batches import Batch
from sluice.ledger.history import History
from sluice.ledger.keys import NOT_VERIFIED, PROOF, history_key, history_name, run_key
from sluice.supervision.observer import component as module
from sluice.supervision.observer import streams as streams_module
from sluice.supervision.observer.component import Clients, ObservedComponent
from sluice.supervision.observer.live import Counts, Live, LoadResult
from sluice.supervision.observer.streams import StreamObserver
from sluice.supervision.rules.status import Health
from tests.support.memory_s3 import MemoryS3
from tests.support.observed import batch, process
from tests.support.steps import new_tables
from tests.unit.supervision.observer.test_sampler import NOW, POSITION, SPEC, Systems

OTHER = replace(SPEC, name="y")


def live_of(observer: StreamObserver, stream: str) -> Live:
    """Return the state of its consumer; an empty one if it is not known."""
    return observer.lives(stream).get("consumer", Live())


class World(Systems):
    """All systems of one platform, and a clock that moves on by each cycle."""

    def __init__(self) -> None:
        super().__init__({0: [1.0] * 100, 1: [1.0] * 10})
        self.now = NOW
        self.specs: Sequence[StreamSpec] = [SPEC]
        self.s3 = MemoryS3()
        self.reads = 0
        self.process = process(SPEC.program, at=NOW)
        self.opened = 0
        self.open_error: Exception | None = None
        self.observer = StreamObserver(lambda: self.specs, self.open, clock=lambda: self.now)

    def status(self, program: str) -> Any:
        return self._ask("status", self.process)

    def position(self, table: str, quarantine: str) -> Any:
        return self._ask("position", self.position_)

    def open(self) -> Clients:
        self.opened += 1
        if self.open_error:
            raise self.open_error
        return Clients(
            cast("Any", self), lambda spec: new_tables(self), cast("Any", self), self.history, self.batches
        )

    def history(self, spec: StreamSpec, component: str) -> History:
        name = history_name(spec.name, component)
        return History(self.s3.as_client(), "s3://warehouse/ledger", name)

    def batches(self, spec: StreamSpec, limit: int) -> list[Batch]:
        self.reads += 1
        return [batch(1, self.now)]

    def sampled(self) -> list[float]:
        found = self.observer.samples("x", "consumer")
        assert found is not None
        return [sample.at for sample in found[1]]

    def live(self, stream: str) -> Live:
        return live_of(self.observer, stream)

    def cycle(self, seconds: float = 10.0) -> None:
        self.observer.cycle()
        self.now += seconds

    def record(self, kind: str, at: float, **document: Any) -> None:
        self.history(SPEC, "consumer").record(kind, document, datetime.fromtimestamp(at, UTC))


@pytest.fixture
def world() -> World:
    return World()


def test_clients_of_an_earlier_platform_file_are_not_used_again(world: World) -> None:
    stamps = iter([1, 1, 2, 2])
    world.observer = StreamObserver(
        lambda: world.specs, world.open, clock=lambda: world.now, stamp=lambda: next(stamps)
    )
    opened = []
    for _ in range(4):
        world.cycle()
        opened.append(world.opened)
    assert opened == [1, 1, 2, 2]


def test_before_the_first_cycle_nothing_is_known(world: World) -> None:
    assert world.live("x").at is None


def test_what_a_cycle_observes(world: World) -> None:
    world.record("health", NOW - 500, health="catching up", message="it was so")
    world.record("restart", NOW - 3600, who="schedule", requested=False, identity="1")
    world.record("restart", NOW - 90_000, who="schedule", requested=False, identity="0")
    ledger = world.history(SPEC, "consumer")
    proof = history_key(PROOF, datetime.fromtimestamp(NOW - 60, UTC), "load")
    ledger.put(proof, {"run_id": "run 1", "seconds": 4.2, "records": 9, "published": 8, "quarantined": 1})
    ledger.put(run_key("run 1", "audit"), {"objects": 3})
    failed = history_key(NOT_VERIFIED, datetime.fromtimestamp(NOW - 90, UTC), "load")
    ledger.put(failed, {"run_id": "run 0", "seconds": 3.1, "problems": ["1 gap"]})
    world.cycle()
    live = world.live("x")
    assert (live.at, live.lag, live.errors) == (NOW, 40, {})
    assert live.report is not None
    assert live.sample is not None
    assert live.recorded is not None
    assert live.recorded["health"] == "catching up"
    assert live.restarts == [NOW - 3600]
    assert live.loads == [
        LoadResult(NOW - 60, "run 1", True, 4.2, 9, 8, 1, audit={"objects": 3}),
        LoadResult(NOW - 90, "run 0", False, 3.1, problems=["1 gap"]),
    ]
    assert [one.batch_id for one in live.batches] == [1]


def test_a_process_that_ended_shows_within_two_cycles(world: World) -> None:
    world.cycle()
    world.process = replace(world.process, state=ProcessState.EXITED, exit_status=137)
    world.cycle()
    world.cycle()
    report = world.live("x").report
    assert report is not None
    assert (report.health, report.is_final) == (Health.DOWN, True)


def test_a_hang_shows_after_the_stall_timeout_and_a_cycle(world: World) -> None:
    world.process = process(SPEC.program, at=NOW - 3600)
    world.position_ = replace(POSITION, acquired_at=NOW - 3000, at=NOW - 5, batch_at=NOW - 5)
    seconds = 0.0
    while True:
        world.cycle()
        report = world.live("x").report
        assert report is not None
        if report.health is Health.STALLED:
            break
        seconds += 10
        assert seconds <= SPEC.supervision.stall_timeout_seconds + 30
    assert seconds >= SPEC.supervision.stall_timeout_seconds


def test_since_when_is_the_historys_if_it_says_the_same(world: World) -> None:
    world.cycle()
    report = world.live("x").report
    assert report is not None
    assert world.live("x").since == NOW
    world.record("health", NOW - 500, health=report.health.value, message="m")
    world.now += module.HISTORY_SECONDS
    world.cycle()
    assert world.live("x").since == NOW - 500


def test_the_history_is_read_once_a_minute_or_when_the_process_changed(world: World) -> None:
    world.cycle()
    requests = world.s3.requests.total()
    world.cycle()
    world.cycle()
    assert world.s3.requests.total() == requests
    world.record("suspend", world.now, who="ada", reason="a reason", run="r")
    requests = world.s3.requests.total()
    world.cycle()
    assert world.live("x").suspended is None
    assert world.s3.requests.total() == requests
    world.process = replace(world.process, state=ProcessState.STOPPED)
    world.cycle()
    live = world.live("x")
    assert live.suspended is not None
    assert live.suspended.startswith("by ada since ")
    assert live.report is not None
    assert live.report.health is Health.SUSPENDED


def test_loads_are_counted_from_the_first_cycle_on_and_read_once(world: World) -> None:
    ledger = world.history(SPEC, "consumer")

    def verified(at: float, run: str) -> None:
        ledger.put(history_key(PROOF, datetime.fromtimestamp(at, UTC), "load"), {"run_id": run})

    verified(NOW - 60, "before")
    world.cycle()
    assert world.live("x").counts == Counts()
    verified(world.now, "after")
    key = history_key(NOT_VERIFIED, datetime.fromtimestamp(world.now + 1, UTC), "load")
    ledger.put(key, {"run_id": "bad", "problems": ["1 gap"]})
    world.now += module.HISTORY_SECONDS
    world.cycle()
    assert world.live("x").counts == Counts(verified=1, not_verified=1)
    gets = world.s3.requests["GET"]
    world.now += module.HISTORY_SECONDS
    world.cycle()
    assert world.live("x").counts == Counts(verified=1, not_verified=1)
    # The audit of the newest, which is not there yet.
    assert world.s3.requests["GET"] - gets == 1
    # All loads count, also those that a page does not show.
    for number in range(12):
        verified(world.now + number / 100, f"run {number}")
    world.now += module.HISTORY_SECONDS
    world.cycle()
    assert world.live("x").counts == Counts(verified=13, not_verified=1)


def test_batches_are_read_when_the_table_changed(world: World) -> None:
    world.cycle()
    world.cycle()
    assert world.reads == 1
    world.position_ = replace(POSITION, at=NOW + 1)
    world.cycle()
    assert world.reads == 2


def test_a_system_that_takes_long_and_does_not_answer_is_asked_once_a_cycle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.specs = [SPEC, OTHER]
    monkeypatch.setattr(module, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(streams_module, "THREADS", 1)
    world.errors["describe"] = Unreachable("topic 'secret-of-x' does not answer")
    world.cycle()
    assert world.asked.count("describe") == 1
    live = world.live("y")
    assert live.sample is not None
    # Without the other stream's names, which who sees this one may not see.
    assert live.sample.errors["kafka"] == "kafka did not answer within 0 s"
    assert live.report is not None
    assert live.report.health is Health.UNKNOWN
    del world.errors["describe"]
    world.cycle()
    assert world.asked.count("describe") == 3


def test_an_error_about_one_stream_is_not_the_others(world: World) -> None:
    world.specs = [SPEC, OTHER]
    world.errors["describe"] = Unreachable("topic 'x': leader not available")
    world.cycle()
    assert world.asked.count("describe") == 2, "it came at once, so the other is asked"


def test_a_hang_is_said_of_its_component_and_the_others_go_on(world: World) -> None:
    world.specs = [SPEC, OTHER]
    observer = StreamObserver(lambda: world.specs, world.open, late_seconds=0.3, clock=lambda: world.now)
    hang = threading.Event()
    hung: list[str] = []

    def position(table: str, quarantine: str) -> Any:
        if not hung:
            hung.append(table)
            hang.wait(30)
        return POSITION

    world.position = position  # type: ignore[method-assign]
    try:
        observer.cycle()
        lives = [live_of(observer, stream) for stream in ("x", "y")]
        (late,) = [live for live in lives if "observation" in live.errors]
        assert late.errors["observation"] == "lake has not answered for 0.3 s"
        world.now += 10
        observer.cycle()
        # Everything but that system is observed, also of the component that waits for it.
        for stream in ("x", "y"):
            live = live_of(observer, stream)
            assert live.at == world.now
            assert live.sample is not None
            assert live.sample.process is not None
            assert live.sample.errors == {"lake": "no answer to an earlier request"}
    finally:
        hang.set()
    deadline = time.monotonic() + 10
    while any(not run.done.is_set() for run in observer._abandoned):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    world.now += 10
    observer.cycle()
    for stream in ("x", "y"):
        live = live_of(observer, stream)
        assert (live.at, live.errors) == (world.now, {})
        assert live.sample is not None
        assert live.sample.errors == {}


def test_hundreds_of_components_are_observed_in_one_round_though_some_hang(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 of 600 hang, and all others answer in 50 ms."""
    monkeypatch.setattr(streams_module, "PLACE_SECONDS", 0.5)
    world.specs = [replace(SPEC, name=f"s{number:03}") for number in range(600)]
    hang, threads = threading.Event(), list[int]()

    def observe(self: ObservedComponent, number: int, clients: Any, now: float, *rest: Any) -> None:
        threads.append(threading.active_count())
        if int(self.spec.name[1:]) < 10:
            hang.wait(60)
        time.sleep(0.05)
        self._publish(replace(self.live, at=now, errors={}), number)

    monkeypatch.setattr(ObservedComponent, "observe", observe)
    began, before = time.monotonic(), threading.active_count()
    try:
        world.observer.cycle()
        assert time.monotonic() - began < 15
        unseen = [name for name, lives in world.observer.all_lives().items() if lives["consumer"].at is None]
        assert unseen == [f"s{number:03}" for number in range(10)]
        world.now += 10
        world.observer.cycle()
        ages = {lives["consumer"].at for lives in world.observer.all_lives().values()}
        assert ages == {None, world.now}, "those that hang hold up none in the next round either"
        most = before + streams_module.THREADS + streams_module.MAX_ABANDONED
        assert max(threads) <= most
        assert world.opened <= streams_module.THREADS + streams_module.MAX_ABANDONED
    finally:
        hang.set()


def test_who_was_not_reached_comes_first_in_the_next_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "THREADS", 1)
    world.specs = [replace(SPEC, name=f"s{number}") for number in range(9)]
    observer = StreamObserver(lambda: world.specs, world.open, late_seconds=0.4, clock=lambda: world.now)
    seen: list[str] = []

    def observe(self: ObservedComponent, number: int, *rest: Any) -> None:
        time.sleep(0.12)
        seen.append(self.spec.name)

    monkeypatch.setattr(ObservedComponent, "observe", observe)
    while len(set(seen)) < 9:
        observer.cycle()
        assert len(seen) <= 14, seen
    assert seen[:9] == sorted(seen[:9]), "each once, before any was twice"


def test_what_was_observed_is_there_before_the_ledger_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "THREADS", 1)
    world.specs = [SPEC, OTHER]
    world.cycle()
    world.process = replace(world.process, state=ProcessState.EXITED)
    states: list[Any] = []

    def away(*_: object) -> None:
        sample = world.live("x").sample
        states.append(sample and sample.process and sample.process.state)
        raise Unreachable("S3 is away")

    monkeypatch.setattr(History, "restart_history", away)
    world.cycle()
    assert states[0] is ProcessState.EXITED
    # S3 is not asked about the others in this cycle.
    assert len(states) == 1


def test_declarations_that_cannot_be_read_end_nothing(world: World) -> None:
    calls: list[int] = []

    def declared() -> Sequence[StreamSpec]:
        calls.append(1)
        if len(calls) == 1:
            raise Unreachable("an earlier request has no answer")
        return world.specs

    observer = StreamObserver(declared, world.open, cycle_seconds=0.01)
    thread = threading.Thread(target=observer.run)
    thread.start()
    deadline = time.monotonic() + 10
    while live_of(observer, "x").at is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    observer.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_ledger_that_does_not_answer_hides_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cycle()

    def away(*_: object) -> None:
        raise Unreachable("S3 is away")

    monkeypatch.setattr(History, "restart_history", away)
    world.now += module.HISTORY_SECONDS
    world.cycle()
    live = world.live("x")
    assert live.errors == {"ledger": "S3 is away"}
    assert live.at == world.now - 10


@pytest.mark.parametrize("error", [ConfigError("no [supervisor]"), Unreachable("the catalog is away")])
def test_clients_that_cannot_be_opened_are_opened_again(world: World, error: Exception) -> None:
    world.cycle()
    world.open_error = error
    world.observer._idle.clear()
    world.cycle()
    live = world.live("x")
    assert live.errors == {"observation": str(error)}
    assert live.at == NOW, "the last observation keeps its age"
    world.open_error = None
    world.cycle()
    assert world.live("x").errors == {}


def test_an_unexpected_error_ends_no_cycle(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.specs = [SPEC, OTHER]
    world.errors["describe"] = ZeroDivisionError("a secret")
    world.cycle()
    assert world.live("x").errors == {"observation": "ZeroDivisionError, see the observer's log"}
    assert "a secret" in caplog.text
    del world.errors["describe"]
    world.cycle()
    assert world.live("y").errors == {}


def test_supervision_gets_the_samples_of_a_component(world: World) -> None:
    assert world.observer.samples("x", "consumer") is None
    for _ in range(3):
        world.cycle()
    assert world.sampled() == [NOW, NOW + 10, NOW + 20]
    assert world.observer.samples("x", "queries") is None


def test_samples_of_another_table_are_none_of_the_stream_s(world: World) -> None:
    world.cycle()
    world.specs = [replace(SPEC, supervision=replace(SPEC.supervision, max_restarts=9))]
    world.cycle()
    assert world.sampled() == [NOW, NOW + 10]
    world.specs = [replace(SPEC, table="raw.other")]
    world.cycle()
    assert world.sampled() == [NOW + 20]


def test_samples_reach_as_far_back_as_the_rules_look(world: World) -> None:
    """Slow batches and restarts make the stall timeout longer than the policy's."""
    world.position_ = replace(POSITION, longest_batch=600.0)
    for _ in range(200):
        world.cycle(60.0)
    assert world.sampled()[-1] - world.sampled()[0] > 2 * 1800


def test_a_process_whose_every_observation_hangs_is_not_working(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cycle()
    assert world.observer.is_working()
    now = time.monotonic()
    monkeypatch.setattr(streams_module.time, "monotonic", lambda: now + streams_module.STUCK_SECONDS + 5)
    assert not world.observer.is_working()


def test_a_stream_that_is_not_declared_any_more_is_forgotten(world: World) -> None:
    world.cycle()
    world.specs = [OTHER]
    world.cycle()
    assert world.live("x").at is None
    assert world.live("y").at is not None
