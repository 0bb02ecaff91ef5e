"""A cluster's process that does not start, or is not restarted: a person hears of it, or supervision acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S
from sluice.supervision.rules.assess import assess
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import RESTARTABLE, Health, HealthReport
from tests.unit.supervision.rules.test_health import old

NOW, POLICY = 100_000.0, Supervision()
COMPONENTS = ("consumer", "producer")
components = pytest.mark.parametrize("component", COMPONENTS)


def sample(process: ProcessStatus, ago: float = 0, **more: Any) -> Sample:
    given: dict[str, Any] = {"topic_id": "T", "begins": {0: 0}, "ends": {0: 900}, "published": old()}
    return Sample(at=NOW - ago, process=process, **(given | more))


def judged(component: str, *samples: Sample) -> HealthReport:
    return assess(component, samples, POLICY, RestartHistory())


def starting(age: float) -> ProcessStatus:
    return ProcessStatus("stream-x", S.STARTING, description="pod x-1 is starting", created=NOW - age)


@components
@pytest.mark.parametrize(
    ("age", "health"), [(12, Health.STARTING), (89, Health.STARTING), (91, Health.NOT_STARTED)]
)
def test_a_pod_that_does_not_start_is_not_replaced_by_one_that_would_not_either(
    component: str, age: float, health: Health
) -> None:
    stopped = ProcessStatus("stream-x", S.STOPPED)
    # It was suspended for twenty minutes before.
    before = [sample(stopped, ago) for ago in range(1_300, 100, -60)]
    report = judged(component, *before, sample(starting(age)))
    assert report.health is health, report.message
    assert report.health not in RESTARTABLE
    assert report.is_final == (health is Health.NOT_STARTED)


def test_each_pod_that_has_not_started_is_another_instance() -> None:
    first, second = starting(50), starting(10)
    assert len({first.identity, second.identity, ProcessStatus("x", S.STOPPED).identity}) == 3
    assert replace(first, since=NOW - 40).identity == str(int(NOW - 40))


@components
def test_a_runtime_that_is_late_with_a_restart_is_not_left_alone(component: str) -> None:
    def ended(due: float) -> ProcessStatus:
        last = ProcessExit(NOW - 7_200, 1, 30.0)
        return ProcessStatus("stream-x", S.BACKOFF, None, NOW - 7_230, 1, "it ended", (), last, NOW - due)

    assert judged(component, sample(ended(-5), 60), sample(ended(-5))).health is Health.STARTING
    report = judged(component, sample(ended(7_190), 60), sample(ended(7_190)))
    assert (report.health, report.is_final) == (Health.DOWN, True), report.message


@components
def test_also_one_that_was_killed_at_its_memory_limit(component: str) -> None:
    last = ProcessExit(NOW - 7_200, 137, 30.0)
    killed = ProcessStatus("stream-x", S.BACKOFF, None, NOW - 7_230, 137, "killed", (), last, NOW - 7_190)
    killed = replace(killed, problem=Problem.OUT_OF_MEMORY)
    assert judged(component, sample(killed, 60), sample(killed)).health is Health.DOWN
    soon = replace(killed, restart_at=NOW + 5)
    assert judged(component, sample(soon, 60), sample(soon)).health is Health.OUT_OF_MEMORY
