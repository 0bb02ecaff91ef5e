"""One restart for one end; every act in the history before it is done; holds that hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sluice.airflow import hook as platform_hook
from sluice.core.errors import Refused, Unreachable
from sluice.core.processes.status import ProcessState as S
from sluice.core.processes.status import ProcessStatus
from sluice.ledger.history import History
from sluice.ledger.marks import LedgerMarks
from sluice.supervision.lifecycle import ActionResult, Lifecycle, Request
from sluice.supervision.rules.status import Health
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.supervision import SPEC, T0, FakeRuntime, events, report

KINDS = ("restart", "start", "stop", "suspend", "resume")
PLATFORM = Request(who="schedule", reason="it is dead", run="r1", requested=False, at=T0)
PERSON = Request(who="ada", reason="new schema", run="r2", requested=True, at=T0)


class Kept(History):
    """``is_away``: nothing can be recorded."""

    is_away = False

    def record(self, kind: str, document: dict[str, Any], at: datetime) -> dict[str, Any]:
        if self.is_away:
            raise Unreachable("ledger: away")
        return super().record(kind, document, at)


class Rival(FakeRuntime):
    """``meanwhile`` comes between a request's observation and its next act, once."""

    meanwhile: Callable[[], object] | None = None

    def start(self, program: str) -> bool:
        self._let_come()
        return super().start(program)

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        self._let_come()
        return super().stop(program, grace, instance)

    def _let_come(self) -> None:
        came, self.meanwhile = self.meanwhile, None
        if came:
            came()


@pytest.fixture
def kept() -> Kept:
    return Kept(MemoryS3().as_client(), "s3://warehouse/ledger", SPEC.name)


def marks_of(kept: Kept) -> LedgerMarks:
    return LedgerMarks(kept, platform_hook.Variable)


def lifecycle(kept: Kept, state: S = S.EXITED) -> tuple[Lifecycle, FakeRuntime]:
    runtime = FakeRuntime(state)
    runtime.seen = lambda: [event["kind"] for event in events(kept, *KINDS)]
    return Lifecycle(SPEC, runtime, kept, marks_of(kept)), runtime


def test_a_dead_process_is_started_and_that_is_recorded_first(kept: Kept) -> None:
    made, runtime = lifecycle(kept)
    act = made.restart(PLATFORM, report(Health.DOWN))
    assert act.done
    assert runtime.did == [("start", ["restart"])]
    (event,) = events(kept, *KINDS)
    expected = PLATFORM.document() | {
        "kind": "restart", "stream": "nyc_taxi", "at": event["at"],
        "health": "down", "message": "so it is", "identity": "1000", "epoch": 3,
    }  # fmt: skip
    assert event == expected
    assert act.at == datetime.fromisoformat(event["at"]).timestamp()


@pytest.mark.parametrize(
    ("health", "grace"),
    [(Health.STALLED, 0), (Health.NODE_LOST, 0), (Health.FLAPPING, 20), (Health.HEALTHY, 20)],
)
def test_what_hangs_is_killed_and_what_works_may_finish(kept: Kept, health: Health, grace: float) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.restart(PLATFORM, report(health)).done
    assert runtime.did == [("stop", grace, ["restart"]), ("start", ["restart"])]


