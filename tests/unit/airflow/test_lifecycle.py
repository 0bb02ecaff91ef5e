"""One restart for one end; every act in the history before it is done; holds that hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.clients.errors import Unreachable
from sluice.clients.history import History
from sluice.clients.keys import claim_key
from sluice.clients.ledger import Ledger
from sluice.hooks.lifecycle import CLAIM_SECONDS, Act, Lifecycle, Order, order_of
from sluice.model.health import Verdict
from sluice.model.process import ProcessState as S
from tests.support.memory_s3 import MemoryS3
from tests.support.supervision import SPEC, T0, FakeRuntime, context, diagnosis, events

KINDS = ("restart", "start", "stop", "hold", "release")
PLATFORM = Order(who="schedule", why="it is dead", run="r1", actor="a1", asked=False, at=T0)
PERSON = Order(who="ada", why="new schema", run="r2", actor="a2", asked=True, at=T0)


class Kept(History):
    """``is_away``: nothing can be recorded."""

    is_away = False

    def record(self, kind: str, document: dict[str, Any], at: datetime) -> dict[str, Any]:
        if self.is_away:
            raise Unreachable("ledger: away")
        return super().record(kind, document, at)


class Rival(FakeRuntime):
    """``meanwhile`` comes between an order's claim and its start, once."""

    meanwhile: Callable[[], object] | None = None

    def start(self, program: str) -> bool:
        came, self.meanwhile = self.meanwhile, None
        if came:
            came()
        return super().start(program)


