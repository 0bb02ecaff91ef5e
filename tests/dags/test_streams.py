"""The factory: a stream's DAGs follow from its folder, and a wrong folder harms no other stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import CronDataIntervalTimetable
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager

from sluice.config import folders
from sluice.config import streams as config_streams
from sluice.config.stream import StreamSpec
from tests.dags.conftest import DAGS
from tests.support import declarations, rides
from tests.support.declarations import OF_OTHERS as OTHERS
from tests.support.declarations import DagFile

Bag = Callable[[Path], Any]


@pytest.fixture
def bag_with(monkeypatch: pytest.MonkeyPatch) -> Bag:
    """The bag as a DAG processor with that folder of streams fills it."""

    def fill(root: Path) -> Any:
        from airflow.dag_processing.dagbag import DagBag

        monkeypatch.setenv(folders.VARIABLE, str(root))
        found = DagBag(dag_folder=str(DAGS / "streams.py"))
        assert not found.import_errors, found.import_errors
        return found

    return fill


def test_a_csv_stream_is_a_folder_with_two_files(bag_with: Bag, bag: Any, tmp_path: Path) -> None:
    root = rides.make(tmp_path)
    found = bag_with(root)
    kinds = ("load", "stream", "maintenance", "change", "reconciliation")
    own = {f"rides_{kind}" for kind in kinds}
    assert own <= set(found.dags)
    assert set(found.dags) - own == set(bag.dags) - {"drill", "sluice_connections"}
    load, taxi = found.dags["rides_load"], found.dags["nyc_taxi_load"]
    assert [task.task_id for task in load.tasks] == [task.task_id for task in taxi.tasks]
    assert load.params.dump() == {**taxi.params.dump(), "source_prefix": "rides/"}
    assert "`raw.rides`" in load.doc_md
    assert [asset.uri for asset in load.get_task("emit_asset_event").outlets] == ["sluice://lake/raw/rides"]
    spec = config_streams.load("rides")
    assert spec.folder == root / "rides"
    assert spec.schema_file.is_file()


BACKFILL = """
[backfill]
schedule = "@monthly"
pattern = "rides/%Y-%m*.csv*"
start_date = "2019-01-01"
max_active_runs = 2
"""


def test_a_stream_with_intervals_has_a_backfill_with_a_loads_steps(bag_with: Bag, tmp_path: Path) -> None:
    root = rides.make(tmp_path)
    (root / "rides" / "stream.toml").write_text(rides.TOML + BACKFILL)
    found = bag_with(root)
    assert {dag_id for dag_id in found.dags if dag_id.endswith("_backfill")} == {
        "nyc_taxi_backfill", "rides_backfill",
    }  # fmt: skip
    dag, load = found.dags["rides_backfill"], found.dags["rides_load"]
    steps, of_load = ([task.task_id for task in one.tasks] for one in (dag, load))
    assert steps == [*of_load[:-1], "check_corrected_files", of_load[-1]]
    for earlier, later in pairwise(steps):
        assert dag.get_task(earlier).downstream_task_ids == {later}
    assert (dag.catchup, dag.max_active_runs, dag.start_date) == (False, 2, datetime(2019, 1, 1, tzinfo=UTC))
    assert dag.allowed_run_types == {"scheduled", "backfill"}
    assert set(dag.params) == {"max_quarantined_percent", "publish_timeout_minutes"}
    assert dag.get_task("produce").max_active_tis_per_dag == 1
    assert "`rides/%Y-%m*.csv*`" in dag.doc_md


def test_an_interval_is_a_month_and_can_be_backfilled(bag: Any) -> None:
    """As the scheduler reads it: Airflow refuses a backfill of a timetable that is not periodic."""
    from airflow.serialization.serialized_objects import DagSerialization

    written = json.dumps(DagSerialization.to_dict(bag.dags["nyc_taxi_backfill"]))
    dag = DagSerialization.from_dict(json.loads(written))
    assert dag.timetable.periodic
    until = datetime(2020, 2, 1, tzinfo=UTC)
    found = dag.iter_dagrun_infos_between(datetime(2019, 12, 1, tzinfo=UTC), until)
    intervals = [one.data_interval for one in found if one.data_interval]
    assert [(f"{one.start:%Y-%m}", f"{one.end:%Y-%m}") for one in intervals] == [
        ("2019-12", "2020-01"), ("2020-01", "2020-02"), ("2020-02", "2020-03"),
    ]  # fmt: skip


INTERVALS = '[intervals]\nschedule = "@hourly"\nstart_date = "2026-06-01"\nmax_active_runs = 2\n'
OF_OTHERS = [
    "check_topic", "ensure_consumer", "plan", "wait_for_publish", "validate", "audit", "emit_asset_event",
]  # fmt: skip


@pytest.mark.parametrize("intervals", ["", INTERVALS], ids=["on request", "for intervals"])
def test_a_load_of_a_topic_of_others_provisions_and_produces_nothing(
    bag_with: Bag, tmp_path: Path, intervals: str
) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "stream.toml").write_text(OTHERS + intervals)
    (tmp_path / "orders" / "schema.ddl").write_text("id BIGINT\n")
    found = bag_with(tmp_path)
    kinds = ("load", "stream", "maintenance", "change", "reconciliation")
    assert {one for one in found.dags if one.startswith("orders")} == {f"orders_{kind}" for kind in kinds}
    load = found.dags["orders_load"]
    assert [task.task_id for task in load.tasks] == OF_OTHERS
    for earlier, later in pairwise(OF_OTHERS):
        assert load.get_task(earlier).downstream_task_ids == {later}
    assert set(load.params) == {"until_time", "max_quarantined_percent", "publish_timeout_minutes"}
    # The next load begins where this one ends, so it waits for it.
    assert (load.catchup, load.max_active_runs) == (False, 2 if intervals else 1)
    assert isinstance(load.timetable, CronDataIntervalTimetable) is bool(intervals)
    outlets = [asset.uri for asset in load.get_task("emit_asset_event").outlets]
    own = "sluice://lake/shop/orders"
    assert outlets == ([own, f"{own}/intervals"] if intervals else [own])


def test_before_a_task_runs_only_its_own_streams_declaration_is_read(
    dag_file: DagFile, streams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Airflow names in the environment, for the file of `all_dags` too."""
    read: list[str] = []
    load = config_streams.load

    def noted(name: str) -> StreamSpec:
        read.append(name)
        return load(name)

    monkeypatch.setattr(config_streams, "load", noted)
    for dag_id in sorted(declarations.ids("rides")):
        with _airflow_parsing_context_manager(dag_id=dag_id, task_id="any"):
            assert set(dag_file()) == declarations.ids("rides")
    assert set(read) == {"rides"}
    with _airflow_parsing_context_manager(dag_id="rides_unknown", task_id="any"):
        assert set(dag_file()) == declarations.HEALTHY
    declarations.make(streams, "rides", "name = 1")
    with _airflow_parsing_context_manager(dag_id="rides_stream", task_id="consumer"):
        assert set(dag_file()) == {"rides_stream"}
