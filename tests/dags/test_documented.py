"""docs/dags.md and docs/operating.md have every form and step of the DAGs."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.model.spec import stream
from tests.unit.docs.test_docs import DAGS, OPERATING, names, section, slugs, table


def dag_of(bag: Any, dag_id: str) -> tuple[dict[str, object], list[str]]:
    """(param -> default, the tasks' ids)."""
    dag = bag.dags[dag_id]
    return dag.params.dump(), [task.task_id for task in dag.tasks]


def written(value: object) -> str:
    """A param's default, as the tables write it."""
    return "empty" if value in ([], None) else str(value)


@pytest.mark.parametrize(
    ("head", "dag_id"),
    [("A load from the UI", "nyc_taxi_load"), ("A stream that is supervised", "nyc_taxi_stream")],
)
def test_the_form_and_the_steps_of_a_dag(bag: Any, head: str, dag_id: str) -> None:
    params, steps = dag_of(bag, dag_id)
    text = section(DAGS.read_text(), head)
    said = {names(row[0])[0]: row[1].strip("`") for row in table(text, "param", "default")}
    assert said == {name: written(value) for name, value in params.items()}
    listed = [name for row in table(text, "step") for name in names(row[0])]
    assert sorted(listed) == sorted(steps)


WIKI = ("wiki_changes_load", "wiki_changes_stream", "wiki_changes_compact")


def test_the_forms_and_the_steps_of_the_wikipedia_stream(bag: Any) -> None:
    """Its steps are those of the taxi's DAG of the same kind, and those that are named."""
    text = section(DAGS.read_text(), "The Wikipedia stream")
    rows = {names(row[0])[0]: row[1] for row in table(text, "DAG", "steps")}
    assert list(rows) == list(WIKI)
    for dag_id, cell in rows.items():
        kind = dag_id.removeprefix("wiki_changes_")
        params, steps = dag_of(bag, dag_id)
        of_taxi = dag_of(bag, f"nyc_taxi_{kind}")[1] if "taxi" in cell else []
        assert sorted([*of_taxi, *names(cell)]) == sorted(steps), dag_id
        said = {
            name: value.strip(" `")
            for row in table(text, "param", "default", "of")
            if row[2] == kind
            for name, value in zip(names(row[0]), row[1].split(","), strict=True)
        }
        assert said == {name: written(value) for name, value in params.items()}, dag_id


def test_the_forms_and_the_steps_of_the_isp_stream(bag: Any) -> None:
    """Its steps are those of the taxi's DAG of the same kind, and those that are named."""
    rows = table(section(DAGS.read_text(), "The ISP stream"), "DAG", "steps")
    assert [names(row[0])[0] for row in rows] == ["isp_hits_load", "isp_hits_stream"]
    for dag, cell in ((names(row[0])[0], row[1]) for row in rows):
        of_taxi = dag_of(bag, dag.replace("isp_hits", "nyc_taxi"))[1]
        assert sorted([*of_taxi, *names(cell)]) == sorted(dag_of(bag, dag)[1]), dag
    form = section(OPERATING.read_text(), "A load of generated hits")
    said = {
        name: value.strip(" `")
        for row in table(form, "value", "default", "meaning")
        for name, value in zip(names(row[0]), row[1].split(","), strict=True)
    }
    params = dag_of(bag, "isp_hits_load")[0]
    assert said == {name: written(value) for name, value in params.items()}


def test_every_step_that_can_be_red_is_in_operating(bag: Any) -> None:
    text = OPERATING.read_text()
    for dag_id in ("nyc_taxi_load", "wiki_changes_load", "wiki_changes_compact", "isp_hits_load"):
        assert set(dag_of(bag, dag_id)[1]) <= slugs(OPERATING)
    steps = {step for name in stream.names() for step in dag_of(bag, f"{name}_stream")[1]}
    rows = table(section(text, "A red step of supervision"), "step", "why it is red")
    assert {name for row in rows for name in names(row[0])} == steps
