"""Airflow's own commands on a database of its own: it gets the pool, and keeps what is young."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow import database
from sluice.config import work_pool
from tests.support.raising import raising


class Airflow:
    """A database of Airflow in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "airflow.db"
        self.environ = {
            **os.environ,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.file}",
            work_pool.VARIABLE: "sluice_work:3",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }

    def run(
        self, *words: str, module: str = "sluice.airflow.database", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *words],
            env=self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def rows(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def insert(self, table: str, **values: Any) -> None:
        """A row with these values, and 0 in each other column that needs one."""
        columns = self.rows(f"pragma table_info({table})")
        needed = {name: 0 for _, name, _, not_null, _, key in columns if not_null and not key}
        given = {name: value for name, value in needed.items() if name != "id"} | values
        names, places = ", ".join(given), ", ".join("?" * len(given))
        self.rows(f"insert into {table} ({names}) values ({places})", *given.values())


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    made = Airflow(tmp_path_factory.mktemp("airflow"))
    done = made.run("db", "migrate", module="airflow")
    assert done.returncode == 0, done.stderr[-2000:]
    return made


def test_a_scheduler_makes_the_pool_at_each_start(airflow: Airflow) -> None:
    """A person may have deleted it, and a restored database may lack it: its tasks would never run."""
    for slots in (3, 7):
        airflow.rows("delete from slot_pool where pool = 'sluice_work'")
        options = ("--skip-serve-logs", "--num-runs", "1")
        done = airflow.run("scheduler", *options, SLUICE_WORK_POOL=f"sluice_work:{slots}")
        assert done.returncode == 0, done.stderr[-2000:]
        pools = "select slots, include_deferred from slot_pool where pool = 'sluice_work'"
        assert airflow.rows(pools) == [(slots, 0)]
        # It also became the scheduler.
        (last,) = airflow.rows("select job_type, state from job order by id desc limit 1")
        assert last == ("SchedulerJob", "success")


def test_a_pool_that_cannot_be_read_ends_the_scheduler(airflow: Airflow) -> None:
    done = airflow.run("scheduler", SLUICE_WORK_POOL="sluice_work")
    assert (done.returncode, "SLU-101 SLUICE_WORK_POOL is 'sluice_work'" in done.stderr) == (1, True)


def test_what_is_old_is_deleted_and_what_is_young_or_a_dags_stays(airflow: Airflow) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    old, young = now - timedelta(days=31), now - timedelta(days=29)
    # A stack that stood still: its DAGs were parsed long ago.
    airflow.insert("dag", dag_id="x_load", last_parsed_time=str(old))
    for number, (at, kind) in enumerate([(old, "scheduled"), (old, "manual"), (young, "scheduled")], 1):
        run = {"dag_id": "x_load", "run_id": f"run {number}", "run_type": kind, "state": "success"}
        airflow.insert("dag_run", **run, run_after=str(at), start_date=str(at))
        airflow.insert("log", dttm=str(at), event=f"event {number}")
    done = airflow.run("clean", "--once")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert airflow.rows("select run_id from dag_run") == [("run 3",)]
    assert airflow.rows("select event from log where event like 'event %'") == [("event 3",)]
    assert airflow.rows("select dag_id from dag where dag_id = 'x_load'") == [("x_load",)]
    # Nothing is kept beside.
    assert not airflow.rows("select name from sqlite_master where name like '_airflow_deleted%'")


def test_a_cleaning_that_fails_says_so(airflow: Airflow) -> None:
    done = airflow.run("clean", "--once", SLUICE_AIRFLOW_HISTORY_DAYS="1")
    assert (done.returncode, "SLU-101 SLUICE_AIRFLOW_HISTORY_DAYS is '1'" in done.stderr) == (1, True)
    nowhere = f"sqlite:///{airflow.file.parent}/none/a.db"
    done = airflow.run("clean", "--once", AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=nowhere)
    assert (done.returncode, "airflow db clean failed with exit code" in done.stderr) == (1, True)


def test_it_waits_before_the_first_cleaning_and_ends_with_one_that_fails() -> None:
    slept, runs = list[float](), list[int]()

    def once() -> None:
        runs.append(len(slept))
        if len(runs) == 3:
            raise subprocess.CalledProcessError(1, "airflow")

    with raising(subprocess.CalledProcessError, "airflow"):
        database.clean_daily(once, slept.append)
    assert (slept, runs) == ([900, 86400, 86400], [1, 2, 3])
