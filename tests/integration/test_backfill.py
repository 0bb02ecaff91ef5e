"""Months of files by Airflow's own backfill: killed amid it, run again, and each row is there once."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from local.runtime.processes import stack_processes
from local.services import airflow as services
from local.stack.stack import wait_until
from sluice.cli.airflow_api import DONE
from tests.integration.faults import LAUNCHER
from tests.integration.rig import Rig
from tests.support import airflow_calls
from tests.support.processes import process_tree, signal_all

DAG = "nyc_taxi_backfill"
ROWS = 150
SCHEDULER = "airflow-scheduler"
SECONDS = 900


@pytest.fixture
def unpaused(rig: Rig) -> Iterator[Rig]:
    rig.airflow.wait_for_dag(DAG)
    rig.airflow.unpause(DAG)
    yield rig
    rig.airflow.pause(DAG)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("year", "months", "is_disturbed"),
    [(2019, 1, False), pytest.param(2020, 2, True, marks=pytest.mark.exhaustive)],
)
def test_months_of_files_with_a_late_one_also_if_scheduler_and_worker_are_killed(
    unpaused: Rig, year: int, months: int, is_disturbed: bool
) -> None:
    """So many months of a year; there is no file of the one behind them at first."""
    rig = unpaused
    rig.ensure_stream()
    *full, empty = [f"{year}-{month:02}" for month in range(1, months + 2)]
    for number, month in enumerate(full):
        put(rig, f"{month}.csv", number)
    backfill(rig, full[0], empty, "--max-active-runs", "2")
    if is_disturbed:
        kill_scheduler_and_worker(rig)
    states = finish(rig, year, months + 1)
    assert states.pop(empty) == "failed"
    assert states == dict.fromkeys(full, "success")
    proofs = {month: proof(rig, month) for month in full}
    assert [found["status"] for found in proofs.values()] == ["passed"] * len(full)
    sources = {month: sources_of(rig, found) for month, found in proofs.items()}
    for month, (source,) in sources.items():
        assert source["object"].endswith(f"yellow_tripdata_{month}.csv"), month
        assert rig.rows_of(source["source_id"]) == list(range(ROWS)), month
    rig.wait_for_everything()
    rig.assert_exact()
    log = "\n".join(rig.airflow.log(DAG, run_ids(rig)[empty], "produce"))
    assert "SLU-311" in log
    assert f"yellow_tripdata_{empty}*.csv*" in log

    put(rig, f"{full[-1]}_late.csv", len(full))
    put(rig, f"{empty}.csv", len(full) + 1)
    before = sum(after for _, after in rig.bounds().values())
    backfill(
        rig, full[-1], empty, "--max-active-runs", "4", "--reprocess-behavior", "completed", "--run-backwards"
    )
    states = finish(rig, year, months + 1)
    assert states == dict.fromkeys([*full, empty], "success")
    late = proof(rig, full[-1])
    assert [source["object"].rsplit("_", 1)[1] for source in sources_of(rig, late)] == ["late.csv"]
    assert (late["published"], late["verified_before"]) == (ROWS, 1)
    assert sum(after for _, after in rig.bounds().values()) == before + 2 * ROWS
    rig.assert_exact()


def kill_scheduler_and_worker(rig: Rig) -> None:
    """The scheduler while the first interval's producer runs, and then the worker of another one."""
    first = producer_of(rig, set())
    scheduler = psutil.Process(int(rig.process(SCHEDULER)["pid"]))
    workers = scheduler.children()
    assert workers
    signal_all([scheduler], signal.SIGKILL)
    # Else they would keep its transaction open, with the locks in it: the next scheduler would start no task.
    assert psutil.wait_procs(workers, 20)[1] == []
    second = producer_of(rig, {first.pid})
    signal_all(process_tree(workers_of(second)[-1].pid), signal.SIGKILL)


