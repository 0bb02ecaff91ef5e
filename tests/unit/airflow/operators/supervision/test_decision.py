"""A person's decision: how it is requested, when a question ends by itself, and what an answer does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from sluice.airflow import notifications
from sluice.airflow.operators.supervision import decision
from sluice.airflow.operators.supervision.decision import ApplyDecisionOperator, RequestDecisionOperator
from sluice.airflow.triggers.decision import DecisionTrigger
from sluice.core.errors import Unreachable
from sluice.core.process import ProcessState as S
from sluice.ledger.history import History
from sluice.supervision.rules.status import Decision, Health, HealthReport
from tests.support import notifier
from tests.support.notifier import Recorder, rule
from tests.support.raising import raising
from tests.support.steps import ledger
from tests.support.supervision import SPEC, FakeRuntime, connect, context, events, history, report, sample

FLAPPING = report(Health.FLAPPING, message="dead: it ended; it was restarted 3 times", rate=1.25)


def conf(at: datetime | None = None) -> dict[str, Any]:
    at = at or datetime.now(UTC)
    return {"component": "consumer", "requested_at": at.timestamp(), "report": FLAPPING.to_json()}


class Step:
    """A task of the decision DAG over a fake process and a history in memory."""

    def __init__(self, kind: Any, state: S = S.EXITED) -> None:
        self.runtime = FakeRuntime(state)
        self.kept = history()
        self.ledger = ledger("nyc_taxi")
        self.operator = kind(task_id="step", stream="nyc_taxi")
        self.operator.__dict__["platform_hook"] = SimpleNamespace(
            runtime=self.runtime,
            history=lambda name: self.kept,
            ledger=lambda stream: self.ledger,
            sampler=lambda spec, component: SimpleNamespace(observe=lambda now: sample()),
        )

    def asked(self, made: HealthReport = FLAPPING, at: datetime | None = None) -> Any:
        """The context of a run that supervision triggered."""
        at = at or datetime.now(UTC)
        recorded = {"run": "run-1", "health": made.health.value, "message": made.message}
        self.kept.record("decision_requested", recorded, at)
        return context(conf={**conf(at), "report": made.to_json()})


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask."""
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(decision, "upsert_hitl_detail", lambda **given: told.append(given))
    return told


def request(step: Step) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        step.operator.execute(step.asked())
    return caught.value


def test_it_asks_with_the_report_and_waits_for_an_hour(requested: list[dict[str, Any]]) -> None:
    step = Step(RequestDecisionOperator)
    now = datetime.now(UTC)
    for minutes, asked_for in ((40, False), (20, True), (9, False), (5, False)):
        document = {"who": "schedule", "reason": f"died {minutes} ago", "requested": asked_for}
        step.kept.record("restart", document, now - timedelta(minutes=minutes))
    trigger: Any = request(step).trigger
    assert trigger.deadline - trigger.requested_at == 3600
    (told,) = requested
    assert (told["options"], told["defaults"]) == ([answer.value for answer in Decision], ["Check again"])
    for word in ("consumer", "nyc_taxi", "2 times"):
        assert word in told["subject"]
    for word in (FLAPPING.message, "died 20 ago", "died 5 ago", "LookupError: topic 't' has no partition"):
        assert f"{word}\n" in told["body"]
    assert "died 40 ago" not in told["body"]
    who = "It may be answered by every Airflow user who may update required actions (HITL details) of DAG"
    assert f"{who} nyc_taxi_decision." in told["body"]


def test_it_asks_about_a_configuration_and_not_about_restarts(requested: list[dict[str, Any]]) -> None:
    line = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    down = report(Health.DOWN, message=f"stream-nyc_taxi is EXITED ({line}), exit code 78 after 3 s")
    step = Step(RequestDecisionOperator)
    with pytest.raises(TaskDeferred):
        step.operator.execute(step.asked(down))
    assert requested[0]["subject"] == (
        "The consumer of nyc_taxi cannot work with its configuration: restart it, once that is corrected?"
    )
    assert line in requested[0]["body"]


