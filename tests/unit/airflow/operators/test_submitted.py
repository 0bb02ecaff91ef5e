"""What "Rendered Templates" shows of a step: what it submitted, a job's arguments too; nothing per object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from sluice.airflow import connections, forms
from sluice.airflow.operators.load.produce import ProduceOperator
from sluice.airflow.operators.supervision.supervise import SuperviseOperator
from sluice.core.processes import java
from sluice.ledger.keys import run_key
from tests.support.loads import Loads, OneBatch
from tests.support.steps import NewTables, ValidateRows, given

REASON = "{{ 1 + 1 }} tries"


def rendered(task: Any, **params: Any) -> dict[str, Any]:
    """The fields as Airflow renders them before a leg of the task, and shows them."""
    with DAG("nyc_taxi_stream", schedule=None, params=forms.supervision(["consumer", "queries"])) as dag:
        dag.add_task(task)
    task.render_template_fields({"params": {"reason": None, **params}, "task": task})
    return _serialize_rendered_fields(task)


@pytest.mark.parametrize(
    ("component", "action", "reason"),
    [("all", "restart", REASON), ("consumer", "restart", REASON), ("queries", "check", "")],
)
def test_supervision_shows_the_action_that_it_takes_for_its_component(
    component: str, action: str, reason: str
) -> None:
    task = SuperviseOperator(task_id="consumer", stream="nyc_taxi", component="consumer")
    found = rendered(task, action="restart", component=component, reason=REASON)
    # A person's text is text, and no template.
    assert found == {
        "submitted": {
            "stream": "nyc_taxi", "component": "consumer", "action": action, "reason": reason,
        }
    }  # fmt: skip


def test_a_job_shows_its_arguments_and_configuration_after_it_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = OneBatch(tmp_path)
    # Their keys alone are longer than what is shown.
    for number in range(40):
        loads.upload(f"{number:03}" + 30 * "x")
    monkeypatch.setattr(connections, "get", lambda name: None)
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda _, context: loads._send(context, []))
    task = ProduceOperator(task_id="produce", stream="nyc_taxi")
    task.__dict__ |= {"tables": NewTables(), "platform_hook": loads, "ledger": loads.ledger}
    task.execute(given(run_id="r", params={"source_prefix": "nyc_taxi/"}))
    found = _serialize_rendered_fields(task)
    plan = loads.ledger.uri(run_key("r", "plan"))
    assert found["application_args"] == ["producer", "nyc_taxi", "--plan", plan]
    assert found["conf"] == java.PLANNING
    assert found["submitted"] == {"stream": "nyc_taxi", "job": "producer", "plan": plan}
    assert task.overwrite_rtif_after_execution
    assert len(json.dumps(found)) < 1000


def test_a_verification_shows_the_plan_that_it_verifies(tmp_path: Path) -> None:
    loads = Loads(tmp_path)
    loads.upload("a")
    loads.produce("r")
    task = ValidateRows(task_id="validate", stream="nyc_taxi")
    task.__dict__ |= {"tables": NewTables(), "platform_hook": loads, "ledger": loads.ledger}
    task.work(given(run_id="r", params={}))
    assert _serialize_rendered_fields(task)["submitted"] == {
        "stream": "nyc_taxi", "plan": loads.ledger.uri(run_key("r", "plan")),
    }  # fmt: skip
    assert task.overwrite_rtif_after_execution
