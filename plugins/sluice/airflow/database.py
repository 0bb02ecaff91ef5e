"""Airflow's own database, which no task may reach: the pool of tasks in it, and its cleaning once a day.

``python -m sluice.airflow.database scheduler`` makes the pool and becomes Airflow's scheduler; ``clean``
stays and deletes what is older than the horizon, once a day; ``clean --once`` does it now, and ``clean
--here`` in this process. What became of it is in Airflow's Variable RECORD, for who looks at connections.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from sluice.config import work_pool
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import with_code

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
FIRST, EVERY = timedelta(minutes=15), timedelta(days=1)
POOL = "Everything but supervision, for which a slot is left free"
RECORD = "sluice_airflow_cleaning"
# One may run just now, and one may have been interrupted.
FAILED = 3
# A clock that is a month ahead costs a week of history, and not all. What stood still for longer, or gets a
# shorter horizon, is cleaned in steps.
STEP = timedelta(days=7)
# What a cleaning that is interrupted leaves: the rows of a transaction, to be deleted.
_LEFT = re.compile(r"_airflow_deleted__\w+__(\d{14})__b\d+")


@dataclass(frozen=True)
class Cleaning:
    """What RECORD says of the cleanings."""

    succeeded: str | None = None
    """When the last one did, ISO 8601."""
    before: str | None = None
    """What was older than this was deleted then, ISO 8601."""
    failed: int = 0
    """How many began since and did not succeed."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ConfigError."""
        try:
            found = cls(**json.loads(text))
            for time_ in filter(None, (found.succeeded, found.before)):
                datetime.fromisoformat(time_)
            return found
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Airflow's Variable {RECORD} is {text!r}. Fix: delete it") from error

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def problem(self) -> str:
        """Why a person is to look at the cleanings' log; empty without a reason."""
        if self.failed < FAILED:
            return ""
        since = f"since that of {self.succeeded}" if self.succeeded else "and none succeeded yet"
        return (
            f"{self.failed} cleanings of it failed, {since}: it grows. Fix: see the log of airflow-cleanup "
            "(docs/operating.md, Airflow's database)"
        )


def scheduling(environ: Mapping[str, str], options: Sequence[str]) -> list[list[str]]:
    """Arguments of ``airflow``, for each command in turn; ``options``: the scheduler's. Raises ConfigError.

    The pool at each start: a person may have deleted it, and a restored database may lack it.
    """
    commands = []
    if text := environ.get(work_pool.VARIABLE):
        name, slots = work_pool.parse(text)
        commands.append(["pools", "set", name, str(slots), POOL])
    return [*commands, ["scheduler", *options]]


def horizon(environ: Mapping[str, str], now: datetime, last: Cleaning) -> str:
    """What is older is deleted: ISO 8601. Raises ConfigError."""
    before = now - timedelta(days=days(environ))
    if last.before:
        before = min(before, datetime.fromisoformat(last.before) + STEP)
    return before.isoformat(timespec="seconds")


def cleaning(before: str) -> list[str]:
    """Arguments of ``airflow``."""
    return [
        *("db", "clean", "--yes", "--clean-before-timestamp", before),
        *("--tables", ",".join(TABLES), "--skip-archive", "--batch-size", str(BATCH)),
        "--error-on-cleanup-failure",
    ]


def days(environ: Mapping[str, str]) -> int:
    """The horizon. Raises ConfigError."""
    text = environ.get(DAYS_VARIABLE) or str(DAYS)
    if not text.isascii() or not text.isdigit() or not FEWEST_DAYS <= int(text) <= 3650:
        raise ConfigError(f"{DAYS_VARIABLE} is {text!r}. Fix: set it to a number from {FEWEST_DAYS} to 3650")
    return int(text)


def run_airflow(commands: Sequence[Sequence[str]]) -> None:
    """In this process: each that imports Airflow takes seconds."""
    from airflow.__main__ import main as airflow

    for words in commands:
        sys.argv = ["airflow", *words]
        airflow()


def clean_here(environ: Mapping[str, str]) -> None:
    """Clean, and keep what became of it. Raises ConfigError, and what Airflow raises."""
    from airflow.models.variable import Variable

    now = datetime.now(UTC)
    text = Variable.get(RECORD, default_var=None)
    last = Cleaning.read(text) if text else Cleaning()
    before = horizon(environ, now, last)
    # Before anything can fail, or be interrupted.
    Variable.set(RECORD, Cleaning(last.succeeded, last.before, last.failed + 1).dump())
    drop_leftovers(now)
    run_airflow([cleaning(before)])
    Variable.set(RECORD, Cleaning(now.isoformat(timespec="seconds"), before).dump())


def drop_leftovers(now: datetime) -> None:
    """Drop what an interrupted cleaning left more than a day ago."""
    # Not `airflow db drop-archived`, which also drops what Airflow's own migrations left.
    from airflow.utils.session import create_session
    from sqlalchemy import inspect, text

    with create_session() as session:
        for name in inspect(session.get_bind()).get_table_names():
            found = _LEFT.fullmatch(name)
            if found and datetime.strptime(f"{found[1]}Z", "%Y%m%d%H%M%S%z") < now - EVERY:
                sys.stdout.write(f"dropped: {name}, which an interrupted cleaning left\n")
                session.execute(text(f'DROP TABLE "{name}"'))


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
                run_airflow(scheduling(environ, options))
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
