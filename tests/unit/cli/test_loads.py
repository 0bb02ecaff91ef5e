"""`sluice load` and `sluice change`: what is triggered, how the run is shown, and how the command ends."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from sluice.cli import airflow_api, loads
from sluice.cli.airflow_api import Airflow
from sluice.cli.base import UsageError
from sluice.cli.installation import Installation
from sluice.cli.loads import Request, conf
from tests.support.raising import raising

FORM = {
    "objects": {"schema": {"type": ["array", "null"]}},
    "source_prefix": {"schema": {"type": "string"}},
    "limit": {"schema": {"type": "number"}},
    "withhold": {"schema": {"type": "boolean"}},
    "ranges": {"schema": {"type": ["string", "null"]}},
}
TASKS = [
    {"task_id": "produce", "state": "success", "try_number": 1},
    {"task_id": "validate", "state": "failed", "try_number": 2},
    {"task_id": "approve_change", "state": "awaiting_input", "try_number": 1},
]

PROOF = {
    "published": 1519, "quarantined": 22, "gaps": 0, "duplicates": 0, "proof": "s3://w/proof.json",
    "without_record": {"control": 2, "aborted": 3, "absent": 0, "evidence": "x", "deleted_since": 1},
}  # fmt: skip


class FakeAirflow(Airflow):
    """Answers with these states of the run, one after the other."""

    def __init__(self, *states: str, is_paused: bool = False) -> None:
        super().__init__("http://airflow", "u", "p")
        self.states, self.paused = list(states), is_paused
        self.triggered: list[Any] = []
        self.tasks_, self.proof = TASKS, PROOF

    def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "PATCH":
            self.paused = bool(options["json"]["is_paused"])
            return {}
        if method == "POST":
            self.triggered.append(options["json"]["conf"])
            return {"dag_run_id": "manual 1"}
        if path.endswith("/details"):
            return {"params": FORM}
        if path.endswith("/taskInstances"):
            return {"task_instances": self.tasks_}
        if "/logs/" in path:
            said = "SLU-401 2 rows \x1b[2J are missing"
            return {"content": [f"summary {said}", f"Error: {said}", "KeyError: the cause"]}
        if path.endswith("/xcomEntries/return_value"):
            return {"value": self.proof}
        if "/dagRuns/" in path:
            return {"state": self.states.pop(0) if len(self.states) > 1 else self.states[0]}
        return {"is_paused": self.paused}

    def is_running(self) -> bool:
        return True

    def airflow(self) -> Airflow:
        return self


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_api.time, "sleep", lambda seconds: None)


def run(airflow: FakeAirflow, *params: str, **changes: Any) -> int:
    values: dict[str, Any] = {"wait": True, "unpause": False, "timeout_minutes": None, "as_json": False}
    return loads.main(cast("Installation", airflow), Request("rides_load", params, **(values | changes)))


def test_a_run_that_succeeds_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    airflow = FakeAirflow("queued", "running", "success")
    assert run(airflow, "limit=7", "source_prefix=rides/") == 0
    assert airflow.triggered == [{"limit": 7, "source_prefix": "rides/"}]
    out = capsys.readouterr().out
    assert "http://airflow/dags/rides_load/runs/manual%201" in out
    assert "produce: success" in out
    assert out.count("approve_change waits for a person's answer") == 1


def test_a_run_that_fails_is_1_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAirflow("failed")) == 1
    out = capsys.readouterr().out
    assert r"task validate failed: Error: SLU-401 2 rows \x1b[2J are missing" in out
    assert "\x1b" not in out


def test_what_the_last_error_says_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAirflow("failed")) == 1
    out = capsys.readouterr().out
    assert (out.count("2 rows"), "KeyError: the cause" in out) == (1, True)


def test_the_figures_of_a_proof_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    airflow = FakeAirflow("success")
    airflow.tasks_ = [{**task, "state": "success"} for task in TASKS]
    assert run(airflow) == 0
    line = (
        "verified: 1,519 rows published, 22 quarantined, 0 gaps, 0 duplicates, 5 offsets without a record "
        "(s3://w/proof.json)"
    )
    assert line in capsys.readouterr().out.replace("\n", " ")
    assert run(airflow, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["proof"] == PROOF


def test_a_program_reads_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAirflow("failed"), as_json=True) == 1
    found = capsys.readouterr()
    document = json.loads(found.out)
    assert document["state"] == "failed"
    assert [task["task"] for task in document["tasks"]] == ["produce", "validate", "approve_change"]
    assert "2 rows" in document["failures"][0]
    assert "validate" in found.err


def test_it_does_not_wait_longer_than_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FakeAirflow("running"), timeout_minutes=0, as_json=True) == 3
    assert json.loads(capsys.readouterr().out)["state"] == "running"
    assert run(FakeAirflow("running"), wait=False, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "manual 1"


def test_a_run_of_a_paused_dag_is_not_left_unseen() -> None:
    airflow = FakeAirflow("success", is_paused=True)
    with raising(UsageError, "rides_load is paused", "--unpause"):
        run(airflow)
    assert airflow.triggered == []
    assert run(airflow, unpause=True) == 0
    assert not airflow.paused


def test_values_have_the_form_s_types() -> None:
    given = ['objects=["a.csv"]', "source_prefix=7", "limit=2.5", "withhold=true", "ranges=0=[1,2)"]
    assert conf("d", FORM, given) == {
        "objects": ["a.csv"],
        "source_prefix": "7",
        "limit": 2.5,
        "withhold": True,
        "ranges": "0=[1,2)",
    }
    assert conf("d", FORM, ["objects=a.csv", "ranges=null"]) == {"objects": ["a.csv"], "ranges": None}
    for text in ("limits=3", "limit"):
        with raising(UsageError, text.partition("=")[0], "source_prefix"):
            conf("d", FORM, [text])
