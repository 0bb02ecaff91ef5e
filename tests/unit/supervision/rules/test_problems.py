"""What a cluster's runtime knows of a process that cannot run, as health of consumer and producer."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.core.processes import exits
from sluice.core.processes.heartbeat import Heartbeat, HeartbeatState
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ENDED, Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S
from sluice.supervision.rules.assess import assess, has_recovered
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import RESTARTABLE, Health, HealthReport
from tests.support.alerting import ALERTING
from tests.unit.supervision.rules.test_health import main, old

NOW = 100_000.0
SINCE = NOW - 5_000
POLICY = Supervision()
EMPTY = RestartHistory()
THREE = RestartHistory(restarts=[NOW - 100, NOW - 200, NOW - 300])
P = Problem
SAID = "what the cluster said"
KILLED = ProcessExit(NOW - 30, 137, 2.0)
# What follows the process in the message: 800 of the topic's 900 records wait; the newest heartbeat is old.
CONTEXT = {"consumer": "800 records wait$", "producer": r"last heartbeat by process 7, 400 s ago: streaming"}
NOT_STARTED = {S.STARTING, S.BACKOFF, *ENDED}
# Problem -> states of the process in which it is the health at once.
AT_ONCE = {
    P.NODE_LOST: {*NOT_STARTED, S.RUNNING, S.STOPPING},
    P.OUT_OF_MEMORY: {S.BACKOFF, *ENDED},
    P.IMAGE_MISSING: NOT_STARTED,
    P.QUOTA_EXCEEDED: NOT_STARTED,
    P.UNSCHEDULABLE: NOT_STARTED,
    P.NOT_STARTED: NOT_STARTED,
    P.EXECUTOR_PREEMPTED: set[S](),
}
RESTARTED = [P.NODE_LOST, P.OUT_OF_MEMORY]
ALERTED = [P.IMAGE_MISSING, P.QUOTA_EXCEEDED, P.UNSCHEDULABLE, P.NOT_STARTED]

components = pytest.mark.parametrize("component", CONTEXT)
problems = pytest.mark.parametrize("problem", Problem)


def process(problem: Problem | None, state: S = S.EXITED, **more: Any) -> ProcessStatus:
    given: dict[str, Any] = {"since": SINCE, "exit_status": 1, "description": SAID}
    return ProcessStatus("stream-x", state, problem=problem, **(given | more))


def heartbeat(ago: float = 400) -> Heartbeat:
    return Heartbeat(NOW - ago, 7, HeartbeatState.STREAMING, SINCE)


def sample(seen: ProcessStatus, ago: float = 0, **more: Any) -> Sample:
    """Sample a stream without progress; the half that the other kind of component needs is not read."""
    given: dict[str, Any] = {"topic_id": "T", "begins": {0: 0}, "ends": {0: 900}, "published": old()}
    return Sample(NOW - ago, seen, **(given | {"heartbeat": heartbeat()} | more))


def found(component: str, *samples: Sample, history: RestartHistory = EMPTY) -> HealthReport:
    report = assess(component, samples, POLICY, history)
    assert HealthReport.from_json(json.loads(json.dumps(report.to_json()))) == report
    assert "\n" not in report.message
    return report


def twice(component: str, seen: ProcessStatus, history: RestartHistory = EMPTY, **more: Any) -> HealthReport:
    return found(component, sample(seen, 10, **more), sample(seen, **more), history=history)


def test_each_problem_is_a_health_with_one_consequence() -> None:
    assert {(problem.name, problem.value) for problem in Problem} < {(h.name, h.value) for h in Health}
    assert {problem for problem in Problem if Health(problem.value) in RESTARTABLE} == set(RESTARTED)
    assert {problem for problem in Problem if Health(problem.value) in ALERTING} == {
        *ALERTED,
        P.EXECUTOR_PREEMPTED,
    }


@components
@problems
@pytest.mark.parametrize("state", sorted({*S} - {S.UNKNOWN}))
def test_it_is_the_health_where_it_is_the_cause(component: str, problem: Problem, state: S) -> None:
    seen = process(problem, state)
    once, report = found(component, sample(seen)), twice(component, seen)
    if state not in AT_ONCE[problem]:
        without = found(component, sample(replace(seen, problem=None))).health
        is_preempted = problem is P.EXECUTOR_PREEMPTED and without is Health.STALLED
        assert once.health is (Health.EXECUTOR_PREEMPTED if is_preempted else without)
        return
    assert once.health.value == report.health.value == problem.value
    assert not once.is_final
    assert report.is_final is not (problem in RESTARTED and state is S.BACKOFF)
    assert report.message.startswith(f"stream-x is {state.upper()} ({SAID})")
    assert re.search(f"; {CONTEXT[component]}", report.message), report.message
    is_end_the_cause = problem in RESTARTED and state in {*ENDED, S.BACKOFF}
    assert ("exit status 1" in report.message) is is_end_the_cause
    assert ("; the runtime restarts it;" in report.message) is (is_end_the_cause and state is S.BACKOFF)


@components
@pytest.mark.parametrize("problem", [*RESTARTED, *ALERTED])
def test_only_the_same_problem_of_the_same_instance_confirms_it(component: str, problem: Problem) -> None:
    seen = process(problem)
    other = replace(seen, problem=P.EXECUTOR_PREEMPTED)
    for before in (other, replace(seen, problem=None), replace(seen, since=SINCE - 60)):
        report = found(component, sample(before, 10), sample(seen))
        assert (report.health.value, report.is_final) == (problem.value, False)
    assert not found(component, sample(seen, 3), sample(seen)).is_final, "too soon after the first"
    assert found(component, sample(seen, 10, errors={"kafka": "away"}), sample(seen)).is_final


@components
@pytest.mark.parametrize("state", [S.EXITED, S.BACKOFF])
@pytest.mark.parametrize("problem", RESTARTED)
def test_after_too_many_restarts_it_flaps(component: str, problem: Problem, state: S) -> None:
    seen = process(problem, state, last_exit=KILLED, restart_at=NOW + 20)
    report = twice(component, seen, THREE)
    again = "; the runtime restarts it in 20 s" if state is S.BACKOFF else ""
    said = rf"^{problem}: stream-x is {state.upper()} \({SAID}\), exit code 137 after 2 s{again}; "
    assert report.health is Health.FLAPPING
    assert re.search(rf"{said}.*; restarted 3 times within 1800 s without recovery$", report.message)
    assert report.is_final is (state is S.EXITED)


@components
@pytest.mark.parametrize("state", [S.STARTING, S.BACKOFF])
@pytest.mark.parametrize("problem", ALERTED)
def test_what_no_restart_helps_does_not_flap(component: str, problem: Problem, state: S) -> None:
    report = twice(component, process(problem, state, since=NOW - 20, last_exit=KILLED), THREE)
    assert (report.health.value, report.is_final) == (problem.value, True)
    assert "restarted 3 times" not in report.message


@components
@problems
@pytest.mark.parametrize("code", sorted(exits.FINAL))
def test_a_final_exit_says_more(component: str, problem: Problem, code: int) -> None:
    report = twice(component, process(problem, exit_status=code), published=main())
    is_fenced = code == exits.FENCED and component == "consumer"
    assert report.health is (Health.FENCED if is_fenced else Health.DOWN)
    # Before its end an exit status is of the instance before.
    report = twice(component, process(P.IMAGE_MISSING, S.STARTING, exit_status=code))
    assert report.health is Health.IMAGE_MISSING


@problems
@pytest.mark.parametrize("state", [S.EXITED, S.STOPPING])
def test_another_instance_of_a_component_works_in_its_place(problem: Problem, state: S) -> None:
    seen = process(problem, state)
    report = found("producer", sample(seen, 10), sample(seen, heartbeat=heartbeat(1)))
    assert report.health is Health.FENCED
    report = found("producer", sample(seen, 10), sample(seen))
    assert report.health is not Health.FENCED


@components
@problems
def test_who_suspended_it_knows(component: str, problem: Problem) -> None:
    report = found(component, sample(process(problem)), history=RestartHistory(suspended="by ada"))
    assert (report.health, report.is_final) == (Health.SUSPENDED, True)


def test_of_the_consumer_what_became_of_its_records_comes_first() -> None:
    seen = process(P.IMAGE_MISSING)
    assert twice("consumer", seen, begins={0: 101}).health is Health.DATA_LOST
    assert twice("consumer", seen, topic_id="U").health is Health.TOPIC_RECREATED
    report = twice("consumer", seen, expiring={0: 150}, expires_in=600.0)
    assert report.health is Health.IMAGE_MISSING
    assert report.message.endswith("; retention deletes 50 unread records, the first of them within 10 min")


# The state of a lost node's process is the last one that was heard of.


@components
def test_a_lost_node_counts_though_there_was_progress(component: str) -> None:
    seen = process(P.NODE_LOST, S.RUNNING)
    before = sample(seen, 10, published=main(50), heartbeat=heartbeat(11))
    report = found(component, before, sample(seen, published=main(), heartbeat=heartbeat(1)))
    assert (report.health, report.is_final) == (Health.NODE_LOST, True)


@pytest.mark.parametrize("problem", ALERTED)
def test_a_pod_without_a_node_has_no_start_time(problem: Problem) -> None:
    assert twice("producer", process(problem, S.STARTING, since=None)).health.value == problem.value


@components
@pytest.mark.parametrize("ends", [100, 900], ids=["all is published", "records wait"])
def test_a_pod_that_has_not_started_yet_is_starting(component: str, ends: int) -> None:
    seen = process(None, S.STARTING, since=None)
    samples = [
        sample(seen, ago, ends={0: ends}, published=main(), heartbeat=heartbeat(ago + 1))
        for ago in (95, 50, 10, 0)
    ]
    report = found(component, *samples[1:])
    assert (report.health, report.is_final) == (Health.STARTING, False), report.message
    assert " 50 s after its start" in report.message
    assert found(component, *samples).health is Health.STALLED
    looping = [replace(one, process=replace(seen, last_exit=KILLED)) for one in samples]
    assert found(component, *looping, history=THREE).message.startswith("down: stream-x is STARTING")


# What runs again after it was killed at its memory limit.


@components
@pytest.mark.parametrize("problem", [P.OUT_OF_MEMORY, None])
def test_what_runs_again_is_what_it_is_now(component: str, problem: Problem | None) -> None:
    seen = process(problem, S.RUNNING, since=NOW - 20, last_exit=KILLED)
    works = sample(seen, published=main(acquired_at=NOW - 10), heartbeat=heartbeat(1))
    assert found(component, works).health is Health.HEALTHY
    report = found(component, works, history=THREE)
    assert report.health is Health.FLAPPING
    cause = r" \(out of memory\)" if problem else ""
    assert re.search(rf"is RUNNING \({SAID}\) for 20 s; before .* 137 after 2 s{cause}; ", report.message)


# Preempted executors: only if there is no progress.

PREEMPTED = process(P.EXECUTOR_PREEMPTED, S.RUNNING)
NEW = replace(PREEMPTED, since=NOW - 200)
WITHOUT_PROGRESS = {
    "no batch": ("consumer", PREEMPTED, "stream without progress for 190 s"),
    "no lease": ("consumer", NEW, "no active writer 200 s"),
    "no heartbeat": ("producer", PREEMPTED, "last heartbeat 400 s ago"),
    "never one": ("producer", NEW, "no heartbeat 200 s"),
}


@pytest.mark.parametrize("case", WITHOUT_PROGRESS)
@pytest.mark.parametrize("history", [EMPTY, RestartHistory(restarts=[NOW - 1000] * 3)], ids=["", "flapping"])
def test_without_executors_nothing_is_restarted(case: str, history: RestartHistory) -> None:
    component, seen, words = WITHOUT_PROGRESS[case]
    published = old(batch_at=NOW - 900)
    samples = [sample(seen, ago, published=published) for ago in (300, 10, 0)]
    report = found(component, *samples, history=history)
    assert (report.health, report.is_final) == (Health.EXECUTOR_PREEMPTED, True), report.message
    assert report.message.startswith(f"stream-x is RUNNING ({SAID})")
    assert words in report.message
    restarted = [replace(one, process=replace(seen, problem=None)) for one in samples]
    stalled = found(component, *restarted, history=history)
    assert stalled.health is (Health.FLAPPING if history.restarts else Health.STALLED)


@pytest.mark.parametrize("problem", [P.EXECUTOR_PREEMPTED, None])
def test_with_fewer_executors_it_is_a_remark(problem: Problem | None) -> None:
    seen = process(problem, S.RUNNING)
    ahead = sample(seen, ends={0: 1000}, published=main(999))
    reports = [
        found("consumer", sample(seen, published=main())),
        found("consumer", sample(seen, 60, published=main(50)), ahead),
        found("producer", sample(seen, heartbeat=heartbeat(1))),
    ]
    for report in reports:
        assert report.health is Health.HEALTHY
        assert report.message.endswith("; executor preempted") is (problem is not None), report.message


@components
def test_what_ended_without_executors_is_started_again(component: str) -> None:
    report = twice(component, process(P.EXECUTOR_PREEMPTED))
    assert (report.health, report.is_final) == (Health.DOWN, True)


@components
def test_a_recovery_that_a_problem_hinders_says_so(component: str) -> None:
    before, seen = sample(process(None)), process(P.UNSCHEDULABLE, S.STARTING)
    report = twice(component, seen)
    recovered, message = has_recovered(component, report, sample(seen), before)
    assert not recovered
    assert f"stream-x is STARTING ({SAID})" in message
    assert ("unschedulable" in message) is (component == "consumer")
    lasting = process(None, S.STARTING)
    assert SAID not in has_recovered("consumer", report, sample(lasting), before)[1]


@problems
def test_a_problem_survives_json(problem: Problem) -> None:
    text = json.dumps(process(problem).to_json())
    assert f'"problem": "{problem.value}"' in text
    restored = ProcessStatus.from_json(json.loads(text))
    assert restored == process(problem)
    assert restored.problem is problem


def test_a_status_of_an_earlier_version_has_no_problem_and_another_word_is_refused() -> None:
    data = process(None).to_json()
    assert data.pop("problem") is None
    assert ProcessStatus.from_json(data).problem is None
    with pytest.raises(ValueError, match="problem"):
        ProcessStatus.from_json(data | {"problem": "meteorite"})
