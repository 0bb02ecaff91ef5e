"""The steps that act: what they do for a verdict, an order or an answer, and what is skipped behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskAwaitingInput

from sluice.clients.errors import Unreachable
from sluice.model.health import Verdict
from sluice.model.orders import Answer
from sluice.model.process import ProcessState as S
from sluice.operators import question
from sluice.operators.alarm import AlarmOperator
from sluice.operators.ask import AskOperator
from sluice.operators.carry_out import CarryOutOperator
from sluice.operators.restart_stream import RestartStreamOperator
from sluice.operators.stop_stream import StopStreamOperator
from tests.support.raising import raising
from tests.support.supervision import SPEC, FakeRuntime, context, diagnosis, events, history

DEAD = diagnosis(Verdict.DEAD)


class Step:
    """An operator in a DAG before ``verify``, over a fake process and a history in memory."""

    def __init__(self, kind: Any, state: S = S.EXITED) -> None:
        self.runtime = FakeRuntime(state)
        self.kept = history()
        with DAG("d", schedule=None):
            self.operator = kind(task_id="step", stream="nyc_taxi")
            self.operator >> EmptyOperator(task_id="verify")
        hook = type("Hook", (), {"runtime": self.runtime})()
        self.operator.__dict__ |= {"platform_hook": hook, "history": self.kept}

    def run(self, given: Any) -> Any:
        given["ti"].task = self.operator
        return self.operator.execute(given)

    def skips(self, given: Any) -> dict[str, Any]:
        """Run it, see that verify is skipped, and give what it left as its return value."""
        with pytest.raises(DownstreamTasksSkipped) as caught:
            self.run(given)
        assert caught.value.tasks == ["verify"]
        left: dict[str, Any] = given["ti"].pushed["return_value"]
        assert left["done"] is False
        return left


def test_the_platform_restarts_what_is_dead() -> None:
    step = Step(RestartStreamOperator)
    act = step.run(context(DEAD))
    assert act["done"]
    (event,) = events(step.kept, "restart")
    assert (event["who"], event["asked"], event["why"]) == ("schedule", False, "so it is")


def test_a_person_restarts_what_runs_and_says_why() -> None:
    step = Step(RestartStreamOperator, S.RUNNING)
    assert step.run(context(diagnosis(Verdict.HEALTHY), user="ada", action="restart", why="new jar"))["done"]
    (event,) = events(step.kept, "restart")
    assert (event["who"], event["asked"], event["why"]) == ("ada", True, "new jar")


def test_a_person_who_gives_no_reason_has_none() -> None:
    step = Step(RestartStreamOperator)
    step.run(context(diagnosis(Verdict.DEAD), user="ada", action="restart"))
    assert events(step.kept, "restart")[0]["why"] == ""


def test_start_is_not_restart() -> None:
    step = Step(RestartStreamOperator, S.RUNNING)
    left = step.skips(context(diagnosis(Verdict.IDLE), user="ada", action="start"))
    assert (left["sentence"], step.runtime.did) == ("stream-nyc_taxi is RUNNING", [])


def test_where_somebody_else_restarted_it_nothing_is_verified() -> None:
    left = Step(RestartStreamOperator).skips(context(diagnosis(identity="1")))
    assert "it was started anew after it was judged" in left["sentence"]


def test_without_an_answer_it_is_red_and_not_done() -> None:
    step = Step(RestartStreamOperator)
    step.runtime.trouble = Unreachable("supervisord does not answer")
    with pytest.raises(Unreachable):
        step.run(context(DEAD))


def test_stop_holds() -> None:
    step = Step(StopStreamOperator, S.RUNNING)
    left = step.skips(context(DEAD, user="ada", action="stop", why="new table"))
    assert left["sentence"] == "stream-nyc_taxi is STOPPED, and held from now on"
    held = step.kept.held()
    assert held is not None
    assert held["why"] == "new table"


def test_the_alarm_is_its_sentence() -> None:
    lost = diagnosis(Verdict.LOST, sentence="partition 3: [5, 9) is gone: give the stream a new table")
    with raising(AirflowFailException, "nyc_taxi", lost.verdict.value, lost.sentence):
        Step(AlarmOperator).run(context(lost))
    with raising(AirflowFailException, "observe task"):
        Step(AlarmOperator).run(context())


# The question.

FLAPPING = diagnosis(Verdict.FLAPPING, sentence="dead: it ended; it was restarted 3 times", rate=1.25)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was told to ask."""
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "airflow.providers.standard.operators.hitl.upsert_hitl_detail", lambda **given: told.append(given)
    )
    return told


def ask(step: Step) -> TaskAwaitingInput:
    with pytest.raises(TaskAwaitingInput) as caught:
        step.run(context(FLAPPING))
    return caught.value


