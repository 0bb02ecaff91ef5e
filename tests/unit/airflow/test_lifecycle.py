"""One restart for one end; every act in the history before it is done; holds that hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.clients.errors import Unreachable
from sluice.clients.keys import claim_key
from sluice.hooks.lifecycle import CLAIM_SECONDS, Lifecycle, Order, order_of
from sluice.model.health import Verdict
from sluice.model.process import ProcessState as S
from tests.support.supervision import SPEC, T0, FakeRuntime, context, diagnosis, events, history

KINDS = ("restart", "start", "stop", "hold", "release")
PLATFORM = Order(who="schedule", why="it is dead", run="r1", actor="a1", asked=False, at=T0)
PERSON = Order(who="ada", why="new schema", run="r2", actor="a2", asked=True, at=T0)


@pytest.fixture
def kept() -> Any:
    return history()


def lifecycle(kept: Any, state: S = S.EXITED) -> tuple[Lifecycle, FakeRuntime]:
    runtime = FakeRuntime(state)
    runtime.seen = lambda: [event["kind"] for event in events(kept, *KINDS)]
    return Lifecycle(SPEC, runtime, kept), runtime


def test_a_dead_process_is_started_and_that_is_recorded_first(kept: Any) -> None:
    made, runtime = lifecycle(kept)
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert act.done
    assert runtime.did == [("start", ["restart"])]
    (event,) = events(kept, *KINDS)
    expected = PLATFORM.document() | {
        "kind": "restart", "stream": "nyc_taxi", "at": event["at"],
        "verdict": "dead", "sentence": "so it is", "identity": "1000", "token": 3,
    }  # fmt: skip
    assert event == expected
    assert act.at == datetime.fromisoformat(event["at"]).timestamp()


@pytest.mark.parametrize(
    ("verdict", "grace"), [(Verdict.STALLED, 0), (Verdict.FLAPPING, 20), (Verdict.HEALTHY, 20)]
)
def test_what_hangs_is_killed_and_what_works_may_finish(kept: Any, verdict: Verdict, grace: float) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.restart(PLATFORM, diagnosis(verdict)).done
    assert runtime.did == [("stop", grace, ["restart"]), ("start", ["restart"])]


def test_another_process_than_the_judged_one_is_left_alone(kept: Any) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD, identity="999"))
    assert (act.done, runtime.did, events(kept, *KINDS)) == (False, [], [])
    assert act.sentence == (
        "stream-nyc_taxi is RUNNING: it was started anew after it was judged, so it is left alone"
    )


def test_of_two_supervisors_one_acts(kept: Any) -> None:
    one, runtime = lifecycle(kept)
    other = Lifecycle(SPEC, runtime, kept)
    rival: list[Any] = []
    # The other comes between the one's claim and its act.
    original = runtime.start

    def start(program: str) -> bool:
        if not rival:
            rival.append(None)
            rival[0] = other.restart(replace(PLATFORM, actor="a9"), diagnosis(Verdict.DEAD))
        return original(program)

    runtime.start = start  # type: ignore[method-assign]
    assert one.restart(PLATFORM, diagnosis(Verdict.DEAD)).done
    assert not rival[0].done
    assert "another run is restarting it" in rival[0].sentence
    assert [did[0] for did in runtime.did] == ["start"]
    assert len(events(kept, *KINDS)) == 1


def test_who_claims_after_the_other_has_acted_sees_it(kept: Any) -> None:
    made, runtime = lifecycle(kept)
    claims = made.history.ledger.put

    def put(key: str, document: Any) -> Any:
        # While this one asked for its claim, another started the process, and its claim ran out.
        runtime.now = replace(runtime.now, state=S.RUNNING, since=2000.0)
        return claims(key, document)

    made.history.ledger.put = put  # type: ignore[method-assign]
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert (act.done, runtime.did) == (False, [])


@pytest.mark.parametrize(("age", "done"), [(CLAIM_SECONDS - 5, False), (CLAIM_SECONDS + 5, True)])
def test_a_claim_that_came_to_nothing_runs_out(kept: Any, age: float, done: bool) -> None:
    made, _ = lifecycle(kept)
    at = datetime.now(UTC) - timedelta(seconds=age)
    kept.ledger.put(claim_key("1000", 1), {"actor": "gone", "at": at.isoformat()})
    assert made.restart(PLATFORM, diagnosis(Verdict.DEAD)).done is done
    assert (kept.ledger.get(claim_key("1000", 2)) is not None) is done


def test_a_hold_stops_the_platform_and_not_a_person(kept: Any) -> None:
    made, runtime = lifecycle(kept)
    assert not made.hold(PERSON).done
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert (act.done, runtime.did) == (False, [])
    assert "held by ada since 2" in act.sentence
    assert made.restart(replace(PERSON, run="r3"), diagnosis(Verdict.HELD)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["hold", "release", "restart"]
    assert kept.held() is None


def test_a_second_click_finds_what_the_first_asked_for(kept: Any) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    clicked = replace(PERSON, at=datetime.fromtimestamp(999, UTC))
    act = made.restart(clicked, diagnosis(Verdict.STARTING))
    assert (act.done, runtime.did) == (False, [])
    assert act.sentence == "stream-nyc_taxi is RUNNING: it was started after that was asked for"
    later = replace(PERSON, at=datetime.fromtimestamp(1001, UTC))
    assert made.restart(later, diagnosis(Verdict.STARTING)).done
    assert events(kept, "restart")[0]["asked"] is True


def test_a_dead_process_is_restarted_by_order_however_young(kept: Any) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    assert made.restart(replace(PERSON, at=datetime.fromtimestamp(1, UTC)), diagnosis(Verdict.DEAD)).done


def test_without_a_judged_process_the_present_one_is_meant(kept: Any) -> None:
    made, _ = lifecycle(kept)
    assert made.restart(PERSON, diagnosis(Verdict.UNOBSERVABLE, identity=None)).done


def test_start_leaves_a_running_process_alone_and_ends_its_hold(kept: Any) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.start(PERSON, diagnosis()).sentence == "stream-nyc_taxi is RUNNING"
    kept.record("hold", {"who": "ada"}, T0)
    act = made.start(PERSON, diagnosis())
    assert (act.done, runtime.did, kept.held()) == (False, [], None)
    assert act.sentence == "stream-nyc_taxi is RUNNING, and its hold is released"


def test_start_starts_what_is_down_and_is_no_restart(kept: Any) -> None:
    made, _ = lifecycle(kept, S.STOPPED)
    kept.record("hold", {"who": "ada"}, T0)
    assert made.start(PERSON, diagnosis(Verdict.HELD)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["hold", "release", "start"]
    assert kept.facts(datetime.now(UTC), SPEC.supervision).restarts == []


def test_a_hold_is_recorded_before_the_process_is_ended(kept: Any) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.hold(PERSON)
    assert (act.done, act.sentence) == (False, "stream-nyc_taxi is STOPPED, and held from now on")
    assert runtime.did == [("stop", 20, ["hold"])]
    hold, stop = events(kept, "hold", "stop")
    assert (hold["who"], hold["why"], hold["asked"]) == ("ada", "new schema", True)
    assert (stop["identity"], stop["exit_status"], stop["run"]) == ("1000", 0, "r2")
    assert kept.facts(datetime.now(UTC), SPEC.supervision).held.startswith("by ada since 2")


def test_holding_again_in_the_same_run_is_one_hold_and_in_another_two(kept: Any) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    made.hold(PERSON)
    made.hold(PERSON)
    assert len(events(kept, "hold")) == 1
    made.hold(replace(PERSON, run="r9", who="bob"))
    assert [event["who"] for event in events(kept, "hold")] == ["ada", "bob"]


def test_what_cannot_be_recorded_is_not_done(kept: Any) -> None:
    made, runtime = lifecycle(kept)

    def refuse(*_: Any) -> Any:
        raise Unreachable("ledger: away")

    made.history.record = refuse  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert runtime.did == []


def test_an_order_names_who_triggered_the_run() -> None:
    assert order_of(context(user="ada"), "why", True) == Order("ada", "why", "run-1", "ti-1", True, T0)
    assert order_of(context(), "why", False).who == "schedule"
