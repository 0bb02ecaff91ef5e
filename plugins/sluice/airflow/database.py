"""Airflow's own database, which no task may reach: the pool of tasks in it, and its cleaning once a day.

``python -m sluice.airflow.database scheduler`` makes the pool and becomes Airflow's scheduler; ``clean``
stays and deletes what is older than the horizon, once a day; ``clean --once`` does it now, and ``clean
--here`` in this process. For who looks at connections, Airflow's Variable RECORD has what became of it, and
STARTED since when it is to be cleaned.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sluice.config import work_pool
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import with_code
from sluice.maintenance.airflow_cleaning import EVERY, RECORD, STARTED, Cleaning, parse

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from sqlalchemy.schema import DropTable

DAYS_VARIABLE, DAYS = "SLUICE_AIRFLOW_HISTORY_DAYS", 30
# The pages show loads of a week; a change waits for its answer for a day, and a load for less.
FEWEST_DAYS = 8
# With what depends on them: tasks and their XComs with runs, for one. Not `dag`, which would go with all of
# its runs, and whether it is paused, after a stack stood still; nor triggers, which Airflow itself cleans.
TABLES = (
    "dag_run", "log", "job", "asset_event", "callback", "import_error", "dag_version", "revoked_token",
)  # fmt: skip
# Rows of one transaction.
BATCH = 5000
# Not while a stack starts.
FIRST = timedelta(minutes=15)
POOL = "Everything but supervision, for which a slot is left free"
# A clock that is a month ahead costs a week of history, and not all. What stood still for longer, or gets a
# shorter horizon, is cleaned in steps.
STEP = timedelta(days=7)
# What a cleaning that is interrupted leaves: the rows of a transaction, to be deleted.
_LEFT = re.compile(r"_airflow_deleted__\w+__(\d{14})__b\d+")


def become_scheduler(environ: Mapping[str, str], options: Sequence[str]) -> None:
    """``options``: of ``airflow scheduler``. Raises ConfigError, and what Airflow raises.

    The pool at each start: a person may have deleted it, and a restored database may lack it.
    """
    if text := environ.get(work_pool.VARIABLE):
        make_pool(text)
    note_start(datetime.now(UTC))
    run_airflow(["scheduler", *options])


def make_pool(declared: str) -> None:
    """Slots that a person set stay until others are ``declared``: the pool's description has these."""
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import IntegrityError

    name, slots = work_pool.parse(declared)
    mark = f"{work_pool.VARIABLE}={declared}"
    try:
        with create_session() as session:
            pool = session.scalar(select(Pool).where(Pool.pool == name))
            if pool is None:
                pool = Pool(pool=name, include_deferred=False)
                session.add(pool)
            elif mark in (pool.description or "").split():
                return
            pool.slots, pool.description = slots, f"{POOL}; declared by {mark}"
    except IntegrityError:
        sys.stdout.write(f"pool {name}: another scheduler has made it just now\n")
    else:
        sys.stdout.write(f"pool {name}: {slots} slots, as declared\n")


def note_start(now: datetime) -> None:
    """Keep since when a cleaning is due: not since the newest start, which may come oftener than a cleaning,
    but since no scheduler ran for EVERY."""
    from airflow.jobs.job import Job
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        is_known = session.scalar(select(Variable.id).where(Variable.key == STARTED)) is not None
        heartbeats = select(func.max(Job.latest_heartbeat)).where(Job.job_type == "SchedulerJob")
        last = session.scalar(heartbeats)
    if not is_known or last is None or abs(now - last) > EVERY:
        Variable.set(STARTED, now.isoformat(timespec="seconds"))


def horizon(environ: Mapping[str, str], now: datetime, since: datetime | None) -> datetime:
    """What is older is deleted. ``since``: from when on there are runs. Raises ConfigError."""
    before = now - timedelta(days=days(environ))
    return min(before, since + STEP) if since else before


def cleaning(before: datetime) -> list[str]:
    """Arguments of ``airflow``."""
    return [
        *("db", "clean", "--yes", "--clean-before-timestamp", before.isoformat(timespec="seconds")),
        *("--tables", ",".join(TABLES), "--skip-archive", "--batch-size", str(BATCH)),
        "--error-on-cleanup-failure",
    ]


def days(environ: Mapping[str, str]) -> int:
    """The horizon. Raises ConfigError."""
    text = environ.get(DAYS_VARIABLE) or str(DAYS)
    if not text.isascii() or not text.isdigit() or not FEWEST_DAYS <= int(text) <= 3650:
        raise ConfigError(f"{DAYS_VARIABLE} is {text!r}. Fix: set it to a number from {FEWEST_DAYS} to 3650")
    return int(text)


