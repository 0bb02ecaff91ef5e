"""A change that a person approves, and what a run does that is cleared after it; without a stack."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput, TaskDeferred

from sluice.airflow import forms
from sluice.airflow.channel import RunChannel
from sluice.airflow.operators.change import approval as change_approval
from sluice.airflow.operators.change.approval import ApproveChangeOperator
from sluice.airflow.operators.change.steps import (
    ApplyChangeOperator,
    PlanChangeOperator,
    VerifyChangeOperator,
)
from sluice.changes import plan as change_plans
from sluice.changes.approval import APPROVED as APPROVED_ANSWER
from sluice.changes.approval import is_to_apply, needs_approval, why_unasked
from sluice.clients.lake.snapshots import change_files
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import KEEP_IDS, Changes
from sluice.core.changes.result import ChangeResult, Reverted
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.rewrites import Rewrites, id_of_change
from sluice.ledger.history import History
from sluice.ledger.keys import run_key
from sluice.notify import telling
from tests.support import notifier
from tests.support.memory_s3 import MemoryS3
from tests.support.notifier import Recorder, rule
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger, triggered

ID, ADDRESS = "c1", "changes/removed.json"
AT = datetime(2026, 11, 24, 10, 0, tzinfo=UTC)
APPROVED = {"chosen_options": ["Approve"], "who": "ann", "at": AT.isoformat()}


class World:
    """A planned change, and a table with these ``changes``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.memory, self.changes = MemoryS3(), Changes()
        self.ledger = ledger("nyc_taxi", self.memory)
        self.answer: dict[str, Any] | None = None
        self.submitted: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        monkeypatch.setattr(
            ApplyChangeOperator, "submit", lambda step, _, options: self.submitted.append(options)
        )
        monkeypatch.setattr(
            "airflow.providers.standard.operators.hitl.upsert_hitl_detail",
            lambda **said: self.asked.append(said),
        )

    def plan(self, action: Action, rows: int = 10, limit: int = 1_000_000, **parts: Any) -> ChangePlan:
        plan = ChangePlan(ID, action, "nyc-avro-topic", **parts)
        counted = {"rows_out": rows, "records_in": 0}
        asked = {"action": action.value, "ask_above": limit}
        pinned = {"counted": counted, "params": asked, "at": datetime.now(UTC).isoformat()}
        self.ledger.put(run_key("r", "change"), {**plan.to_document(), **pinned})
        return plan

    def published(self, *names: str, removed: ChangeResult | None = None) -> None:
        if removed:
            self.memory.objects["warehouse", ADDRESS] = json.dumps(removed.to_document()).encode()
        for name in names:
            self.changes = self.changes.more(name, f"s3://warehouse/{ADDRESS}" if removed else "")

    def do(self, kind: Any, **more: Any) -> Any:
        step = kind(task_id="step", stream="nyc_taxi")
        step.__dict__ |= {
            "ledger": self.ledger,
            "spec": SimpleNamespace(
                name="nyc_taxi", table="raw.nyc_taxi", quarantine_table="raw.nyc_taxi_quarantine"
            ),
            "tables": NewTables(),
            "platform_hook": SimpleNamespace(
                lake=SimpleNamespace(changes=lambda name: self.changes),
                s3=self.memory.as_client(),
                history=lambda name: History(self.memory.as_client(), "s3://w/ledger", name),
            ),
        }
        params = (self.ledger.get(run_key("r", "change")) or {}).get("params")
        ti = SimpleNamespace(id="ti", xcom_pull=lambda task_ids: self.answer)
        return step, given(run_id="r", params=params, ti=ti, task_instance=ti, **more)

    def respond(self, option: str, at: datetime = AT, user: str | None = "ann") -> Any:
        """Airflow resumes the task that asks, with an answer."""
        step, context = self.do(ApproveChangeOperator)
        return step.execute_complete(context, {
            "chosen_options": [option], "params_input": {}, "responded_at": at, "timedout": False,
            "responded_by_user": {"id": "1", "name": user} if user else None,
        })  # fmt: skip

    def run(self, kind: Any, **more: Any) -> Any:
        step, context = self.do(kind, **more)
        return step.execute(context)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("action", "rows", "limit", "is_asked"),
    [
        (Action.REPLAY, 10, 10, False),
        (Action.REPLAY, 11, 10, True),
        (Action.REDO, 11, 10, True),
        (Action.REVERT, 0, 10, True),
        (Action.REPLACE, 0, 10, True),
    ],
)
def test_a_person_is_asked_if_rows_go_for_good_or_many_are_changed(
    world: World, action: Action, rows: int, limit: int, is_asked: bool
) -> None:
    world.plan(action, rows, limit)
    if not is_asked:
        world.answer = world.run(ApproveChangeOperator)
    else:
        with pytest.raises(TaskAwaitingInput):
            world.run(ApproveChangeOperator)
        assert world.asked[0]["subject"] == f"{action}: change {rows} rows of raw.nyc_taxi?"
        with raising(AirflowFailException, "SLU-420", "not approved", "clear approve_change"):
            world.run(ApplyChangeOperator)
        assert world.submitted == []
        world.respond("Approve")
    world.run(ApplyChangeOperator)
    assert len(world.submitted) == 1