class Claims(Ledger):
    """``meanwhile`` comes before a document is put."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def put(self, key: str, document: dict[str, Any]) -> dict[str, Any]:
        self.meanwhile()
        return super().put(key, document)


@pytest.fixture
def kept() -> Kept:
    return Kept(MemoryS3().as_client(), "s3://warehouse/ledger", SPEC.name)


def lifecycle(kept: Kept, state: S = S.EXITED) -> tuple[Lifecycle, FakeRuntime]:
    runtime = FakeRuntime(state)
    runtime.seen = lambda: [event["kind"] for event in events(kept, *KINDS)]
    return Lifecycle(SPEC, runtime, kept), runtime


def test_a_dead_process_is_started_and_that_is_recorded_first(kept: Kept) -> None:
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
def test_what_hangs_is_killed_and_what_works_may_finish(kept: Kept, verdict: Verdict, grace: float) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.restart(PLATFORM, diagnosis(verdict)).done
    assert runtime.did == [("stop", grace, ["restart"]), ("start", ["restart"])]


def test_another_process_than_the_judged_one_is_left_alone(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD, identity="999"))
    assert (act.done, runtime.did, events(kept, *KINDS)) == (False, [], [])
    assert act.sentence == (
        "stream-nyc_taxi is RUNNING: it was started anew after it was judged, so it is left alone"
    )


def test_of_two_supervisors_one_acts(kept: Kept) -> None:
    runtime = Rival(S.EXITED)
    one, other = Lifecycle(SPEC, runtime, kept), Lifecycle(SPEC, runtime, kept)
    others: list[Act] = []
    runtime.meanwhile = lambda: others.append(
        other.restart(replace(PLATFORM, actor="a9"), diagnosis(Verdict.DEAD))
    )
    assert one.restart(PLATFORM, diagnosis(Verdict.DEAD)).done
    assert [act.done for act in others] == [False]
    assert [did[0] for did in runtime.did] == ["start"]
    assert len(events(kept, *KINDS)) == 1


def test_who_claims_after_the_other_has_acted_sees_it(kept: Kept) -> None:
    made, runtime = lifecycle(kept)
    claims = Claims(MemoryS3().as_client(), "s3://warehouse/ledger", SPEC.name)

    def another_acts() -> None:
        # While this one asked for its claim, another started the process, and its claim ran out.
        runtime.now = replace(runtime.now, state=S.RUNNING, since=2000.0)

    claims.meanwhile = another_acts
    kept.ledger = claims
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert (act.done, runtime.did) == (False, [])


@pytest.mark.parametrize(("age", "done"), [(CLAIM_SECONDS - 5, False), (CLAIM_SECONDS + 5, True)])
def test_a_claim_that_came_to_nothing_runs_out(kept: Kept, age: float, done: bool) -> None:
    made, _ = lifecycle(kept)
    at = datetime.now(UTC) - timedelta(seconds=age)
    kept.ledger.put(claim_key("1000", 1), {"actor": "gone", "at": at.isoformat()})
    assert made.restart(PLATFORM, diagnosis(Verdict.DEAD)).done is done
    assert (kept.ledger.get(claim_key("1000", 2)) is not None) is done


def test_a_hold_stops_the_platform_and_not_a_person(kept: Kept) -> None:
    made, runtime = lifecycle(kept)
    assert not made.hold(PERSON).done
    act = made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert (act.done, runtime.did) == (False, [])
    assert "held by ada since 2" in act.sentence
    assert made.restart(replace(PERSON, run="r3"), diagnosis(Verdict.HELD)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["hold", "release", "restart"]
    assert kept.held() is None


def test_a_second_click_finds_what_the_first_asked_for(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    clicked = replace(PERSON, at=datetime.fromtimestamp(999, UTC))
    act = made.restart(clicked, diagnosis(Verdict.STARTING))
    assert (act.done, runtime.did) == (False, [])
    assert act.sentence == "stream-nyc_taxi is RUNNING: it was started after that was asked for"
    later = replace(PERSON, at=datetime.fromtimestamp(1001, UTC))
    assert made.restart(later, diagnosis(Verdict.STARTING)).done
    assert events(kept, "restart")[0]["asked"] is True


def test_a_dead_process_is_restarted_by_order_however_young(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    assert made.restart(replace(PERSON, at=datetime.fromtimestamp(1, UTC)), diagnosis(Verdict.DEAD)).done


def test_without_a_judged_process_the_present_one_is_meant(kept: Kept) -> None:
    made, _ = lifecycle(kept)
    assert made.restart(PERSON, diagnosis(Verdict.UNOBSERVABLE, identity=None)).done


def test_start_leaves_a_running_process_alone_and_ends_its_hold(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    assert made.start(PERSON, diagnosis()).sentence == "stream-nyc_taxi is RUNNING"
    kept.record("hold", {"who": "ada"}, T0)
    act = made.start(PERSON, diagnosis())
    assert (act.done, runtime.did, kept.held()) == (False, [], None)
    assert act.sentence == "stream-nyc_taxi is RUNNING, and its hold is released"


def test_start_starts_what_is_down_and_is_no_restart(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.STOPPED)
    kept.record("hold", {"who": "ada"}, T0)
    assert made.start(PERSON, diagnosis(Verdict.HELD)).done
    assert [event["kind"] for event in events(kept, *KINDS)] == ["hold", "release", "start"]
    assert kept.facts(datetime.now(UTC), SPEC.supervision).restarts == []


def test_a_hold_is_recorded_before_the_process_is_ended(kept: Kept) -> None:
    made, runtime = lifecycle(kept, S.RUNNING)
    act = made.hold(PERSON)
    assert (act.done, act.sentence) == (False, "stream-nyc_taxi is STOPPED, and held from now on")
    assert runtime.did == [("stop", 20, ["hold"])]
    hold, stop = events(kept, "hold", "stop")
    assert (hold["who"], hold["why"], hold["asked"]) == ("ada", "new schema", True)
    assert (stop["identity"], stop["exit_status"], stop["run"]) == ("1000", 0, "r2")
    held = kept.facts(datetime.now(UTC), SPEC.supervision).held
    assert held is not None
    assert held.startswith("by ada since 2")


def test_holding_again_in_the_same_run_is_one_hold_and_in_another_two(kept: Kept) -> None:
    made, _ = lifecycle(kept, S.EXITED)
    made.hold(PERSON)
    made.hold(PERSON)
    assert len(events(kept, "hold")) == 1
    made.hold(replace(PERSON, run="r9", who="bob"))
    assert [event["who"] for event in events(kept, "hold")] == ["ada", "bob"]


def test_what_cannot_be_recorded_is_not_done(kept: Kept) -> None:
    made, runtime = lifecycle(kept)

    kept.is_away = True
    with pytest.raises(Unreachable):
        made.restart(PLATFORM, diagnosis(Verdict.DEAD))
    assert runtime.did == []


def test_an_order_names_who_triggered_the_run() -> None:
    assert order_of(context(user="ada"), "why", True) == Order("ada", "why", "run-1", "ti-1", True, T0)
    assert order_of(context(), "why", False).who == "schedule"
