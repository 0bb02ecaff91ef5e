"""Scheduling by data: docs/dags.md has an example that is a DAG file, and its assets are ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow import assets
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from tests.dags.conftest import REPO
from tests.unit.docs.test_docs import DAGS, fenced, names, section, table

EXAMPLE = next(code for code in fenced(section(DAGS.read_text(), "Scheduling by data")) if "DAG(" in code)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The example's DAGs, as the DAG processor stores and the scheduler reads them."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    folder = tmp_path_factory.mktemp("dags")
    (folder / "example.py").write_text(EXAMPLE)
    bag = DagBag(dag_folder=str(folder))
    assert not bag.import_errors
    return {
        dag_id: DagSerialization.from_dict(DagSerialization.to_dict(dag)) for dag_id, dag in bag.dags.items()
    }


def scheduling(dag: Any) -> list[Any]:
    return [asset for _, asset in dag.timetable.asset_condition.iter_assets()]


def test_the_example_is_scheduled_by_a_watched_asset(example: Any) -> None:
    (asset,) = scheduling(example["rides_dashboard"])
    assert asset.name == "nyc_taxi.published.300s"
    (watcher,) = asset.watchers
    assert watcher.trigger["classpath"] == "sluice.airflow.triggers.asset_event.PublishedEventTrigger"
    assert {"stream", "every"} < set(watcher.trigger["kwargs"])


def test_the_partitioned_example_takes_the_key_of_the_load(example: Any) -> None:
    from sluice.loads.announce import partition_key

    report = example["hits_report"]
    (asset,) = scheduling(report)
    assert (asset.name, asset.uri) == (
        assets.loaded_interval("isp_hits").name, assets.loaded_interval("isp_hits").uri,
    )  # fmt: skip
    key = partition_key({"params": {"start_time": "2026-11-21T10:00:00Z"}, "sources": []})
    mapper = report.timetable.get_partition_mapper(name=asset.name, uri=asset.uri)
    assert mapper.to_downstream(key) == key == "2026-11-21T10:00:00"


def test_loads_of_an_interval_emit_both_assets_and_others_one(bag: Any) -> None:
    emitted = {
        dag_id: [asset.name for asset in dag.get_task("emit_asset_event").outlets]
        for dag_id, dag in bag.dags.items()
        if "emit_asset_event" in dag.task_ids
    }
    assert emitted == {
        "isp_hits_load": ["isp_hits", "isp_hits.intervals"],
        "nyc_taxi_backfill": ["nyc_taxi", "nyc_taxi.intervals"],
        "nyc_taxi_load": ["nyc_taxi"],
        "wiki_changes_load": ["wiki_changes"],
    }


def test_the_table_of_assets() -> None:
    made = {
        function: getattr(assets, function)("nyc_taxi").name.replace("nyc_taxi", "<stream>")
        for function in ("loaded", "loaded_interval", "published")
    }
    rows = table(DAGS.read_text(), "asset", "function")
    assert {names(row[1])[0]: names(row[0])[0] for row in rows} == made


def test_the_assets_of_a_stream_are_told_apart() -> None:
    for name in streams.names():
        made = [assets.loaded(name), assets.loaded_interval(name), assets.published(name)]
        made += [assets.published(name, every_seconds=5)]
        assert len({asset.name for asset in made}) == len({asset.uri for asset in made}) == 4
        # The same each time: else one DAG's would remove the watcher of another's.
        (one,), (other,) = (assets.published(name).watchers for _ in range(2))
        assert (one.name, one.trigger.serialize()) == (other.name, other.trigger.serialize())


def test_a_wrong_name_and_a_wrong_rate_are_refused() -> None:
    with pytest.raises(ConfigError, match="other"):
        assets.published("other")
    with pytest.raises(ValueError, match="every_seconds is 0"):
        assets.published("nyc_taxi", every_seconds=0)


def test_a_dag_file_that_imports_it_imports_no_client() -> None:
    code = (
        "import sys, sluice.airflow.assets; sluice.airflow.assets.published('nyc_taxi'); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{REPO / 'plugins'}:{REPO}", "HOME": str(Path.home())},
    )
    heavy = {"pyiceberg", "boto3", "pyarrow", "pyspark", "confluent_kafka", "fastapi"}
    assert not heavy & set(done.stdout.split())
