"""Links on tasks, as Airflow's API server makes them from a serialized DAG."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

RUN = "manual__2026-01-01T00:00:00+00:00"
QUOTED = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"


@pytest.fixture(scope="module")
def serialized(bag: Any) -> Any:
    """DAG by its id, read again from what the DAG processor stores."""
    from airflow import plugins_manager
    from airflow.serialization.serialized_objects import DagSerialization

    from sluice.web.links import LINKS

    patch = pytest.MonkeyPatch()
    # As from the plugin, which this process does not load.
    patch.setattr(plugins_manager, "get_operator_extra_links", lambda: list(LINKS))
    yield {
        dag_id: DagSerialization.from_dict(DagSerialization.to_dict(dag)) for dag_id, dag in bag.dags.items()
    }
    patch.undo()


def links(serialized: Any, dag_id: str, task_id: str) -> dict[str, str]:
    """Name -> address, below the path of Airflow's base URL."""
    task = serialized[dag_id].get_task(task_id)
    key = SimpleNamespace(dag_id=dag_id, task_id=task_id, run_id=RUN, map_index=-1)
    return {name: task.get_extra_links(SimpleNamespace(key=key), name) for name in task.extra_links}


def test_the_links_of_a_load(serialized: Any) -> None:
    page = "sluice/streams/wiki_changes"
    run = {"Stream": page, "Ledger": f"{page}/runs/{QUOTED}", "Plan": f"{page}/runs/{QUOTED}/plan"}
    assert links(serialized, "wiki_changes_load", "validate") == run | {"Proof": f"{run['Ledger']}/proof"}
    assert links(serialized, "wiki_changes_load", "produce") == run | {"Process log": f"{page}/log/producer"}
    waits = links(serialized, "wiki_changes_load", "wait_for_queries")
    assert waits == run | {"Process log": f"{page}/log/queries"}
    # A bounded job is no process of the stream's: its log is the task's.
    assert "Process log" not in links(serialized, "nyc_taxi_load", "produce")


def test_a_supervised_component_has_a_link_to_its_log_before_its_task_ends(serialized: Any) -> None:
    page = "sluice/streams/wiki_changes"
    for component in ("consumer", "producer", "queries"):
        assert links(serialized, "wiki_changes_stream", component) == {
            "Stream": page,
            "Process log": f"{page}/log/{component}",
        }


def test_a_change_and_a_compaction_have_plans_of_their_own_names(serialized: Any) -> None:
    change = links(serialized, "nyc_taxi_change", "verify_change")
    assert (change["Plan"].rsplit("/", 1)[1], change["Proof"].rsplit("/", 1)[1]) == ("change", "change-proof")
    assert links(serialized, "nyc_taxi_maintenance", "compact")["Plan"].endswith(f"{QUOTED}/compaction")


def test_every_task_of_a_stream_has_links(bag: Any, serialized: Any) -> None:
    without = [
        f"{dag_id}.{task.task_id}"
        for dag_id, dag in serialized.items()
        if dag_id not in ("drill", "sluice_connections")
        for task in dag.tasks
        if "Stream" not in links(serialized, dag_id, task.task_id)
    ]
    assert not without


def test_the_links_name_steps_that_exist() -> None:
    from airflow.sdk import BaseOperator

    from sluice.web.links import LINKS

    for link in LINKS:
        for named in link.operators:
            found = getattr(import_module(named.__module__), named.__name__)
            assert issubclass(found, BaseOperator), named