def put(rig: Rig, name: str, number: int) -> None:
    text = "\n".join([rig.sample[0], *rig.slice(number * ROWS, ROWS)]) + "\n"
    key = f"nyc_taxi/yellow_tripdata_{name}"
    rig.stack.admin_s3().put_object(Bucket="source", Key=key, Body=text.encode())


def backfill(rig: Rig, first: str, last: str, *options: str) -> None:
    """As a person creates it, by Airflow's command."""
    context = rig.stack.context
    # Airflow allows one at a time, and its scheduler marks them as complete every 30 s.
    wait_until("the end of earlier backfills", lambda: not is_active(rig), 60, 1)
    dates = ["--from-date", f"{first}-01", "--to-date", f"{last}-01"]
    done = subprocess.run(
        [
            str(context.python_env / "bin" / "airflow"),
            "backfill",
            "create",
            "--dag-id",
            DAG,
            *dates,
            *options,
        ],
        env=services.environment(context),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def is_active(rig: Rig) -> bool:
    found = rig.airflow.request("GET", "/backfills", params={"dag_id": DAG})["backfills"]
    return any(one["completed_at"] is None for one in found)


def runs(rig: Rig) -> dict[str, dict[str, Any]]:
    """Month -> its run. The schedule's own run of the newest month is none of them."""
    found = rig.airflow.request("GET", f"/dags/{DAG}/dagRuns", params={"limit": 100})["dag_runs"]
    return {run["data_interval_start"][:7]: run for run in found if run["run_type"] == "backfill"}


def run_ids(rig: Rig) -> dict[str, str]:
    return {month: run["dag_run_id"] for month, run in runs(rig).items()}


def finish(rig: Rig, year: int, months: int) -> dict[str, str]:
    """Month -> state, when the runs of so many months of a year are done."""
    states: dict[str, str] = {}

    def done() -> bool:
        found = {month: run["state"] for month, run in runs(rig).items()}
        states.update({month: state for month, state in found.items() if month.startswith(str(year))})
        return len(states) == months and set(states.values()) <= DONE

    try:
        wait_until("the backfill's end", done, SECONDS, 1)
    finally:
        for month, run_id in run_ids(rig).items():
            tasks = [(t["task_id"], t["state"], t["try_number"]) for t in rig.airflow.tasks(DAG, run_id)]
            print(month, states.get(month), [one for one in tasks if one[1] != "success" or one[2] > 1])
    return states


def proof(rig: Rig, month: str) -> Any:
    return rig.airflow.returned(DAG, run_ids(rig)[month], "validate")


def sources_of(rig: Rig, short: Any) -> list[dict[str, Any]]:
    """The sources of a proof of which Airflow has the counts."""
    return list(airflow_calls.document(rig.stack, short["proof"])["sources"])


def producer_of(rig: Rig, known: set[int]) -> psutil.Process:
    """The Spark job of an interval, as soon as there is one that is not known and that a worker's task runs.

    Those of a killed scheduler's workers end a moment later.
    """
    found: list[psutil.Process] = []

    def there() -> bool:
        for process in stack_processes(rig.stack.home.id):
            try:
                command = process.cmdline()
                workers = workers_of(process)
                parent = workers[-1].parent() if workers else None
                if parent is None or "scheduler" not in parent.cmdline():
                    continue
            except psutil.NoSuchProcess:
                continue
            is_jvm = "org.apache.spark.deploy.SparkSubmit" in command and LAUNCHER not in command
            if is_jvm and process.pid not in known and any("backfill__" in word for word in command):
                found.append(process)
                return True
        return False

    wait_until("an interval's Spark job", there, 180, 0.1)
    return found[0]


def workers_of(job: psutil.Process) -> list[psutil.Process]:
    """The executor's worker whose task runs the job, and what runs that worker's task.

    By its title, not by the scheduler's pid: that is 0 while supervisord starts the scheduler again, as is
    the parent's of process 1.
    """
    return [one for one in job.parents() if "LocalExecutor: " in " ".join(one.cmdline())]
