"""Airflow: api-server, scheduler, dag-processor and triggerer, configured through their environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx

from local import shell
from local.base import REPO, cache
from local.progress import Step
from local.runtime.context import Context, with_parent
from local.runtime.supervisord import Program
from local.services import postgres
from sluice.airflow.database import DAYS_VARIABLE
from sluice.config import work_pool
from sluice.config.postgresql import DISABLE
from sluice.config.reading.urls import is_loopback

USER = "operator"
_SCHEDULER = "airflow-scheduler"
# Program → arguments of `airflow`, and the component's name in the health response.
COMPONENTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "airflow-api-server": (("api-server",), "metadatabase"),
    _SCHEDULER: (("scheduler", "--skip-serve-logs"), "scheduler"),
    "airflow-dag-processor": (("dag-processor",), "dag_processor"),
    "airflow-triggerer": (("triggerer", "--skip-serve-logs"), "triggerer"),
}

# Keeps Airflow's database small.
CLEANUP = "airflow-cleanup"
_DATABASE = "sluice.airflow.database"

_LOCAL_SETTINGS = '''\
"""Written with the configuration.

Imports in the processes that tasks are forked from what every task needs; otherwise each would import it
itself: Spark's operators (and kubernetes) 4.7 s, the DAGs and the lake's clients 3 s. No other command needs
them.

Ends the executor's workers with their scheduler. They are forked from it and hold its connection to the
database open: after a kill -9, PostgreSQL would keep its transaction, and the locks in it, as long as one of
them lives, and the next scheduler would start no task.
"""

import ctypes
import os
import signal
import sys

if len(sys.argv) > 1 and sys.argv[1] in ("scheduler", "dag-processor"):
    import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401
    import sluice.airflow.dags.streams  # noqa: F401

# Also `python -m sluice.airflow.database scheduler`, which imports Airflow before it becomes that command.
if len(sys.argv) > 1 and sys.argv[1] == "scheduler":
    import sluice.clients.lake.catalog  # noqa: F401
    import sluice.clients.lake.reading.files  # noqa: F401

    SCHEDULER = os.getpid()
    PR_SET_PDEATHSIG = 1
    _libc = ctypes.CDLL(None, use_errno=True)

    def _end_with_parent():
        # A worker ignores SIGTERM, with the scheduler's handler. A task ends its job when it gets one.
        number = signal.SIGKILL if os.getppid() == SCHEDULER else signal.SIGTERM
        if _libc.prctl(PR_SET_PDEATHSIG, number) != 0:
            raise OSError(ctypes.get_errno(), "prctl")

    os.register_at_fork(after_in_child=_end_with_parent)
'''


def url(context: Context) -> str:
    return f"http://{context.network.address('airflow')}"


def public_url(context: Context) -> str:
    """Its address for browsers."""
    return context.airflow_settings.get("API__BASE_URL", url(context))


def environment(context: Context) -> dict[str, str]:
    """Airflow's whole configuration, secrets included: only for a file of mode 600."""
    secrets = context.secrets
    database = f"airflow:{secrets['postgres_airflow']}@{context.network.address('postgres')}/airflow"
    results = {
        "conn_type": "postgres",
        "host": context.network.host("postgres"),
        "port": context.ports["postgres"],
        "schema": postgres.RESULTS,
        "login": postgres.RESULTS,
        "password": secrets["postgres_results"],
    }
    if not is_loopback(context.network.host("postgres")):
        # The platform's own network, between its own containers.
        results["extra"] = {"sslmode": DISABLE}
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": context.dags,
        # The package's own entry point names its plugin: without the checkout, this folder is empty.
        "CORE__PLUGINS_FOLDER": str(
            context.home.airflow / "plugins" if context.installed else REPO / "plugins"
        ),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(context.home.airflow / "passwords.json"),
        "CORE__FERNET_KEY": secrets["airflow_fernet"],
        "CORE__EXECUTION_API_SERVER_URL": f"{url(context)}/execution/",
        "CORE__DEFAULT_TIMEZONE": "utc",
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "API__HOST": context.network.bind,
        "API__PORT": str(context.ports["airflow"]),
        "API__BASE_URL": url(context),
        "API__SECRET_KEY": secrets["airflow_api_secret"],
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": secrets["airflow_jwt"],
        # A run waits this long between two of its tasks, by default 1 s.
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "LOGGING__BASE_LOG_FOLDER": str(context.home.logs / "airflow"),
        "LOGGING__COLORED_CONSOLE_LOG": "False",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        **context.airflow_settings,
    }
    return {
        **context.job_environment(),
        "AIRFLOW_HOME": str(context.home.airflow),
        **({DAYS_VARIABLE: days} if (days := context.airflow_history_days) else {}),
        work_pool.VARIABLE: work_pool.declared(int(settings["CORE__PARALLELISM"])),
        **_drills(context),
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_CONN_SLUICE_SPARK": json.dumps({"conn_type": "spark", "host": context.spark_master}),
        # The connection of the sinks that `stream.toml` calls sluice_results.
        "AIRFLOW_CONN_SLUICE_RESULTS": json.dumps(results),
    }


def _drills(context: Context) -> dict[str, str]:
    """By these the task of a drill finds the stack into which it injects faults."""
    if not context.is_embedded or context.external is not None:
        return {}
    # With slashes, because supervisord strips quotes from the ends of a value, even if they belong to a
    # folder's name.
    return {"SLUICE_HOME": f"{context.home.root}/", "SLUICE_CACHE": f"{cache()}/"}


def files(context: Context) -> dict[Path, str]:
    """The operator's password, _LOCAL_SETTINGS and an empty airflow.cfg."""
    home = context.home.airflow
    return {
        # Before the first start: otherwise Airflow would generate a password and print it into a log.
        home / "passwords.json": json.dumps({USER: context.secrets["airflow_operator"]}),
        home / "config" / "airflow_local_settings.py": _LOCAL_SETTINGS,
        # Otherwise Airflow would write one of 2,000 lines that has no effect.
        home / "airflow.cfg": "# Everything is set in the environment.\n",
    }


def programs(context: Context) -> list[Program]:
    common = environment(context)
    command = context.python_env / "bin" / "airflow"
    commands: dict[str, tuple[str | Path, ...]] = {
        name: (command, *arguments) for name, (arguments, _) in COMPONENTS.items()
    }
    # It makes the pool of tasks first.
    commands[_SCHEDULER] = (context.python, "-m", _DATABASE, *COMPONENTS[_SCHEDULER][0])
    commands[CLEANUP] = (context.python, "-m", _DATABASE, "clean")
    return [
        Program(name, with_parent(*words), common, priority=60, directory=context.home.root)
        for name, words in commands.items()
    ]


def prepare(context: Context, step: Step) -> None:
    """Migrate Airflow's database, once per version. Raises UsageError if that fails."""
    version = f"{context.secrets['install']} {context.python_env.name}"
    if context.home.state().get("airflow_migrated") == version:
        return
    log = context.home.logs / "airflow-migrate.log"
    command = context.python_env / "bin" / "airflow"
    shell.run([command, "db", "migrate"], step, log, environment(context))
    context.home.remember(airflow_migrated=version)


def health(context: Context) -> dict[str, str]:
    """Component → its status. Raises httpx.HTTPError without a response."""
    response = httpx.get(f"{url(context)}/api/v2/monitor/health", timeout=5, trust_env=False)
    response.raise_for_status()
    return {name: str(component.get("status")) for name, component in response.json().items()}
