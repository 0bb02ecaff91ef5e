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

from local.services.airflow import _LOCAL_SETTINGS
from sluice.airflow import database
from sluice.config import work_pool
from sluice.maintenance.airflow_cleaning import RECORD, STARTED, Cleaning
from tests.support.raising import raising

SLOTS = "select slots, include_deferred from slot_pool where pool = 'sluice_work'"


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
        return self.python("-m", module, *words, **environ)

    def python(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
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

    def variable(self, key: str) -> str | None:
        found = self.rows("select val from variable where key = ?", key)
        return found[0][0] if found else None

    def set(self, key: str, text: str, is_encrypted: bool = False) -> None:
        self.rows("delete from variable where key = ?", key)
        self.insert("variable", key=key, val=text, is_encrypted=is_encrypted)

    def record(self) -> Cleaning:
        return Cleaning.read(self.variable(RECORD) or "")

    def runs(self, *ages: float) -> None:
        """Replace all runs by manual ones that began so many days ago."""
        self.rows("delete from dag_run")
        for days in ages:
            run = {"dag_id": "x", "run_id": f"{days} days", "run_type": "manual", "state": "success"}
            self.insert("dag_run", **run, run_after=ago(days), start_date=ago(days))

    def kept(self) -> list[str]:
        return [name for (name,) in self.rows("select run_id from dag_run order by start_date")]

    def insert(self, table: str, **values: Any) -> None:
        """A row with these values, and 0 in each other column that needs one."""
        columns = self.rows(f"pragma table_info({table})")
        needed = {name: 0 for _, name, _, not_null, _, key in columns if not_null and not key}
        given = {name: value for name, value in needed.items() if name != "id"} | values
        names, places = ", ".join(given), ", ".join("?" * len(given))
        self.rows(f"insert into {table} ({names}) values ({places})", *given.values())


def ago(days: float) -> str:
    """As Airflow's database has it."""
    return str((datetime.now(UTC) - timedelta(days=days)).replace(tzinfo=None))


def days_since(time_: str | None) -> int:
    assert time_ is not None
    return round((datetime.now(UTC) - datetime.fromisoformat(time_)) / timedelta(days=1))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    made = Airflow(tmp_path_factory.mktemp("airflow"))
    done = made.run("db", "migrate", module="airflow")
    assert done.returncode == 0, done.stderr[-2000:]
    return made


def scheduler(airflow: Airflow, **environ: str) -> str:
    done = airflow.run("scheduler", "--skip-serve-logs", "--num-runs", "1", **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    # It also became the scheduler.
    (last,) = airflow.rows("select job_type, state from job order by id desc limit 1")
    assert last == ("SchedulerJob", "success")
    return done.stdout


def test_a_scheduler_makes_the_pool_at_each_start(airflow: Airflow, tmp_path: Path) -> None:
    """A person may have deleted it, and a restored database may lack it: its tasks would never run."""
    told = f"\nopen({str(tmp_path / 'told')!r}, 'a').write(str('SCHEDULER' in globals()))\n"
    (tmp_path / "airflow_local_settings.py").write_text(_LOCAL_SETTINGS + told)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    assert "pool sluice_work: 3 slots" in scheduler(airflow, PYTHONPATH=path)
    assert airflow.rows(SLOTS) == [(3, 0)]
    # Airflow is imported before it becomes the scheduler, and knows then that it will.
    assert (tmp_path / "told").read_text() == "True"
    airflow.rows("delete from slot_pool where pool = 'sluice_work'")
    scheduler(airflow)
    assert airflow.rows(SLOTS) == [(3, 0)]


def make_pool(airflow: Airflow, declared: str, before: str = "") -> None:
    code = f"from sluice.airflow.database import make_pool\n{before}\nmake_pool({declared!r})"
    done = airflow.python("-c", code)
    assert done.returncode == 0, done.stderr[-2000:]


def test_slots_that_a_person_set_stay_until_others_are_declared(airflow: Airflow) -> None:
    airflow.rows("delete from slot_pool where pool = 'sluice_work'")
    # As `airflow pools set` made it.
    airflow.insert("slot_pool", pool="sluice_work", slots=9, description="work", include_deferred=0)
    make_pool(airflow, "sluice_work:3")
    assert airflow.rows(SLOTS) == [(3, 0)]
    airflow.rows("update slot_pool set slots = 12, include_deferred = 1 where pool = 'sluice_work'")
    make_pool(airflow, "sluice_work:3")
    assert airflow.rows(SLOTS) == [(12, 1)]
    # Not the beginning of what was declared.
    make_pool(airflow, "sluice_work:31")
    assert airflow.rows(SLOTS) == [(31, 1)]
    make_pool(airflow, "sluice_work:3")
    assert airflow.rows(SLOTS) == [(3, 1)]


def test_another_scheduler_may_make_the_pool_at_the_same_time(airflow: Airflow) -> None:
    airflow.rows("delete from slot_pool where pool = 'sluice_work'")
    other = f"""
import sqlite3
from airflow.models.pool import Pool
from sqlalchemy import event

@event.listens_for(Pool, "before_insert")
def make(*_):
    with sqlite3.connect({str(airflow.file)!r}) as other:
        other.execute("insert into slot_pool (pool, slots, include_deferred) values ('sluice_work', 3, 0)")
"""
    make_pool(airflow, "sluice_work:3", other)
    assert airflow.rows(SLOTS) == [(3, 0)]


def test_a_cleaning_is_due_since_a_scheduler_runs_whatever_often_it_is_started(airflow: Airflow) -> None:
    """A start each day would else be younger for ever than what a person is told of."""

    def start(text: str | None, heartbeat: float) -> int:
        """Days since what is kept then; ``heartbeat``: days since the last scheduler's."""
        airflow.rows("delete from job")
        airflow.insert("job", job_type="SchedulerJob", latest_heartbeat=ago(heartbeat))
        airflow.insert("job", job_type="TriggererJob", latest_heartbeat=ago(0))
        airflow.rows("delete from variable where key = ?", STARTED)
        if text is not None:
            airflow.set(STARTED, text)
        code = "from datetime import *; from sluice.airflow.database import note_start"
        done = airflow.python("-c", f"{code}; note_start(datetime.now(UTC))")
        assert done.returncode == 0, done.stderr[-2000:]
        return days_since(airflow.variable(STARTED))

    long_ago = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    assert start(None, 0.9) == 0
    assert start(long_ago, 0.9) == 40
    assert start(long_ago, 1.1) == 0
    # A clock was ahead.
    assert start(long_ago, -9) == 0


def test_a_pool_that_cannot_be_read_ends_the_scheduler(airflow: Airflow) -> None:
    done = airflow.run("scheduler", SLUICE_WORK_POOL="sluice_work")
    assert (done.returncode, "SLU-101 SLUICE_WORK_POOL is 'sluice_work'" in done.stderr) == (1, True)


def test_what_is_old_is_deleted_and_what_is_young_or_a_dags_stays(airflow: Airflow) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    old, young = now - timedelta(days=31), now - timedelta(days=29)
    # A stack that stood still: its DAGs were parsed long ago.
    airflow.insert("dag", dag_id="x_load", last_parsed_time=str(old))
    airflow.runs()
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
    airflow.rows("delete from variable where key = ?", RECORD)
    airflow.runs(50)
    for number in (1, 2):
        done = airflow.run("clean", "--once")
        assert (done.returncode, "failed with exit code 1: see above" in done.stderr) == (1, True)
        found = airflow.record()
        assert (found.succeeded, found.failed) == (None, number)
        # It does not keep the other tables from being cleaned, step by step.
        assert days_since(found.before) == {1: 43, 2: 36}[number]
    airflow.rows("drop trigger refuses")
    assert airflow.run("clean", "--once").returncode == 0
    found = airflow.record()
    assert (found.failed, days_since(found.succeeded), days_since(found.before)) == (0, 0, 30)


def test_the_first_cleaning_deletes_no_more_than_a_week(airflow: Airflow) -> None:
    airflow.rows("delete from variable where key = ?", RECORD)
    airflow.runs(100, 94, 92, 40)
    assert airflow.run("clean", "--once").returncode == 0
    assert airflow.kept() == ["92 days", "40 days"]
    assert days_since(airflow.record().before) == 93
    # From the oldest that is left, and not by a step for each week without any.
    assert airflow.run("clean", "--once").returncode == 0
    assert airflow.kept() == ["40 days"]
    assert airflow.run("clean", "--once").returncode == 0
    assert (airflow.kept(), days_since(airflow.record().before)) == ([], 33)


def test_what_is_cleaned_is_kept_whatever_a_clock_says(airflow: Airflow) -> None:
    """Else one cleaning of a clock a year behind costs a year of weeks in which nothing is deleted."""
    before = (datetime.now(UTC) - timedelta(days=30)).isoformat(timespec="seconds")
    airflow.set(RECORD, Cleaning(None, before, 2).dump())
    airflow.runs(31, 20)
    assert airflow.run("clean", "--once", SLUICE_AIRFLOW_HISTORY_DAYS="400").returncode == 0
    found = airflow.record()
    assert (found.before, found.failed, airflow.kept()) == (before, 0, ["31 days", "20 days"])


def test_a_record_that_cannot_be_read_is_not_taken_for_none(airflow: Airflow) -> None:
    from cryptography.fernet import Fernet

    airflow.set(RECORD, Fernet(Fernet.generate_key()).encrypt(b"{}").decode(), is_encrypted=True)
    airflow.runs(40)
    done = airflow.run("clean", "--once", AIRFLOW__CORE__FERNET_KEY=Fernet.generate_key().decode())
    assert (done.returncode, f"{RECORD} cannot be decrypted" in done.stderr) == (1, True)
    assert airflow.kept() == ["40 days"]
    airflow.rows("delete from variable where key = ?", RECORD)


def test_tables_are_dropped_by_the_words_of_each_database() -> None:
    from sqlalchemy.dialects import mysql, postgresql

    found = [
        str(database.dropping("a table").compile(dialect=kind.dialect())).strip()
        for kind in (mysql, postgresql)
    ]
    assert found == ["DROP TABLE `a table`", 'DROP TABLE "a table"']


@pytest.mark.parametrize(
    ("since", "days", "expected"),
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
    since: str | None, days: int, expected: int
) -> None:
    now = datetime(2026, 11, 28, tzinfo=UTC)
    begin = datetime.fromisoformat(f"{since}T00:00:00+00:00") if since else None
    before = database.horizon({database.DAYS_VARIABLE: str(days)}, now, begin)
    assert (now - before).days == expected


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