def test_who_may_answer_is_told_once_of_the_open_question(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier.configure(tmp_path, monkeypatch, rule())
    world.plan(Action.REVERT, rows=7)
    Recorder.failing["a"] = TimeoutError("timed out")
    with pytest.raises(TaskAwaitingInput):
        world.run(ApproveChangeOperator)
    Recorder.failing.clear()
    for _ in range(2):
        with pytest.raises(TaskAwaitingInput):
            world.run(ApproveChangeOperator)
        kept = History(world.memory.as_client(), "s3://w/ledger", "nyc_taxi")
        telling.tell_open(kept, "nyc_taxi", RunChannel({}))
    ((_, text),) = Recorder.sent
    for part in ("revert: change 7 rows", "/runs/r/tasks/step/required_actions", "who may"):
        assert part in text


def test_what_is_shown_is_cut_and_names_the_whole_plan(world: World) -> None:
    ranges = OffsetRanges.of({0: [(10 * n, 10 * n + 1) for n in range(10_000)]})
    world.plan(Action.REPLACE, rows_out=ranges, rows_in=ranges)
    with pytest.raises(TaskAwaitingInput):
        world.run(ApproveChangeOperator)
    body = world.asked[0]["body"]
    assert len(body) < 4000
    assert body.endswith("(HITL details) of DAG nyc_taxi_change.")
    assert body.count("s3://w/ledger/nyc_taxi/runs/r/change.json") == 3


@pytest.mark.parametrize("answer", [None, [{"who": "ann"}], "Approve", {
    "chosen_options": ["Reject"], "who": "ann", "at": "",
}, {
    "chosen_options": ["Approve"], "reason": "change c1 is published already",
}, APPROVED])  # fmt: skip
def test_a_revert_that_no_person_approved_is_not_made(world: World, answer: Any) -> None:
    """Task approve_change was marked as success, or its XCom was edited."""
    world.plan(Action.REVERT)
    world.answer = answer
    with raising(AirflowFailException, "SLU-420", "not approved", "clear approve_change"):
        world.run(ApplyChangeOperator)
    assert world.submitted == []


def test_who_approved_is_in_the_ledger_before_anything_is_applied(world: World) -> None:
    world.plan(Action.REVERT)
    assert world.respond("Approve") == APPROVED
    said = world.ledger.get(run_key("r", "change-approval"))
    assert said == {"change_id": ID, "answer": "Approve", "who": "ann", "at": AT.isoformat()}
    world.answer = {"chosen_options": ["Reject"], "who": "eve", "at": ""}
    world.run(ApplyChangeOperator)
    assert len(world.submitted) == 1


LATER = AT + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("answers", "is_made"),
    [
        (["Reject"], False),
        (["Approve", "Reject"], False),
        (["Reject", "Approve"], True),
        (["Approve", "Approve"], True),
        (["Approve", "Reject", "Approve"], True),
    ],
)
def test_of_several_answers_the_last_counts(world: World, answers: list[str], is_made: bool) -> None:
    """approve_change was cleared and answered again; then apply_change was cleared alone."""
    world.plan(Action.REVERT)
    for number, answer in enumerate(answers):
        for _ in range(2):
            world.respond(answer, AT + timedelta(minutes=number))
    assert len(list(world.ledger.keys("runs/r/change-approval"))) == len(answers)
    world.answer = APPROVED
    if is_made:
        world.run(ApplyChangeOperator)
    else:
        with raising(AirflowFailException, "SLU-420", "not approved", "its answer is Reject"):
            world.run(ApplyChangeOperator)
    assert len(world.submitted) == is_made


