"""Waiting for a stream: docs/dags.md has an example that is a DAG file, and it waits with our sensors."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from sluice.airflow import sensors
from sluice.airflow.triggers.expected_health import ExpectedHealthTrigger
from sluice.core.processes.status import ProcessState
from tests.support.steps import given
from tests.unit.airflow.operators.supervision.test_supervise import World
from tests.unit.airflow.triggers.test_published import Hook, fire, process, state
from tests.unit.docs.test_docs import DAGS, fenced, names, section, table

EXAMPLE = next(code for code in fenced(section(DAGS.read_text(), "Waiting for a stream")) if "DAG(" in code)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example's DAGs, as the DAG processor finds them."""
    from airflow.dag_processing.dagbag import DagBag

    folder = tmp_path_factory.mktemp("dags")
    (folder / "example.py").write_text(EXAMPLE)
    bag = DagBag(dag_folder=str(folder))
    assert not bag.import_errors
    return bag.dags


def waits(task: Any) -> Any:
    """The trigger that the task defers to."""
    with pytest.raises(TaskDeferred) as caught:
        task.execute(given(run_id="r", params={}))
    return caught.value.trigger


def test_the_scheduler_takes_them_for_sensors(example: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag_id, task_id in (("editors_report", "wait_for_queries"), ("rides_import", "wait_for_publish")):
        dag = DagSerialization.from_dict(DagSerialization.to_dict(example[dag_id]))
        task = dag.get_task(task_id)
        # Which of all operators sensors have alone.
        assert "ReadyToRescheduleDep" in {type(dep).__name__ for dep in task.deps}


def test_the_example_waits_until_its_records_are_published(example: Any) -> None:
    dag = example["rides_import"]
    sensor = dag.get_task("wait_for_publish")
    assert sensor.upstream_task_ids == {"send"}
    # As Airflow resolves the argument before it executes the task.
    sensor.offsets = dag.get_task("send").python_callable()
    trigger = waits(sensor)
    assert trigger.stream == "nyc_taxi"
    states = [state({0: 9, 1: 5}), state({0: 10, 1: 5})]
    event = fire(Hook(states, [process(ProcessState.RUNNING)]), expected=trigger.expected)
    assert sensor.resume(given(), event)["outcome"] == "reached"


def test_the_example_waits_until_the_queries_work(example: Any) -> None:
    sensor = example["editors_report"].get_task("wait_for_queries")
    assert sensor.downstream_task_ids == {"report"}
    trigger = waits(sensor)
    assert isinstance(trigger, ExpectedHealthTrigger)
    world = World(component="queries")
    assert sensor.resume(given(), world.fire(trigger).payload)["health"] in ("healthy", "idle")


def test_their_links_lead_to_their_stream(example: Any) -> None:
    from sluice.web.links import LINKS

    sensor = example["rides_import"].get_task("wait_for_publish")
    key: Any = SimpleNamespace(dag_id="rides_import", task_id="wait_for_publish", run_id="r", map_index=-1)
    own = [link for link in LINKS if type(sensor).__name__ in {kind.__name__ for kind in link.operators}]
    assert {link.name: link.get_link(sensor, ti_key=key) for link in own} == {
        "Stream": "sluice/streams/nyc_taxi",
        "Process log": "sluice/streams/nyc_taxi/log/consumer",
        # The stream keeps no documents of another DAG's run.
        "Plan": "sluice/streams/nyc_taxi",
        "Ledger": "sluice/streams/nyc_taxi",
    }


def test_the_table_names_every_sensor() -> None:
    imported = {
        name.name
        for node in ast.walk(ast.parse(EXAMPLE))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(sensors.__name__)
        for name in node.names
    }
    assert {names(row[0])[0] for row in table(DAGS.read_text(), "sensor")} == imported
