"""What 0.1.0 stored is continued: its checkout writes a stack's data, and today's code goes on from there."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.base import REPO, cache
from local.demo.taxi import SAMPLE
from local.stack.stack import Stack
from sluice.cli.airflow_api import Airflow
from tests.integration.rig import SPEC
from tests.support import airflow_calls, stacks
from tests.support.topic_offsets import compare_with_topic

TAG = "v0.1.0"
LOAD, CHANGE = f"{SPEC.name}_load", f"{SPEC.name}_change"
RECONCILIATION, MAINTENANCE = f"{SPEC.name}_reconciliation", f"{SPEC.name}_maintenance"
DEMO_ROWS, ROWS = 29_999, 200
SECONDS = 600

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(2400)]


class Release:
    """The tag's files in a folder, and its own command on a stack's folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        done = subprocess.run(["git", "archive", TAG], cwd=REPO, capture_output=True)
        assert done.returncode == 0, f"{done.stderr.decode()} Fix: git fetch --tags"
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
            files.extractall(folder, filter="data")

    def run(self, *command: str) -> str:
        environment = {**os.environ, "SLUICE_HOME": str(self.home), "SLUICE_CACHE": str(cache())}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [str(self.folder / "local" / "run"), *command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack whose data the release wrote (a load, a change, a reconciliation), run by today's code."""
    home = tmp_path / "stack"
    monkeypatch.delenv("SLUICE_STREAMS", raising=False)
    release = Release(tmp_path / "release", home)
    release.run("up", "--free-ports")
    stack = Stack(home)
    try:
        release.run("demo")
        release.run("change", SPEC.name, "-p", "action=replay", "-p", "ranges=0=[0,20)", "--unpause")
        assert ended_well(stack.airflow(), RECONCILIATION) == {}
    finally:
        release.run("down")
    with stacks.running(stack):
        for dag in (LOAD, CHANGE, RECONCILIATION, MAINTENANCE):
            stack.airflow().wait_for_dag(dag)
            stack.airflow().unpause(dag)
        yield stack


def ended_well(airflow: Airflow, dag: str, **conf: Any) -> dict[str, Any]:
    """Trigger a DAG, which must end well. Gives the proof of a load, else nothing."""
    airflow.wait_for_dag(dag)
    airflow.unpause(dag)
    run = airflow.trigger(dag, conf)
    state = airflow.wait(dag, run, SECONDS)
    airflow_calls.print_failed(airflow, dag, run)
    assert state == "success", f"{dag}: {run}"
    found: dict[str, Any] = airflow.returned(dag, run, "validate") if dag == LOAD else {}
    return found


def test_what_the_release_stored_is_verified_changed_and_continued(upgraded: Stack) -> None:
    stack, airflow = upgraded, upgraded.airflow()
    (demo,) = [run["dag_run_id"] for run in runs(airflow, LOAD)]
    airflow_calls.clear(airflow, LOAD, demo, ["validate"], downstream=True)
    assert airflow.wait(LOAD, demo, SECONDS) == "success", "its plan, offsets and proof are read"
    put(stack, "later.csv")
    proof = ended_well(airflow, LOAD)
    # The consumer went on from the release's table, offsets and checkpoint.
    assert (proof["status"], proof["published"], proof["verified_before"]) == ("passed", ROWS, 1)
    ended_well(airflow, CHANGE, action="replay", ranges="0=[10,40)")
    ended_well(airflow, RECONCILIATION)
    ended_well(airflow, MAINTENANCE)
    ended_well(airflow, RECONCILIATION, full=True)
    found = compare_with_topic(stack, SPEC)
    assert found.is_ok, found.message()
    assert found.records == DEMO_ROWS + ROWS


def runs(airflow: Airflow, dag: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.request("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
    return found


def put(stack: Stack, name: str) -> None:
    """Rows of the sample that are no second copy: of another object, so with another source id."""
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    body = "\n".join([lines[0], *lines[1 : ROWS + 1]]) + "\n"
    stack.admin_s3().put_object(Bucket="source", Key=f"{SPEC.name}/{name}", Body=body.encode())