def test_a_person_is_told_of_it_and_a_failure_hinders_no_request(
    requested: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier.configure(tmp_path, monkeypatch, rule())
    step = Step(RequestDecisionOperator)
    Recorder.failing["a"] = TimeoutError("timed out")
    request(step)
    assert len(requested) == 1
    Recorder.failing.clear()
    request(step)
    request(step)
    ((_, text),) = Recorder.sent
    for part in ("dead: it ended", "/runs/run-1/tasks/step/required_actions", "who may"):
        assert part in text


def test_without_the_log_it_asks_all_the_same(requested: list[dict[str, Any]]) -> None:
    step = Step(RequestDecisionOperator)
    step.runtime.errors = Unreachable("supervisord does not answer")
    request(step)
    assert "supervisord does not answer" in requested[0]["body"]


def test_a_run_that_supervision_did_not_trigger_says_so() -> None:
    with raising(AirflowFailException, "component"):
        Step(RequestDecisionOperator).operator.execute(context())


def test_a_component_that_the_stream_has_not_is_no_request() -> None:
    with raising(AirflowFailException, "SLU-104", "'x/y'", "only supervision"):
        Step(RequestDecisionOperator).operator.execute(context(conf={**conf(), "component": "x/y"}))


@pytest.mark.parametrize("requested_at", [1e20, -1e20, float("inf"), float("nan"), 4e9, 0, -1, "now", None])
def test_a_time_that_is_none_is_no_request(requested_at: Any) -> None:
    step = Step(RequestDecisionOperator)
    step.asked()
    with raising(AirflowFailException, "SLU-104", "only supervision"):
        step.operator.execute(context(conf={**conf(), "requested_at": requested_at}))


@pytest.mark.parametrize("kind", [RequestDecisionOperator, ApplyDecisionOperator])
def test_a_run_whose_request_is_not_in_the_history_asks_and_does_nothing(
    kind: Any, requested: list[dict[str, Any]]
) -> None:
    """Whoever may trigger DAGs gives any conf; another run's request is no request of this one."""
    step = Step(kind)
    at = datetime.now(UTC)
    step.kept.record("decision_requested", {"run": "run-2", "health": "down", "message": "m"}, at)
    with raising(AirflowFailException, "SLU-104", "run-1", "no decision_requested"):
        step.operator.execute(context(conf=conf(at)))
    assert (requested, step.runtime.did) == ([], [])


def test_health_and_message_are_those_of_the_history(requested: list[dict[str, Any]]) -> None:
    step = Step(RequestDecisionOperator)
    given = step.asked()
    forged = report(Health.DOWN, message="press Restart it, says the boss")
    given["dag_run"].conf["report"] = forged.to_json()
    with pytest.raises(TaskDeferred):
        step.operator.execute(given)
    assert FLAPPING.message in requested[0]["body"]
    assert "keeps failing" in requested[0]["subject"]
    assert "the boss" not in requested[0]["body"]


def test_nothing_that_is_shown_is_markup() -> None:
    evil = "![x](http://evil)\n# Title\r\n```\x0b<script>\u2028| a |\x1b[31m" + "x" * 1000
    text = decision.body(
        SPEC, report(message=evil), [{"at": "t", "who": evil, "reason": evil}], [evil, *["line"] * 99]
    )
    own = [line for line in text.split("\n") if line and not line.startswith("    ")]
    assert own == [
        "Last observation:",
        "Restarts in the last 30 minutes:",
        "End of its log:",
        *decision.CHOICES.format(stream="nyc_taxi").strip().split("\n"),
        f"It may be answered by {notifications.WHO_DECIDES.format(dag='nyc_taxi_decision')}.",
    ]
    assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, text.split("\n"))) < 4 * decision.MAX_CHARACTERS
    assert text.count("    line") == decision.MAX_LINES


def test_jinja_in_a_log_is_text() -> None:
    assert Step(RequestDecisionOperator).operator.template_fields == ()


# When a question ends by itself.


class Clock:
    """``happens``: what comes after so many seconds of waiting."""

    def __init__(self, kept: History, happens: dict[float, Any]) -> None:
        self.kept, self.happens = kept, happens
        self.began = self.now = datetime.now(UTC).timestamp()

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        for after in [after for after in self.happens if self.now - self.began >= after]:
            kind, document = self.happens.pop(after)
            self.kept.record(kind, document, datetime.fromtimestamp(self.now, UTC))

    def fire(self) -> dict[str, Any]:
        made = DecisionTrigger(
            stream="nyc_taxi",
            component="consumer",
            requested_at=self.began,
            deadline=self.began + 3600,
        )
        made = DecisionTrigger(**made.serialize()[1])
        connect(made, SimpleNamespace(history=lambda name: self.kept))
        made.clock, made.sleep = lambda: self.now, self.sleep

        async def first() -> Any:
            return await anext(made.run())

        return dict(asyncio.run(first()).payload)


@pytest.mark.parametrize(
    ("kind", "document", "ends"),
    [
        ("health", {"health": "healthy"}, True),
        ("health", {"health": "suspended"}, True),
        ("health", {"health": "starting"}, False),
        ("health", {"health": "unknown"}, False),
        ("restart", {"requested": True}, True),
        ("restart", {"requested": False}, False),
        ("suspend", {"who": "ada"}, True),
        ("start", {"who": "a load"}, True),
    ],
)
def test_a_question_ends_if_nobody_has_to_decide_any_more(kind: str, document: Any, ends: bool) -> None:
    clock = Clock(history(), {100: (kind, document)})
    event = clock.fire()
    assert (event["chosen_options"], event["responded_by_user"]) == (["Check again"], None)
    assert (clock.now - clock.began < 200) is ends
    answer = Step(RequestDecisionOperator).operator.execute_complete(context(), event)
    assert (answer["choice"], answer["who"]) == ("Check again", "no user")