def test_an_answer_without_a_user_or_about_another_change_approves_nothing(world: World) -> None:
    world.plan(Action.REVERT)
    world.respond("Approve", user=None)
    with raising(AirflowFailException, "SLU-420", "not approved"):
        world.run(ApplyChangeOperator)
    other = {"change_id": "c0", "answer": "Approve", "who": "ann", "at": LATER.isoformat()}
    world.ledger.put(run_key("r", "change-approval-1"), other)
    with raising(AirflowFailException, "SLU-420", "not approved"):
        world.run(ApplyChangeOperator)
    # An earlier version wrote it, which took it from the XCom.
    old = {"change_id": ID, "who": "ann", "at": (LATER + timedelta(minutes=1)).isoformat()}
    world.ledger.put(run_key("r", "change-approval-2"), old)
    with raising(AirflowFailException, "SLU-420", "not approved"):
        world.run(ApplyChangeOperator)
    assert world.submitted == []


def test_without_an_answer_it_says_so(world: World) -> None:
    world.plan(Action.REVERT)
    step, context = world.do(ApproveChangeOperator)
    with raising(AirflowFailException, "SLU-420", "no answer in 24 h", "nothing was changed", "new run"):
        step.execute_complete(context, {"error": "The response timeout has passed", "error_type": "timeout"})


def test_no_person_is_asked_about_a_change_that_is_published(world: World) -> None:
    world.plan(Action.REVERT)
    world.published(ID)
    world.answer = world.run(ApproveChangeOperator)
    assert "published already" in world.answer["reason"]
    assert world.asked == []
    world.run(ApplyChangeOperator)
    assert len(world.submitted) == 1


def result(*reverts: str, removed: OffsetRanges | None = None) -> ChangeResult:
    """What is removed after some change."""
    none = OffsetRanges()
    taken = {name: Reverted(("a" * 16,), none) for name in reverts}
    return ChangeResult(ID, Action.REVERT, none, 0, none, none, removed or none, 0, 0, 0, taken)


def test_a_cleared_revert_that_is_published_passes(world: World) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID, removed=result(ID))
    assert world.run(PlanChangeOperator)["change_id"] == ID


def test_a_run_id_of_a_run_that_airflow_deleted_takes_no_change_of_then(world: World) -> None:
    """It would be green with what was approved and published then."""
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID, removed=result(ID))
    assert world.run(PlanChangeOperator, dag_run=triggered(0))["change_id"] == ID
    with raising(AirflowFailException, "SLU-306", "run id 'r'", "another run id"):
        world.run(PlanChangeOperator, dag_run=triggered(31))


def test_what_is_removed_cannot_be_told_if_the_document_is_gone(world: World) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID, removed=result(ID))
    del world.memory.objects["warehouse", ADDRESS]
    with raising(AirflowFailException, "SLU-224", f"s3://warehouse/{ADDRESS}", "it is gone", "Fix: restore"):
        world.run(PlanChangeOperator)


