"""Whether a person is asked before a change."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator

from sluice.model.spec.ledger import run_key
from sluice.model.verification.change_plan import Action, ChangePlan
from sluice.operators.change import ApproveChangeOperator
from tests.support.steps import given, ledger

ID = "c1"


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
    monkeypatch: pytest.MonkeyPatch, action: Action, rows: int, limit: int, is_asked: bool
) -> None:
    asked = list[str]()
    monkeypatch.setattr(ApprovalOperator, "execute", lambda self, context: asked.append(self.subject))
    documents = ledger("nyc_taxi")
    plan = ChangePlan(ID, action, "nyc-avro-topic")
    counted = {"rows_out": 0, "records_in": rows}
    documents.put(run_key("r", "change"), {**plan.to_document(), "counted": counted})
    operator = ApproveChangeOperator(task_id="approve_change", stream="nyc_taxi")
    operator.__dict__ |= {"ledger": documents, "spec": SimpleNamespace(table="raw.nyc_taxi")}
    operator.execute(given(run_id="r", params={"ask_above": limit}))
    assert asked == ([f"{action}: change {rows} rows of raw.nyc_taxi?"] if is_asked else [])