def test_it_asks_with_the_evidence_and_records_that(asked: list[dict[str, Any]]) -> None:
    step = Step(AskOperator)
    now = datetime.now(UTC)
    for minutes, asked_for in ((40, False), (20, True), (9, False), (5, False)):
        step.kept.record(
            "restart",
            {"who": "schedule", "verdict": "dead", "sentence": f"died {minutes} ago", "asked": asked_for},
            now - timedelta(minutes=minutes),
        )
    waiting = ask(step)
    assert (waiting.timeout, waiting.method_name) == (timedelta(hours=1), "execute_complete")
    (told,) = asked
    assert told["options"] == ["Restart it", "Keep it stopped", "Look again"]
    assert (told["defaults"], told["multiple"]) == (["Look again"], False)
    assert told["subject"] == (
        "Stream nyc_taxi was restarted 2 times and does not keep going: restart it again?"
    )
    for expected in (
        "    dead: it ended; it was restarted 3 times\n",
        "    records that wait    5\n",
        "    records/s published  1.2\n",
        "died 20 ago", "died 9 ago", "died 5 ago",
        "    LookupError: topic 't' has no partition",
        "**Keep it stopped**: hold it, until the DAG `nyc_taxi_stream` is triggered",
    ):  # fmt: skip
        assert expected in told["body"]
    assert "died 40 ago" not in told["body"]
    (event,) = events(step.kept, "question")
    assert (event["run"], event["verdict"], event["subject"]) == ("run-1", "flapping", told["subject"])


def test_without_the_log_it_asks_all_the_same(asked: list[dict[str, Any]]) -> None:
    step = Step(AskOperator)
    step.runtime.trouble = Unreachable("supervisord does not answer")
    ask(step)
    assert "    the log cannot be read: supervisord does not answer\n" in asked[0]["body"]


def test_nothing_that_is_shown_is_markup() -> None:
    evil = "![x](http://evil)\n# Title\r\n```\x0b<script>\u2028| a |\x1b[31m" + "x" * 1000
    text = question.body(
        SPEC,
        diagnosis(sentence=evil),
        [{"at": "t", "who": evil, "verdict": evil, "sentence": evil}],
        [evil, *["line"] * 99],
    )
    own = [line for line in text.split("\n") if line and not line.startswith("    ")]
    assert own == [
        "What was seen:",
        "Its restarts of the last 30 minutes:",
        "The end of its log:",
        *question.CHOICES.format(stream="nyc_taxi").strip().split("\n"),
    ]
    assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, text.split("\n"))) < 4 * question.MOST_CHARACTERS
    assert text.count("    line") == question.MOST_LINES


def test_jinja_in_a_log_is_text() -> None:
    assert Step(AskOperator).operator.template_fields == ("stream",)


@pytest.mark.parametrize(("user", "who"), [({"id": "1", "name": "ada"}, "ada"), (None, "nobody")])
def test_the_answer_says_who(user: Any, who: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    event = {
        "chosen_options": ["Look again"],
        "params_input": {},
        "responded_at": at,
        "responded_by_user": user,
    }
    assert Step(AskOperator).operator.execute_complete({}, event) == {
        "choice": "Look again", "who": who, "at": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip


# Carrying it out.


def answered(choice: Answer, **more: Any) -> Any:
    at = datetime.now(UTC).isoformat()
    return context(FLAPPING, {"ask": {"choice": choice.value, "who": "ada", "at": at}}, **more)


def test_a_restart_that_was_answered_is_a_persons() -> None:
    step = Step(CarryOutOperator)
    step.runtime.seen = lambda: [e["kind"] for e in events(step.kept, "answer", "restart")]
    assert step.run(answered(Answer.RESTART))["done"]
    assert step.runtime.did == [("start", ["answer", "restart"])]
    answer, restart = events(step.kept, "answer", "restart")
    assert (answer["choice"], answer["who"], answer["run"]) == ("Restart it", "ada", "run-1")
    assert (restart["who"], restart["asked"]) == ("ada", True)
    assert restart["why"].startswith("answered 'Restart it': dead: it ended")


def test_what_was_asked_at_the_answer_counts_from_there() -> None:
    # It came up again after the run began, so it is younger than the run, but older than the answer.
    step = Step(CarryOutOperator, S.RUNNING)
    assert step.run(answered(Answer.RESTART, at=datetime.fromtimestamp(500, UTC)))["done"]


def test_keep_it_stopped_holds_it_and_ends_what_runs() -> None:
    step = Step(CarryOutOperator, S.RUNNING)
    left = step.skips(answered(Answer.HOLD))
    assert left["sentence"] == "stream-nyc_taxi is STOPPED, and held from now on"
    held = step.kept.held()
    assert held is not None
    assert held["who"] == "ada"


def test_look_again_does_nothing_but_is_recorded() -> None:
    step = Step(CarryOutOperator)
    left = step.skips(answered(Answer.LOOK))
    assert left["sentence"] == "ada chose to look again: the next run does"
    assert step.runtime.did == []
    assert [event["choice"] for event in events(step.kept, "answer")] == ["Look again"]


def test_without_an_answer_the_task_to_clear_is_named() -> None:
    with raising(AirflowFailException, "ask task"):
        Step(CarryOutOperator).run(context(FLAPPING))
