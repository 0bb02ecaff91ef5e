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
from sluice.config.reading.toml import ConfigError
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
            "AIRFLOW__CORE__FERNET_KEY": "",
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

    def left(self) -> set[str]:
        """The tables that are no tables of Airflow."""
        like = "name like '\\_airflow\\_deleted%' escape '\\' or name = '_xcom_archive'"
        return {name for (name,) in self.rows(f"select name from sqlite_master where {like}")}

    def record(self) -> database.Cleaning:
        ((text, is_encrypted),) = self.rows(
            "select val, is_encrypted from variable where key = ?", database.RECORD
        )
        assert not is_encrypted
        return database.Cleaning.read(text)

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
    assert not airflow.left()
    assert airflow.record().failed == 0


def test_what_an_interrupted_cleaning_left_goes_with_the_next(airflow: Airflow) -> None:
    """It holds the rows of a transaction, and no one deletes it: every kill would leave one."""
    kept = {
        # Perhaps of one that runs; of a person's own; of a migration of Airflow's.
        f"_airflow_deleted__log__{datetime.now(UTC):%Y%m%d%H%M%S}__b1",
        "_airflow_deleted__log__20200101000000",
        "_xcom_archive",
    }
    for name in ("_airflow_deleted__dag_run__20200101000000__b17", *kept):
        airflow.rows(f"create table {name} (id int)")
    done = airflow.run("clean", "--once")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert airflow.left() == kept
    for name in kept:
        airflow.rows(f"drop table {name}")


def test_a_cleaning_that_fails_is_counted_until_one_succeeds(airflow: Airflow) -> None:
    airflow.insert("asset_event", timestamp="2020-01-01 00:00:00")
    refuse = "begin select raise(abort, 'locked'); end"
    airflow.rows(f"create trigger refuses before delete on asset_event {refuse}")
    airflow.rows("delete from variable where key = ?", database.RECORD)
    for number in (1, 2):
        done = airflow.run("clean", "--once")
        assert (done.returncode, "failed with exit code 1: see above" in done.stderr) == (1, True)
        assert airflow.record() == database.Cleaning(failed=number)
    airflow.rows("drop trigger refuses")
    assert airflow.run("clean", "--once").returncode == 0
    assert airflow.record().failed == 0


@pytest.mark.parametrize(
    ("last", "days", "expected"),
    [
        (None, 30, 30),
        ("2026-10-28", 30, 30),
        # Two weeks off, or a shorter horizon; a clock a month ahead deletes a week more, and none after it.
        ("2026-10-15", 30, 37),
        ("2026-10-28", 10, 24),
        ("2026-12-01", 30, 30),
    ],
)
def test_a_cleaning_deletes_no_more_than_a_week_more_than_the_last(
    last: str | None, days: int, expected: int
) -> None:
    now = datetime(2026, 11, 28, tzinfo=UTC)
    before = database.horizon(
        {database.DAYS_VARIABLE: str(days)}, now, database.Cleaning(before=last and f"{last}T00:00:00+00:00")
    )
    assert (now - datetime.fromisoformat(before)).days == expected


@pytest.mark.parametrize("text", ["", "{}x", "[]", '{"more": 1}', '{"before": "soon"}'])
def test_a_record_that_a_person_changed_is_named(text: str) -> None:
    with raising(ConfigError, database.RECORD, repr(text), "delete it"):
        database.Cleaning.read(text)


def test_a_cleaning_that_fails_says_so(airflow: Airflow) -> None:
    done = airflow.run("clean", "--once", SLUICE_AIRFLOW_HISTORY_DAYS="1")
    assert (done.returncode, "SLU-101 SLUICE_AIRFLOW_HISTORY_DAYS is '1'" in done.stderr) == (1, True)
    nowhere = f"sqlite:///{airflow.file.parent}/none/a.db"
    done = airflow.run("clean", "--once", AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=nowhere)
    assert (done.returncode, "database failed with exit code 1" in done.stderr) == (1, True)


def test_it_waits_before_the_first_cleaning_and_ends_with_one_that_fails() -> None:
    slept, runs = list[float](), list[int]()

    def once() -> None:
        runs.append(len(slept))
        if len(runs) == 3:
            raise subprocess.CalledProcessError(1, "airflow")

    with raising(subprocess.CalledProcessError, "airflow"):
        database.clean_daily(once, slept.append)
    assert (slept, runs) == ([900, 86400, 86400], [1, 2, 3])
