"""Lineage of a load as real OpenLineage events: by the provider's manager, adapter and file transport."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.state import TaskInstanceState
from openlineage.client import OpenLineageClient

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.load.lineage import MAX_PROBLEMS
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.lake import Lake as LakeSettings
from tests.support.lake import TABLE
from tests.support.loads import OneBatch
from tests.support.steps import NewTables, ValidateRows, given

AT = "2026-01-01T00:00:00+00:00"
KAFKA = Kafka("kafka.test:9092, other.test:9092", password="not to be told")
CATALOG = Catalog("sql", "postgresql://db.test/catalog", "user", "not to be told")
LAKE = LakeSettings("s3://w/lake", "s3://w/ledger", CATALOG)


class Lineage:
    """A load's validation, and what the provider makes of it."""

    def __init__(self, folder: Path, objects: int) -> None:
        self.folder, self.loads = folder, OneBatch(folder)
        vars(self.loads)["platform"] = SimpleNamespace(kafka=KAFKA, lake=LAKE)
        for number in range(objects):
            self.loads.upload(f"2026/{number:04}")
        self.loads.produce("r")
        with DAG("nyc_taxi_load", schedule=None):
            self.task = ValidateRows(task_id="validate", stream="nyc_taxi")
        self.task.__dict__ |= {
            "tables": NewTables(),
            "platform_hook": self.loads,
            "ledger": self.loads.ledger,
        }

    def validate(self) -> dict[str, Any]:
        with final_failures():
            return self.task.work(given(run_id="r", params={"max_quarantined_percent": 50}))

    def event(self, state: TaskInstanceState) -> dict[str, Any]:
        """The event as it is in the transport's file."""
        found = ExtractorManager().extract_metadata(
            SimpleNamespace(run_id="r"), self.task, state, SimpleNamespace(task_id="validate")
        )
        path = self.folder / f"{state}.jsonl"
        client = OpenLineageClient(
            config={"transport": {"type": "file", "log_file_path": str(path), "append": True}}
        )
        adapter = OpenLineageAdapter(client)
        run = "019b7a00-0000-7000-8000-000000000000"
        names: dict[str, Any] = dict.fromkeys(
            ["nominal_start_time", "nominal_end_time", "owners", "tags", "job_description"]
        )
        emit = adapter.fail_task if state is TaskInstanceState.FAILED else adapter.complete_task
        emit(run_id=run, job_name="nyc_taxi_load.validate", end_time=AT, task=found, **names)
        (line,) = path.read_text().splitlines()
        return json.loads(line)


def test_a_verified_load_in_an_event(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path, objects=3)
    lineage.validate()
    event = lineage.event(TaskInstanceState.SUCCESS)
    assert event["eventType"] == "COMPLETE"
    source, topic = event["inputs"]
    assert (source["namespace"], source["name"]) == ("s3://source", "nyc_taxi/2026")
    assert source["inputFacets"]["inputStatistics"]["fileCount"] == 3
    assert (topic["namespace"], topic["name"]) == ("kafka://kafka.test:9092", "nyc-avro-topic")
    assert topic["facets"]["sluice_offsetRanges"]["partitions"] == [
        {"partition": 0, "start": 0, "end": 9, "records": 9}
    ]
    (table,) = event["outputs"]
    location = lineage.loads.lake.table(TABLE).location()
    assert table["namespace"] + table["name"] == location
    assert table["facets"]["symlinks"]["identifiers"] == [
        {"namespace": "postgresql://db.test:5432/catalog", "name": TABLE, "type": "TABLE"}
    ]
    snapshot = lineage.loads.lake.table(TABLE).current_snapshot()
    assert snapshot is not None
    assert table["facets"]["version"]["datasetVersion"] == str(snapshot.snapshot_id)
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 9
    verification = event["run"]["facets"]["sluice_verification"]
    # What the specification requires of each facet.
    assert {verification.pop(name) != "" for name in ("_producer", "_schemaURL")} == {True}
    assert verification == {
        "status": "passed", "records": 9, "rows": 9, "published": 9, "quarantined": 0, "gaps": 0,
        "duplicates": 0, "proof": "s3://w/ledger/nyc_taxi/runs/r/proof.json", "problems": [],
    }  # fmt: skip
    assert "not to be told" not in json.dumps(event)


def test_of_a_load_that_is_not_verified_the_event_names_the_first_problems(tmp_path: Path) -> None:
    lineage = Lineage(tmp_path, objects=2 * MAX_PROBLEMS)
    # The objects have more rows than the load sent.
    lineage.loads.s3.any_version = True
    for name in list(lineage.loads.s3.objects):
        if name[0] == "source":
            lineage.loads.s3.objects[name] += b"\nmore"
    with pytest.raises(AirflowFailException):
        lineage.validate()
    event = lineage.event(TaskInstanceState.FAILED)
    verification = event["run"]["facets"]["sluice_verification"]
    assert (event["eventType"], verification["status"], verification["proof"]) == ("FAIL", "failed", "")
    assert len(verification["problems"]) == MAX_PROBLEMS
    assert "missing" in verification["problems"][0]
    assert [dataset["name"] for dataset in event["inputs"]] == ["nyc_taxi/2026", "nyc-avro-topic"]


def test_an_event_does_not_grow_with_the_number_of_objects(tmp_path: Path) -> None:
    sizes = []
    for objects in (2, 40):
        folder = tmp_path / str(objects)
        folder.mkdir()
        lineage = Lineage(folder, objects)
        lineage.validate()
        sizes.append(len(json.dumps(lineage.event(TaskInstanceState.SUCCESS))))
    assert sizes[1] - sizes[0] < 100


def test_of_a_load_whose_table_was_not_read_there_is_none(tmp_path: Path) -> None:
    event = Lineage(tmp_path, objects=1).event(TaskInstanceState.FAILED)
    assert (event["inputs"], event["outputs"]) == ([], [])
