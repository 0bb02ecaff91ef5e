"""The factory: a stream's DAGs follow from its folder, and a wrong folder harms no other stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.model.spec import stream
from tests.dags.conftest import DAGS
from tests.support import rides
from tests.support.raising import raising

Bag = Callable[[Path], Any]


@pytest.fixture
def bag_with(monkeypatch: pytest.MonkeyPatch) -> Bag:
    """The bag as a DAG processor with that folder of streams fills it."""

    def fill(root: Path) -> Any:
        from airflow.dag_processing.dagbag import DagBag

        monkeypatch.setenv(stream.VARIABLE, str(root))
        found = DagBag(dag_folder=str(DAGS / "streams.py"))
        assert not found.import_errors, found.import_errors
        return found

    return fill


def test_a_csv_stream_is_a_folder_with_two_files(bag_with: Bag, bag: Any, tmp_path: Path) -> None:
    root = rides.make(tmp_path)
    found = bag_with(root)
    kinds = ("load", "stream", "decision", "maintenance", "change", "reconciliation")
    own = {f"rides_{kind}" for kind in kinds}
    assert own <= set(found.dags)
    assert set(found.dags) - own == {dag_id for dag_id in bag.dags if not dag_id.startswith("drill_")}
    load, taxi = found.dags["rides_load"], found.dags["nyc_taxi_load"]
    assert [task.task_id for task in load.tasks] == [task.task_id for task in taxi.tasks]
    assert load.params.dump() == {**taxi.params.dump(), "source_prefix": "rides/"}
    assert "`raw.rides`" in load.doc_md
    assert [asset.uri for asset in load.get_task("emit_asset_event").outlets] == ["sluice://lake/raw/rides"]
    spec = stream.load("rides")
    assert spec.folder == root / "rides"
    assert spec.schema_file.is_file()


@pytest.mark.parametrize("toml", ["name = ", rides.TOML.replace("partitions = 2", "partitions = 0")])
def test_a_wrong_stream_is_red_in_its_own_supervision_alone(
    toml: str, bag_with: Bag, bag: Any, tmp_path: Path
) -> None:
    root = rides.make(tmp_path)
    (root / "rides" / "stream.toml").write_text(toml)
    found = bag_with(root)
    assert set(found.dags) - set(bag.dags) == {"rides_stream", "rides_decision"}
    assert {f"{name}_load" for name in stream.names()} - set(found.dags) == {"rides_load"}


def test_a_folder_of_streams_that_cannot_be_right_is_named(tmp_path: Path) -> None:
    with raising(stream.ConfigError, stream.VARIABLE, tmp_path / "none"):
        stream.names({stream.VARIABLE: str(tmp_path / "none")})
    rides.make(tmp_path / "a")
    rides.make(tmp_path / "b")
    with raising(stream.ConfigError, "'rides'", tmp_path / "a", tmp_path / "b"):
        stream.names({stream.VARIABLE: f"{tmp_path / 'a'}:{tmp_path / 'b'}"})
