"""Changes through Airflow beside the running stream: a replay, a revert that a person approves, its redo; and
the reconciliation that sees each of them, and a data file that is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from local.runtime.roles import WAREHOUSE
from local.stack.stack import wait_until
from tests.integration.rig import SPEC, Rig
from tests.support import airflow_calls

CHANGE, RECONCILIATION = f"{SPEC.name}_change", f"{SPEC.name}_reconciliation"
STEPS = ["plan_change", "approve_change", "apply_change", "verify_change"]
ROWS = 300
SECONDS = 600


@pytest.fixture
def changing(rig: Rig) -> Iterator[Rig]:
    for dag in (CHANGE, RECONCILIATION):
        rig.airflow.wait_for_dag(dag)
        rig.airflow.unpause(dag)
    yield rig
    for dag in (CHANGE, RECONCILIATION):
        rig.airflow.pause(dag)
    # A replaced version's offsets stay out, and the stack's other tests want every offset of the topic.
    rig.reset()


def test_rows_are_replayed_reverted_and_redone_beside_the_stream(changing: Rig) -> None:
    rig = changing
    rig.reset()
    goes = rig.load(objects=[rig.put("change-2-goes.csv", rig.slice(ROWS, ROWS))])
    (gone,) = goes.sources
    rig.send({partition: rig.trips(30) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    process, before = rig.process()["pid"], sorted(rig.record_offsets())
    stays = len(before) - ROWS
    assert stays == 30 * SPEC.topic.partitions

    replayed = changed(rig, action="replay", ranges="0=[2,20) 3=[0,5)")
    assert (replayed["published"], replayed["rows_out"]) == (23, 23)
    assert sorted(rig.record_offsets()) == before

    run = rig.airflow.trigger(CHANGE, {"action": "revert", "load": goes.run_id})
    approve(rig, run, f"revert: change {ROWS} rows of {SPEC.table}?")
    reverted = finished(rig, run)
    assert (reverted["rows_out"], reverted["published"]) == (ROWS, 0)
    assert (len(rig.record_offsets()), rig.rows_of(gone)) == (stays, [])

    redone = changed(rig, action="redo", load=goes.run_id)
    assert (redone["rows_out"], redone["published"]) == (0, ROWS)
    assert sorted(rig.record_offsets()) == before
    # The same process acquired its lease again after each of them, and what comes now is loaded.
    rig.send({partition: rig.trips(30) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    assert rig.process()["pid"] == process
    rig.assert_exact()
    assert findings(rig) == {}


@pytest.mark.exhaustive
def test_a_corrected_file_replaces_the_older_one_and_a_data_file_that_is_gone_is_found(changing: Rig) -> None:
    rig = changing
    rig.reset()
    (gone,) = rig.load(objects=[rig.put("change-2-goes.csv", rig.slice(ROWS, ROWS))]).sources
    replace_by_a_corrected_file(rig, gone)
    file = a_file(rig)
    version = rig.stack.admin_s3().delete_object(Bucket=WAREHOUSE, Key=file)["VersionId"]
    found = findings(rig, full=True)
    assert "file-damaged" in found["check_files"]
    # It reads the files whose bounds do not tell their offsets; this may be one.
    assert set(found) <= {"check_files", "verify_table"}
    assert all("SLU-430" in log and file in log for log in found.values())
    # The delete marker goes, so the file is there again.
    rig.stack.admin_s3().delete_object(Bucket=WAREHOUSE, Key=file, VersionId=version)
    assert findings(rig, full=True) == {}


def replace_by_a_corrected_file(rig: Rig, old: str) -> None:
    """Its rows wait in quarantine, and come in the commit in which those of the older version go."""
    rows = ROWS + 50
    corrected = rig.load(objects=[rig.put("change-2-goes.csv", rig.slice(ROWS, rows))], withhold=True)
    (new,) = corrected.sources
    assert (rig.rows_of(old), rig.rows_of(new)) == (list(range(ROWS)), [])
    assert sorted(rig.quarantined(new)) == list(range(rows))
    run = rig.airflow.trigger(CHANGE, {"action": "replace", "object": "nyc_taxi/tests/change-2-goes.csv"})
    approve(rig, run, f"replace: change {rows} rows of {SPEC.table}?")
    replaced = finished(rig, run)
    assert (replaced["rows_out"], replaced["published"]) == (ROWS, rows)
    assert (rig.rows_of(old), rig.rows_of(new)) == ([], list(range(rows)))
    assert rig.quarantine() == []
    assert findings(rig) == {}


def changed(rig: Rig, **conf: Any) -> Any:
    """What a change without approval did."""
    return finished(rig, rig.airflow.trigger(CHANGE, conf))


def finished(rig: Rig, run_id: str) -> Any:
    state = rig.airflow.wait(CHANGE, run_id, SECONDS)
    tasks = {task["task_id"]: task["state"] for task in rig.airflow.tasks(CHANGE, run_id)}
    airflow_calls.print_failed(rig.airflow, CHANGE, run_id)
    assert (state, tasks) == ("success", dict.fromkeys(STEPS, "success"))
    return rig.airflow.returned(CHANGE, run_id, "verify_change")


def approve(rig: Rig, run_id: str, subject: str) -> None:
    """As a person does on the page of required actions, which shows the plan.

    Airflow loses an answer that comes within a second of the question, and the task asks again: no person is
    that fast, so here the answer is given as often as it is asked for.
    """
    path = f"/dags/{CHANGE}/dagRuns/{quote(run_id, safe='')}/taskInstances/approve_change/-1/hitlDetails"

    def is_approved() -> bool:
        states = {task["task_id"]: task["state"] for task in rig.airflow.tasks(CHANGE, run_id)}
        if states["approve_change"] == "awaiting_input":
            question = rig.airflow.request("GET", path)
            assert question["subject"] == subject
            if not question["response_received"]:
                answer = {"chosen_options": ["Approve"], "params_input": {}}
                rig.airflow.request("PATCH", path, json=answer)
        return states["approve_change"] == "success"

    wait_until("the approval", is_approved, SECONDS, 2)


def findings(rig: Rig, **conf: Any) -> dict[str, str]:
    """A run of the reconciliation: each failed step with its log."""
    run_id = rig.airflow.trigger(RECONCILIATION, conf)
    state = rig.airflow.wait(RECONCILIATION, run_id, SECONDS)
    failed = [
        task["task_id"] for task in rig.airflow.tasks(RECONCILIATION, run_id) if task["state"] != "success"
    ]
    assert state == ("failed" if failed else "success")
    return {task: "\n".join(rig.airflow.log(RECONCILIATION, run_id, task)) for task in failed}


def a_file(rig: Rig) -> str:
    """The key of a data file."""
    file, *_ = rig.named().inspect.files().column("file_path").to_pylist()
    return str(file).removeprefix(f"s3://{WAREHOUSE}/")
