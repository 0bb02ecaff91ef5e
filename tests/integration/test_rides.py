"""A new CSV stream is a folder with two files: added to a stack that runs, loaded, and taken away.

The stack has the installed package, as in a user's own Airflow: nothing of this checkout is on its path.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from local.base import REPO
from local.runtime.processes import stack_processes
from local.stack.stack import Stack
from sluice.config import streams
from tests.support import rides

LOAD = "rides_load"
ROWS, MALFORMED = 100, 2
SECONDS = 600


def programs(stack: Stack) -> set[str]:
    return {str(info["name"]) for info in stack.daemon.proxy().getAllProcessInfo()}


def checkout_paths(stack: Stack) -> list[str]:
    """What of this checkout the stack's Python programs would import from; none but the replay server may."""
    return [
        f"{process.name()}: {place}"
        for process in stack_processes(stack.home.id)
        if "local.replay" not in process.cmdline()
        for place in (process.cwd(), *process.environ().get("PYTHONPATH", "").split(os.pathsep))
        if place and Path(place).is_relative_to(REPO)
    ]


def test_a_folder_with_two_files_is_a_stream(stack: Stack, stream_folder: Path) -> None:
    rides.make(stream_folder)
    stack.up()
    spec, airflow = streams.load(rides.NAME), stack.airflow()
    try:
        stack.admin_s3().put_object(Bucket="source", Key="rides/1.csv", Body=rides.csv(ROWS, MALFORMED))
        airflow.wait_for_dag(LOAD, SECONDS)
        airflow.unpause(LOAD)
        run = airflow.trigger(LOAD, {})
        state = airflow.wait(LOAD, run, SECONDS)
        tasks = {task["task_id"]: task["state"] for task in airflow.tasks(LOAD, run)}
        assert state == "success", tasks
        proof = airflow.returned(LOAD, run, "validate")
        assert proof["status"] == "passed"
        assert (proof["source_rows"], proof["published"]) == (ROWS, ROWS - MALFORMED)
        rows = stack.lake("reader").table(spec.table).scan().to_arrow().to_pylist()
        assert {row["ride_id"] for row in rows} == {f"r{number}" for number in range(ROWS - MALFORMED)}
        (first,) = [row for row in rows if row["ride_id"] == "r0"]
        assert (f"{first['started']:%Y-%m-%d %H:%M}", first["distance_km"]) == ("2026-02-01 08:30", 0.5)
        assert spec.program in programs(stack)
        assert checkout_paths(stack) == []
    finally:
        stack.daemon.proxy().stopProcess(spec.program)
        shutil.rmtree(spec.folder)
        stack.up()
    assert spec.program not in programs(stack)
    assert rides.NAME not in streams.names()