def test_a_cleared_revert_that_was_redone_is_refused(world: World) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID, removed=result(ID))
    world.published("c2")
    with raising(AirflowFailException, "SLU-306", ID, "has undone it", "trigger a new run"):
        world.run(PlanChangeOperator)


def test_a_cleared_redo_that_was_reverted_is_refused(world: World) -> None:
    rows = OffsetRanges.of({0: [(0, 10)]})
    world.plan(Action.REDO, rows_in=rows)
    world.published(ID)
    world.published("c2", removed=result("c2", removed=rows))
    with raising(AirflowFailException, "SLU-306", ID, "has undone it", "trigger a new run"):
        world.run(PlanChangeOperator)


def test_a_cleared_replay_of_which_a_later_change_removed_some_records_passes(world: World) -> None:
    world.plan(Action.REPLAY, rows_in=OffsetRanges.of({0: [(0, 10)]}))
    world.published(ID)
    world.published("c2", removed=result("c2", removed=OffsetRanges.of({0: [(3, 4)]})))
    assert world.run(PlanChangeOperator)["change_id"] == ID


LATE_ANSWERS = [
    {"error": "The response timeout has passed", "error_type": "timeout"},
    {"chosen_options": ["Reject"], "params_input": {}, "responded_at": AT, "timedout": False,
     "responded_by_user": {"id": "1", "name": "ann"}},
]  # fmt: skip


@pytest.mark.parametrize("event", LATE_ANSWERS)
def test_an_answer_after_which_nothing_tells_whether_the_change_is_published_stops_nothing(
    world: World, event: dict[str, Any]
) -> None:
    """It was asked again, and published; then so many came that the table names it no more."""
    world.plan(Action.REVERT)
    world.published(ID, *(f"other-{number}" for number in range(KEEP_IDS)))
    step, context = world.do(ApproveChangeOperator)
    answer = step.execute_complete(context, event)
    assert answer["chosen_options"] == [ApproveChangeOperator.APPROVE]
    assert "9 changes came" in answer["reason"]


@pytest.mark.parametrize("event", LATE_ANSWERS)
def test_an_answer_that_comes_after_the_change_was_published_stops_nothing(
    world: World, event: dict[str, Any]
) -> None:
    """A rejection would skip the rest, and the run be green; or it would say that nothing was changed."""
    world.plan(Action.REVERT)
    world.published(ID)
    step, context = world.do(ApproveChangeOperator)
    assert step.execute_complete(context, event)["chosen_options"] == [ApproveChangeOperator.APPROVE]


def test_a_verified_change_with_many_later_ones_passes_when_its_run_is_cleared(world: World) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID)
    for number in range(KEEP_IDS + 1):
        world.published(f"other-{number}", removed=result(ID))
    world.changes = replace(world.changes, rewrites=Rewrites().more(id_of_change(ID, "key")))
    world.ledger.put(run_key("r", "change-proof"), {"snapshot_id": 1})
    assert world.run(PlanChangeOperator)["change_id"] == ID
    world.answer = world.run(ApproveChangeOperator)
    assert world.asked == []
    world.run(ApplyChangeOperator)
    assert world.submitted == []


@pytest.mark.parametrize("others", [("c2",), ("c2", "c3")])
def test_no_person_is_asked_about_a_change_that_is_not_made_any_more(
    world: World, others: tuple[str, ...]
) -> None:
    """Its answer would be for nothing: the job refuses a change with others than it was planned with."""
    plan = world.plan(Action.REVERT)
    document = world.ledger.require(run_key("r", "change"), "x")
    world.published(*others)
    if len(others) == 2:
        # As many after a restore.
        document |= {"changes": len(others), "newest": "c1"}
    assert "not made any more" in str(why_unasked(document, world.changes))
    with raising(Refused, plan.id, "planned after", "nothing was changed", "Fix: trigger a new run"):
        is_to_apply(world.ledger, "r", document, world.changes)