def run_airflow(words: Sequence[str]) -> None:
    """In this process: one that imports Airflow takes seconds. What it imports looks at the arguments of this
    process (``_LOCAL_SETTINGS`` of the stack): the first is ``scheduler`` in both, for a scheduler alone."""
    from airflow.__main__ import main as airflow

    sys.argv = ["airflow", *words]
    airflow()


def clean_here(environ: Mapping[str, str]) -> None:
    """Clean, and keep what became of it. Raises ConfigError, and what Airflow raises."""
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session

    now = datetime.now(UTC)
    with create_session() as session:
        text = _variable(session, RECORD)
        last = Cleaning() if text is None else Cleaning.read(text)
        cleaned = parse(last.before) if last.before else None
        before = horizon(environ, now, _oldest_run(session, cleaned) or cleaned)
    # Not backwards: neither a clock that is behind nor a longer horizon brings back what is deleted.
    done = max(before, cleaned or before).isoformat(timespec="seconds")
    # Before anything can fail, or be interrupted.
    Variable.set(RECORD, Cleaning(last.succeeded, last.before, last.failed + 1).dump())
    drop_leftovers(now)
    try:
        run_airflow(cleaning(before))
    except Exception:
        # A table that fails for good does not keep the others from being cleaned.
        Variable.set(RECORD, Cleaning(last.succeeded, done, last.failed + 1).dump())
        raise
    Variable.set(RECORD, Cleaning(now.isoformat(timespec="seconds"), done).dump())


def _variable(session: Session, key: str) -> str | None:
    """Its text, None without one. Airflow's own ``get`` takes for none a database that does not answer, too,
    and a text that it cannot decrypt. Raises ConfigError of the latter."""
    from airflow.models.variable import Variable
    from sqlalchemy import select

    found = session.scalar(select(Variable).where(Variable.key == key))
    if found is None:
        return None
    text = found.get_val()
    if text is None:
        raise ConfigError(f"Airflow's Variable {key} cannot be decrypted with its Fernet key. Fix: delete it")
    return str(text)


def _oldest_run(session: Session, cleaned: datetime | None) -> datetime | None:
    """When the oldest run began, of those that began since what is ``cleaned``: what is older is each DAG's
    last run, which stays."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import func, select

    first = select(func.min(DagRun.start_date))
    return session.scalar(first.where(DagRun.start_date >= cleaned) if cleaned else first)


def drop_leftovers(now: datetime) -> None:
    """Drop what an interrupted cleaning left more than a day ago."""
    # Not `airflow db drop-archived`, which also drops what Airflow's own migrations left.
    from airflow.utils.session import create_session
    from sqlalchemy import inspect

    with create_session() as session:
        for name in inspect(session.get_bind()).get_table_names():
            found = _LEFT.fullmatch(name)
            if found and datetime.strptime(f"{found[1]}Z", "%Y%m%d%H%M%S%z") < now - EVERY:
                sys.stdout.write(f"dropped: {name}, which an interrupted cleaning left\n")
                session.execute(dropping(name))


def dropping(table: str) -> DropTable:
    """The statement: each database has its own quotes."""
    from sqlalchemy import MetaData, Table
    from sqlalchemy.schema import DropTable

    return DropTable(Table(table, MetaData()))


def clean() -> None:
    """In a process of its own: what Airflow takes in memory is free until the next day. Raises
    CalledProcessError."""
    command = [sys.executable, "-m", "sluice.airflow.database", "clean", "--here"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def clean_daily(
    once: Callable[[], None], sleep: Callable[[float], None] = time.sleep, first: timedelta = FIRST
) -> None:
    """Until it fails: who keeps this process alive starts it again."""
    sleep(first.total_seconds())
    while True:
        once()
        sleep(EVERY.total_seconds())


def main(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    try:
        match list(arguments):
            case ["scheduler", *options]:
                become_scheduler(environ, options)
            case ["clean", "--here"]:
                clean_here(environ)
            case ["clean", *once] if once in ([], ["--once"]):
                # A mistake is to be seen at the start.
                days(environ)
                if once:
                    clean()
                else:
                    clean_daily(clean)
            case _:
                return _failed("the arguments are scheduler, clean, or clean --once")
    except ConfigError as error:
        return _failed(with_code(error.code, error))
    except subprocess.CalledProcessError as error:
        return _failed(f"cleaning Airflow's database failed with exit code {error.returncode}: see above")
    return 0


def _failed(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