def test_a_persons_answer_says_who() -> None:
    event = {
        "chosen_options": ["Restart it"],
        "params_input": {},
        "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
        "responded_by_user": {"id": "1", "name": "ada"},
    }
    assert Step(RequestDecisionOperator).operator.execute_complete(context(), event) == {
        "choice": "Restart it", "who": "ada", "at": "2026-01-01T00:00:00+00:00", "reason": "",
    }  # fmt: skip


# What an answer does.


def answered(step: Step, choice: Decision, at: datetime | None = None) -> dict[str, Any]:
    """Airflow resumes the task that asks, with a person's answer."""
    asks = Step(RequestDecisionOperator)
    asks.ledger = step.ledger
    user = {"id": "1", "name": "ada"}
    event = {"chosen_options": [choice.value], "params_input": {}, "responded_by_user": user}
    return dict(asks.operator.execute_complete(context(), {**event, "responded_at": at or datetime.now(UTC)}))


def apply(step: Step, choice: Decision | None, xcom: dict[str, Any] | None = None) -> TaskDeferred | None:
    """Apply an answer to a question of ten minutes ago; what it then waits for."""
    given = step.asked(at=datetime.now(UTC) - timedelta(minutes=10))
    if choice is not None:
        xcom = xcom or answered(step, choice)
    given["ti"].xcoms["request_decision"] = xcom
    try:
        step.operator.execute(given)
    except TaskDeferred as waits:
        return waits
    return None


def test_restart_restarts_whatever_instance_is_there_and_is_verified() -> None:
    step = Step(ApplyDecisionOperator, S.BACKOFF)
    waits = apply(step, Decision.RESTART)
    assert waits is not None
    assert [did[0] for did in step.runtime.did] == ["stop", "start"]
    answer, restart = events(step.kept, "decision", "restart")
    assert (answer["choice"], answer["who"], answer["run"]) == ("Restart it", "ada", "run-1")
    assert (restart["who"], restart["requested"]) == ("ada", True)
    event = {"outcome": "reached", "reason": "", "at": datetime.now(UTC).timestamp()}
    step.operator.record_recovery(step.asked(), event, **(waits.kwargs or {}))
    assert len(events(step.kept, "recovered")) == 1


def test_keep_it_stopped_suspends_it_and_ends_what_runs() -> None:
    step = Step(ApplyDecisionOperator, S.RUNNING)
    assert apply(step, Decision.SUSPEND) is None
    suspended = step.kept.suspended()
    assert suspended is not None
    assert suspended["who"] == "ada"
    assert step.runtime.now.state is S.STOPPED


def test_look_again_does_nothing_but_is_recorded() -> None:
    step = Step(ApplyDecisionOperator)
    assert apply(step, Decision.CHECK) is None
    assert step.runtime.did == []
    assert [event["choice"] for event in events(step.kept, "decision")] == ["Check again"]


@pytest.mark.parametrize("choice", [Decision.RESTART, Decision.SUSPEND])
@pytest.mark.parametrize(
    ("kind", "document"),
    [("health", {"health": "healthy"}), ("restart", {"requested": True}), ("suspend", {})],
)
def test_an_answer_that_came_too_late_is_not_applied(choice: Decision, kind: str, document: Any) -> None:
    step = Step(ApplyDecisionOperator, S.RUNNING)
    step.kept.record(kind, document, datetime.now(UTC) - timedelta(minutes=1))
    assert apply(step, choice) is None
    assert step.runtime.did == []
    (answer,) = events(step.kept, "decision")
    assert answer["stale"]


@pytest.mark.parametrize("is_forged", [False, True])
def test_without_an_answer_in_the_ledger_the_task_to_clear_is_named(is_forged: bool) -> None:
    """Whoever may edit XComs can write any answer there."""
    step = Step(ApplyDecisionOperator)
    forged = {"choice": "Restart it", "who": "ada", "at": datetime.now(UTC).isoformat(), "reason": ""}
    with raising(AirflowFailException, "clear its request_decision"):
        apply(step, None, forged if is_forged else None)
    assert (step.runtime.did, events(step.kept, "decision")) == ([], [])


def test_an_xcom_changes_no_answer() -> None:
    step = Step(ApplyDecisionOperator)
    forged = answered(step, Decision.CHECK) | {"choice": "Restart it"}
    assert apply(step, None, forged) is None
    assert step.runtime.did == []


def test_of_two_answers_the_later_counts() -> None:
    """The task that asks was cleared, and answered again."""
    step = Step(ApplyDecisionOperator, S.RUNNING)
    answered(step, Decision.CHECK, datetime.now(UTC) - timedelta(minutes=1))
    for _ in range(2):
        answered(step, Decision.SUSPEND, datetime(2040, 1, 1, tzinfo=UTC))
    assert len(list(step.ledger.keys("runs/run-1/"))) == 2
    apply(step, None)
    assert step.kept.suspended() is not None
