"""What a file of many streams costs the DAG processor: what grows with streams is done once for each."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest

from sluice.airflow import params
from sluice.config import folders
from sluice.config import streams as config_streams
from tests.support import declarations
from tests.support.declarations import DagFile

STREAMS = 12


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    root, names = tmp_path / "streams", [f"s{number:02}" for number in range(STREAMS)]
    monkeypatch.setattr(folders, "STREAMS", root)
    for name in names:
        declarations.make(root, name)
    return names


def test_a_declaration_is_read_once_and_no_search_for_folders_is_made_for_each(
    many: list[str], dag_file: DagFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_streams, "SETTLED_SECONDS", -1.0)
    read: Counter[str] = Counter()
    parse, find, searches = config_streams.parse, folders.find, Counter[str]()

    def parsed(text: str, where: str, *rest: Any) -> Any:
        read[where] += 1
        return parse(text, where, *rest)

    def searched(*arguments: Any) -> Any:
        searches["find"] += 1
        return find(*arguments)

    monkeypatch.setattr(config_streams, "parse", parsed)
    monkeypatch.setattr(folders, "find", searched)
    assert set(dag_file()) == {dag for name in many for dag in declarations.ids(name)}
    assert (len(read), set(read.values())) == (STREAMS, {1})
    assert searches["find"] <= 2


def test_a_field_of_all_streams_forms_is_checked_once(
    many: list[str], dag_file: DagFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setattr(params, "_known", set())
    validate, checked = jsonschema.validate, Counter[str]()

    def counted(value: Any, schema: Any, *rest: Any, **named: Any) -> None:
        checked[str(schema)] += 1
        validate(value, schema, *rest, **named)

    monkeypatch.setattr(jsonschema, "validate", counted)
    made = dag_file()
    for dag in made.values():
        DagSerialization.to_dict(dag)
    fields = {str(dag.params.get_param(name).schema) for dag in made.values() for name in dag.params}
    # Airflow checks none of a DAG that it does not start by itself.
    assert set() < set(checked) <= fields
    assert set(checked.values()) == {1}


def test_a_task_has_no_copy_of_its_dags_form_and_its_run_has_the_form(bag: Any) -> None:
    """In 300 streams' serialized DAGs these were most of what there was."""
    from airflow.sdk.definitions.param import process_params

    dags = [dag for dag in bag.dags.values() if dag.dag_id.startswith(("nyc_taxi_", "wiki_changes_"))]
    assert sum(bool(dag.params) for dag in dags) > len(dags) / 2
    for dag in dags:
        given = {"reason": "a reason"} if "reason" in dag.params else {}
        for task in dag.tasks:
            assert not task.params
            # Another one's, which a run's values change.
            own = cast("Any", SimpleNamespace(params=copy.deepcopy(dag.params)))
            found = process_params(own, task, given, suppress_exception=False)
            assert found == {**dag.params.dump(), **given}
