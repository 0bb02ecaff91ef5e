"""Asset events of a load: with the partition key of its interval, if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.execution_time.task_runner import _serialize_outlet_events

from sluice.airflow.assets import loaded, loaded_interval
from sluice.airflow.operators.load.asset_event import EmitAssetEventOperator
from sluice.ledger.keys import run_key
from sluice.loads.known.verified import VerifiedSources
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger

GENERATED = {"source_id": "g", "kind": "generated", "parameters": {"start_time": "2026-11-21T12:00:00+02:00"}}


CHECKS = ("proof", "audit", "reconciliation")


def emitted(
    stream: str, plan: dict[str, Any], withheld: int = 0, passed: Sequence[str] = CHECKS, **assets: Any
) -> list[dict[str, Any]]:
    """The events as the task sends them to Airflow; all of the load's rows are ``withheld``, if any.
    ``passed``: the checks' documents, with a proof's."""
    made = ledger(stream)
    made.put(run_key("r", "plan"), plan)
    counts = {"published": not withheld, "withheld": withheld}
    proof = {**counts, "status": "passed", "snapshot_id": 1, "at": "2026-01-01"}
    about = {"table_uuid": "u", "ranges": {"0": [[0, 5]]}}
    for name in passed:
        made.put(run_key("r", name), {**proof, **about, "sources": [], "verified_before": {"count": 0}})
    task = EmitAssetEventOperator(task_id="emit_asset_event", stream=stream, **assets)
    position = SimpleNamespace(starts={0: 0}, ends={0: 5}, topic_id=None)
    lake = SimpleNamespace(position=lambda name: position, table_uuid=lambda name: "u")
    hook = SimpleNamespace(lake=lake)
    task.__dict__ |= {"ledger": made, "platform_hook": hook, "tables": NewTables()}
    events = OutletEventAccessors()
    task.execute(given(run_id="r", outlet_events=events))
    return list(_serialize_outlet_events(events))


def test_an_interval_has_an_event_of_its_own_and_the_loads_starts_the_others() -> None:
    plan = {"params": {}, "sources": [GENERATED]}
    every, interval = emitted(
        "isp_hits", plan, asset=loaded("isp_hits"), interval=loaded_interval("isp_hits")
    )
    # With a key it would start no DAG without a partitioned timetable.
    assert (every["dest_asset_key"]["name"], "partition_key" in every) == ("isp_hits", False)
    assert interval["dest_asset_key"]["name"] == "isp_hits.intervals"
    assert (interval["partition_key"], interval["extra"]["status"]) == ("2026-11-21T10:00:00", "passed")


@pytest.mark.parametrize(
    "plan",
    [
        {"params": {}, "sources": [{"source_id": "a", "key": "a.csv"}]},
        # A plan of an interval, with a file that another load has verified.
        {"params": {}, "sources": [], "files": [{"source_id": "a", "key": "a.csv"}]},
    ],
)
def test_what_a_change_took_out_since_is_not_announced(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({"b"}))
    assert emitted("nyc_taxi", plan, asset=loaded("nyc_taxi"))
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({"a", "b"}))
    with raising(AirflowFailException, "SLU-401", "a.csv", "took out", "action redo"):
        emitted("nyc_taxi", plan, asset=loaded("nyc_taxi"))


def test_a_load_of_files_has_one_event() -> None:
    (event,) = emitted("nyc_taxi", {"params": {}, "sources": []}, asset=loaded("nyc_taxi"))
    assert "partition_key" not in event


def test_a_load_whose_rows_are_all_withheld_is_announced_by_no_event() -> None:
    """Readers would look for rows that the table does not have."""
    with raising(AirflowSkipException, "5 rows", "withheld", "replace"):
        emitted("nyc_taxi", {"params": {}, "sources": []}, 5, asset=loaded("nyc_taxi"))


@pytest.mark.parametrize(
    ("lacks", "task"), [("proof", "validate"), ("audit", "audit"), ("reconciliation", "compare_sinks")]
)
def test_a_check_that_a_person_marked_as_success_has_no_result(lacks: str, task: str) -> None:
    passed = [name for name in CHECKS if name != lacks]
    with raising(AirflowFailException, f"runs/r/{lacks}.json", f"Fix: clear the {task} task"):
        emitted("isp_hits", {"params": {}, "sources": [GENERATED]}, passed=passed, asset=loaded("isp_hits"))


def test_a_stream_without_queries_has_no_sinks_to_compare() -> None:
    plan: dict[str, Any] = {"params": {}, "sources": []}
    assert emitted("nyc_taxi", plan, passed=("proof", "audit"), asset=loaded("nyc_taxi"))


def test_an_audit_of_an_earlier_proof_is_not_of_the_newest() -> None:
    """Validated again after the catalog was restored: the stream published other batches."""
    passed = ("proof", "audit", "proof-2", "reconciliation")
    with raising(AirflowFailException, "runs/r/audit-2.json", "Fix: clear the audit task"):
        emitted("nyc_taxi", {"params": {}, "sources": []}, passed=passed, asset=loaded("nyc_taxi"))


def test_an_interval_with_a_corrected_file_has_no_event_however_its_check_ended() -> None:
    plan = {"params": {"interval": "2026-06-01T00:00:00+00:00"}, "sources": [], "corrected": [{"key": "a"}]}
    with raising(AirflowFailException, "SLU-312", "1 corrected file(s)", "Fix: clear check_corrected_files"):
        emitted("nyc_taxi", plan, asset=loaded("nyc_taxi"), interval=loaded_interval("nyc_taxi"))