def test_a_proof_does_not_stand_for_a_change_that_a_restored_catalog_lost(world: World) -> None:
    """Then as many came that the table named it no more: it was said to be published and verified."""
    world.plan(Action.REVERT, reverts=("a" * 16,))
    for number in range(KEEP_IDS + 1):
        world.published(f"other-{number}", removed=result())
    world.ledger.put(run_key("r", "change-proof"), {"snapshot_id": 1})
    assert world.run(PlanChangeOperator)["change_id"] == ID
    assert "published already" not in world.run(ApproveChangeOperator)["reason"]
    world.run(ApplyChangeOperator)
    assert len(world.submitted) == 1, "the job says that nothing tells"


def test_a_change_that_only_the_rewrites_name_is_completed_by_the_job_unless_it_is_verified(
    world: World,
) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(ID, *(f"other-{number}" for number in range(KEEP_IDS)), removed=result(ID))
    world.changes = replace(world.changes, rewrites=Rewrites().more(id_of_change(ID, "key")))
    assert "published already" in world.run(ApproveChangeOperator)["reason"]
    world.run(ApplyChangeOperator)
    assert len(world.submitted) == 1


@pytest.mark.parametrize("first", [ID, "c2"])
def test_one_that_is_not_named_any_more_goes_to_the_job_unasked(world: World, first: str) -> None:
    """It is published, or the job does not make it: a rejection would say that nothing was changed."""
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published(first)
    for number in range(KEEP_IDS):
        world.published(f"other-{number}", removed=result(ID))
    world.answer = world.run(ApproveChangeOperator)
    assert "9 changes came" in world.answer["reason"]
    world.run(ApplyChangeOperator)
    assert (world.asked, len(world.submitted)) == ([], 1)


def test_a_plan_while_the_quarantine_is_behind_says_how_to_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_plans, "PlannedStream", lambda *given: None)
    step, _ = world.do(PlanChangeOperator)
    step.spec.quarantine_table = "raw.nyc_taxi_quarantine"
    step.platform_hook.lake.position = lambda table: SimpleNamespace(rejected=3)
    step.platform_hook.lake.rejected_held = lambda table: 0
    context = given(run_id="r", params={})
    with pytest.raises(TaskDeferred):
        step.execute(context)
    with raising(Unreachable, "SLU-200", "nyc_taxi_stream, action start", "clear this task"):
        step.resume(context, {"outcome": "timed out", "reason": "behind"})


def test_a_plan_whose_change_is_not_published_goes_on(world: World) -> None:
    world.plan(Action.REVERT, reverts=("a" * 16,))
    world.published("c2")
    assert world.run(PlanChangeOperator)["change_id"] == ID


def test_a_change_that_is_not_published_fails_its_verification_without_retries(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plan(Action.REVERT)
    monkeypatch.setattr(change_files, "snapshot_of", lambda table, change: None)
    step, context = world.do(VerifyChangeOperator)
    step.platform_hook.lake.table = lambda name: None
    with raising(AirflowFailException, "SLU-421", ID, "is not published", "clear apply_change"):
        step.execute(context)


def test_the_answer_is_waited_for_as_long_as_it_says() -> None:
    step = ApproveChangeOperator(task_id="approve_change", stream="nyc_taxi")
    assert step.response_timeout == change_approval.RESPONSE_TIMEOUT
    assert isinstance(step, ApprovalOperator)
    assert step.APPROVE == APPROVED_ANSWER


def test_the_form_names_each_action_that_a_person_approves() -> None:
    few = {"counted": {"rows_out": 1, "records_in": 1}, "params": {"ask_above": 1_000_000}}
    asked = [action for action in Action if needs_approval({"action": action, **few})]
    text = str(forms.change()["ask_above"].description)
    assert asked
    assert all(action in text for action in asked)
