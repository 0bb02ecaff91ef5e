"""Airflow's own database, which no task may reach: the pool of tasks in it, and its cleaning once a day.

``python -m sluice.airflow.database scheduler`` makes the pool and becomes Airflow's scheduler; ``clean``
stays and deletes what is older than the horizon, once a day; ``clean --once`` does it now.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

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


def scheduling(environ: Mapping[str, str], options: Sequence[str]) -> list[list[str]]:
    """Arguments of ``airflow``, for each command in turn; ``options``: the scheduler's. Raises ConfigError.

    The pool at each start: a person may have deleted it, and a restored database may lack it.
    """
    commands = []
    if text := environ.get(work_pool.VARIABLE):
        name, slots = work_pool.parse(text)
        commands.append(["pools", "set", name, str(slots), POOL])
    return [*commands, ["scheduler", *options]]


def cleaning(environ: Mapping[str, str], now: datetime) -> list[str]:
    """Arguments of ``airflow``. Raises ConfigError."""
    before = now - timedelta(days=days(environ))
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


def run_airflow(commands: Sequence[Sequence[str]]) -> None:
    """In this process: each that imports Airflow takes seconds."""
    from airflow.__main__ import main as airflow

    for words in commands:
        sys.argv = ["airflow", *words]
        airflow()


def clean(environ: Mapping[str, str]) -> None:
    """In a process of its own: what Airflow takes in memory is free until the next day. Raises
    CalledProcessError."""
    words = cleaning(environ, datetime.now(UTC))
    subprocess.run([sys.executable, "-m", "airflow", *words], check=True, stdin=subprocess.DEVNULL)


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
            case ["clean", "--once"]:
                clean(environ)
            case ["clean"]:
                # A mistake is to be seen at the start.
                days(environ)
                clean_daily(lambda: clean(environ))
            case _:
                return _failed("the arguments are scheduler, clean, or clean --once")
    except ConfigError as error:
        return _failed(with_code(error.code, error))
    except subprocess.CalledProcessError as error:
        return _failed(f"airflow db clean failed with exit code {error.returncode}: see above")
    return 0


def _failed(reason: str) -> int:
    sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