def test_a_replaced_instance_is_not_restarted(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.restart(PLATFORM, report(Health.DOWN, identity="999"))
    assert (act.done, runtime.did, events(kept, *KINDS)) == (False, [], [])
    assert act.message == ("stream-nyc_taxi is RUNNING: replaced since the check; not restarted")


@pytest.mark.parametrize(("state", "health"), [(S.EXITED, Health.DOWN), (S.RUNNING, Health.STALLED)])
def test_two_runs_restart_an_instance_once(kept: Kept, state: S, health: Health) -> None:
    """Both found the judged instance; the slower one then finds another one, and leaves it alone."""
    runtime = Rival(state)
    one, other = (Lifecycle(SPEC, runtime, kept, marks_of(kept)) for _ in range(2))
    others: list[ActionResult] = []
    runtime.meanwhile = lambda: others.append(other.restart(PLATFORM, report(health)))
    one.restart(PLATFORM, report(health))
    assert [act.done for act in others] == [True]
    assert runtime.now.since == 1001, "one instance after the judged one"
    assert [did[0] for did in runtime.did].count("stop") == (1 if state is S.RUNNING else 0)
    recorded = kept.restart_history(datetime.now(UTC), SPEC.supervision)
    assert len(recorded.restarts) == 1, "both recorded it; it counts once"


def test_a_hold_stops_the_platform_and_not_a_person(kept: Kept) -> None:
    made, runtime = lifecycle(kept)
    assert not made.suspend(PERSON).done
    act = made.restart(PLATFORM, report(Health.DOWN))
    assert (act.done, runtime.did) == (False, [])
    assert "suspended by ada since 2" in act.message
    assert made.restart(replace(PERSON, run="r3"), report(Health.SUSPENDED)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["suspend", "resume", "restart"]
    assert kept.suspended() is None


def test_a_hold_that_comes_while_the_process_is_stopped_stands(kept: Kept) -> None:
    runtime = Rival(S.RUNNING)
    runtime.meanwhile = lambda: kept.record("suspend", PERSON.document(), datetime.now(UTC))
    act = Lifecycle(SPEC, runtime, kept, marks_of(kept)).restart(PLATFORM, report(Health.STALLED))
    assert (act.done, [did[0] for did in runtime.did]) == (False, ["stop"])
    assert "suspended by ada" in act.message


def test_a_restart_by_the_runtime_is_not_what_a_person_asked_for(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    runtime.now = replace(runtime.now, restarts=(1000.0,))
    clicked = replace(PERSON, at=datetime.fromtimestamp(999, UTC))
    assert made.restart(clicked, report(Health.FLAPPING)).done
    assert events(kept, "restart")[0]["requested"] is True


def test_a_second_click_finds_what_the_first_asked_for(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    clicked = replace(PERSON, at=datetime.fromtimestamp(999, UTC))
    act = made.restart(clicked, report(Health.STARTING))
    assert (act.done, runtime.did) == (False, [])
    assert act.message == "stream-nyc_taxi is RUNNING: started since the request"
    later = replace(PERSON, at=datetime.fromtimestamp(1001, UTC))
    assert made.restart(later, report(Health.STARTING)).done
    assert events(kept, "restart")[0]["requested"] is True


def test_a_dead_process_is_restarted_by_order_however_young(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    assert made.restart(replace(PERSON, at=datetime.fromtimestamp(1, UTC)), report(Health.DOWN)).done


def test_without_a_judged_process_the_present_one_is_meant(kept: Kept) -> None:
    made, _ = lifecycle(kept)
    assert made.restart(PERSON, report(Health.UNKNOWN, identity=None)).done


def test_start_leaves_a_running_process_alone_and_ends_its_hold(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.start(PERSON, report()).message == "stream-nyc_taxi is RUNNING"
    kept.record("suspend", {"who": "ada"}, datetime.now(UTC))
    act = made.start(PERSON, report())
    assert (act.done, runtime.did, kept.suspended()) == (False, [], None)
    assert act.message == "stream-nyc_taxi is RUNNING, resumed"
    *_, resumed = events(kept, "resume")
    assert kept.restart_history(datetime.now(UTC), SPEC.supervision).requested_at == (
        datetime.fromisoformat(resumed["at"]).timestamp()
    )
    assert len(events(kept, "resume")) == 2, "also of what was not suspended: what it rejected is dealt with"


def test_start_starts_what_is_down_and_is_no_restart(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.STOPPED)
    kept.record("suspend", {"who": "ada"}, T0)
    assert made.start(PERSON, report(Health.SUSPENDED)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["suspend", "resume", "start"]
    assert kept.restart_history(datetime.now(UTC), SPEC.supervision).restarts == []


def test_a_hold_is_recorded_before_the_process_is_ended(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.suspend(PERSON)
    assert (act.done, act.message) == (False, "stream-nyc_taxi is STOPPED, suspended")
    assert runtime.did == [("stop", 20, ["suspend"])]
    suspend, stop = events(kept, "suspend", "stop")
    assert (suspend["who"], suspend["reason"], suspend["requested"]) == ("ada", "new schema", True)
    assert (stop["identity"], stop["exit_status"], stop["run"]) == ("1000", 0, "r2")
    suspended = kept.restart_history(datetime.now(UTC), SPEC.supervision).suspended
    assert suspended is not None
    assert suspended.startswith("by ada since 2")


@pytest.mark.parametrize("state", [S.EXITED, S.BACKOFF])
def test_a_hold_reaches_the_runtime_also_of_a_process_that_it_would_restart(kept: Kept, state: S) -> None:
    """Kubernetes makes another pod minutes later, unless its Job is suspended."""
    made, runtime = lifecycle(kept, state)
    made.suspend(PERSON)
    assert runtime.kept_stopped or [did[0] for did in runtime.did] == ["stop"]
    assert len(events(kept, "stop")) == (state is S.BACKOFF)


def test_holding_again_in_the_same_run_is_one_hold_and_in_another_two(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    made.suspend(PERSON)
    made.suspend(PERSON)
    assert len(events(kept, "suspend")) == 1
    made.suspend(replace(PERSON, run="r9", who="bob"))
    assert [event["who"] for event in events(kept, "suspend")] == ["ada", "bob"]


def test_what_cannot_be_recorded_is_not_done(kept: Kept) -> None:
    made, runtime = lifecycle(kept)

    kept.is_away = True
    with pytest.raises(Unreachable):
        made.restart(PLATFORM, report(Health.DOWN))
    assert runtime.did == []


def test_no_load_starts_what_a_restored_ledger_may_have_suspended(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    made.suspend(PERSON)
    runtime.did.clear()
    kept.client.objects.clear()  # type: ignore[attr-defined]
    with raising(Refused, "does not have", "suspend", "Nothing was started or stopped", "Fix: trigger"):
        made.ensure("r", ProcessStatus("p", S.STOPPED))
    assert runtime.did == []
