"""docs/dags.md and docs/operating.md have every form and step of the DAGs."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config import streams
from sluice.config.stream import SourceType
from sluice.config.stream_columns import has_closed_dates
from tests.unit.docs.test_docs import DAGS, OPERATING, names, section, table

KINDS = {
    SourceType.CSV: "CSV",
    SourceType.FEED: "feed",
    SourceType.GENERATOR: "generated",
    SourceType.TOPIC: "topic",
}
each_stream = pytest.mark.parametrize("name", streams.names())


def dag_of(bag: Any, dag_id: str) -> tuple[dict[str, object], list[str]]:
    """(param -> default, the tasks' ids)."""
    dag = bag.dags[dag_id]
    return dag.params.dump(), [task.task_id for task in dag.tasks]


def written(value: object) -> str:
    """A param's default, as the tables write it."""
    return "empty" if value in ([], None) else str(value)


def applies(cell: str, name: str) -> bool:
    """Whether a row is for the stream ``name``: its cell names all streams, a kind of source, queries, or
    tables with closed dates."""
    spec = streams.load(name)
    kinds = {"all", KINDS[spec.source], *(["with queries"] if spec.queries else [])}
    kinds |= {"by date"} if has_closed_dates(spec) else set()
    assert cell in {"all", "with queries", "by date", *KINDS.values()}
    return cell in kinds


def documented_params(text: str, name: str) -> dict[str, str]:
    rows = table(text, "param", "default")
    return {
        names(row[0])[0]: row[1].strip("`").replace("<stream>", name)
        for row in rows
        if len(row) == 3 or applies(row[2], name)
    }


@each_stream
def test_the_form_and_the_steps_of_a_load(bag: Any, name: str) -> None:
    params, steps = dag_of(bag, f"{name}_load")
    text = section(DAGS.read_text(), "Load")
    rows = [row for row in table(text, "step", "streams", "what it does") if applies(row[1], name)]
    assert [step for row in rows for step in names(row[0])] == steps
    assert all(row[2] for row in rows)
    spec = streams.load(name)
    of_generator = set(spec.generator.schemas) if spec.generator else set()
    expected = {param: written(value) for param, value in params.items() if param not in of_generator}
    assert documented_params(text, name) == expected


def test_the_steps_of_a_backfill_that_differ(bag: Any) -> None:
    text = section(DAGS.read_text(), "Backfill")
    rows = table(text, "step", "differs from a load's", "fails if")
    load, own = dag_of(bag, "nyc_taxi_load")[1], dag_of(bag, "nyc_taxi_backfill")[1]
    more = [step for step in own if step not in load]
    assert [step for step in own if step in load] == load
    assert [step for row in rows for step in names(row[0])] == ["produce", *more]
    assert all(all(row) for row in rows)


@each_stream
def test_the_form_and_the_steps_of_supervision(bag: Any, name: str) -> None:
    params, steps = dag_of(bag, f"{name}_stream")
    text = section(DAGS.read_text(), "Supervision")
    rows = [row for row in table(text, "step", "streams", "what it does") if applies(row[1], name)]
    assert sorted(step for row in rows for step in names(row[0])) == sorted(steps)
    assert all(row[2] for row in rows)
    assert documented_params(text, name) == {param: written(value) for param, value in params.items()}


def test_the_form_and_the_steps_of_compaction(bag: Any) -> None:
    (suffix,) = [
        names(row[0])[0].removeprefix("<stream>")
        for row in table(DAGS.read_text(), "DAG", "runs", "what it does")
        if row[1].startswith("daily")
    ]
    text = section(DAGS.read_text(), "Maintenance")
    for name in streams.names():
        params, steps = dag_of(bag, f"{name}{suffix}")
        assert [step for row in table(text, "step", "what it does") for step in names(row[0])] == steps
        assert documented_params(text, name) == {param: written(value) for param, value in params.items()}


def test_every_dag_is_named(bag: Any) -> None:
    patterns = [names(row[0])[0] for row in table(DAGS.read_text(), "DAG", "runs", "what it does")]
    known = {pattern.replace("<stream>", name) for pattern in patterns for name in streams.names()}
    assert set(bag.dags) <= known


def test_the_form_of_a_load_of_generated_hits(bag: Any) -> None:
    form = section(DAGS.read_text(), "A load of generated hits")
    params = dag_of(bag, "isp_hits_load")[0]
    assert documented_params(form, "isp_hits") == {name: written(value) for name, value in params.items()}


def test_the_docs_say_when_each_step_fails(bag: Any) -> None:
    dags, steps = DAGS.read_text(), set[str]()
    for dag_id in ("nyc_taxi_load", "wiki_changes_load", "wiki_changes_maintenance", "isp_hits_load"):
        steps |= set(dag_of(bag, dag_id)[1])
    rows = table(section(dags, "Load"), "step", "streams", "what it does", "fails if")
    rows += table(section(dags, "Maintenance"), "step", "what it does", "fails if")
    assert {name for row in rows for name in names(row[0])} == steps
    assert all(all(row) for row in rows)
    text = OPERATING.read_text()
    steps = {step for name in streams.names() for step in dag_of(bag, f"{name}_stream")[1]}
    rows = table(section(text, "Tasks of supervision"), "task", "fails if", "fix")
    assert {name for row in rows for name in names(row[0])} == steps


@each_stream
def test_the_form_and_the_steps_of_reconciliation(bag: Any, name: str) -> None:
    params, steps = dag_of(bag, f"{name}_reconciliation")
    text = section(DAGS.read_text(), "Reconciliation")
    assert [names(row[0])[0] for row in table(text, "step", "what it does")] == steps
    assert documented_params(text, name) == {param: written(value) for param, value in params.items()}
