"""Airflow: api-server, scheduler, dag-processor and triggerer, configured through their environment."""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx

from local import shell
from local.base import REPO, cache
from local.progress import Step
from local.runtime.context import Context, with_parent
from local.runtime.home import write_private
from local.runtime.ports import HOST
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from local.services import postgres

USER = "operator"
# Program → arguments of `airflow`, and the component's name in the health answer.
COMPONENTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "airflow-api-server": (("api-server",), "metadatabase"),
    "airflow-scheduler": (("scheduler", "--skip-serve-logs"), "scheduler"),
    "airflow-dag-processor": (("dag-processor",), "dag_processor"),
    "airflow-triggerer": (("triggerer", "--skip-serve-logs"), "triggerer"),
}

_LOCAL_SETTINGS = '''\
"""Written by `make up`. Loads what tasks need once, in the processes that tasks are forked from.

Every task would otherwise import the Spark operators (which import kubernetes) anew: 4.7 s each. Only in the
two parents: in all other commands it would be 4.7 s for nothing.
"""

import sys

if len(sys.argv) > 1 and sys.argv[1] in ("scheduler", "dag-processor"):
    import airflow.providers.apache.spark.operators.spark_submit  # noqa: F401
'''


def url(context: Context) -> str:
    return f"http://{HOST}:{context.ports['airflow']}"


def environment(context: Context) -> dict[str, str]:
    """Airflow's whole configuration; holds secrets, so it goes into a file of mode 600 only."""
    secrets = context.secrets
    database = f"airflow:{secrets['postgres_airflow']}@{HOST}:{context.ports['postgres']}/airflow"
    settings = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(context.dags),
        "CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(context.home.airflow / "passwords.json"),
        "CORE__FERNET_KEY": secrets["airflow_fernet"],
        "CORE__EXECUTION_API_SERVER_URL": f"{url(context)}/execution/",
        "CORE__DEFAULT_TIMEZONE": "utc",
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "API__HOST": HOST,
        "API__PORT": str(context.ports["airflow"]),
        "API__BASE_URL": url(context),
        "API__SECRET_KEY": secrets["airflow_api_secret"],
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": secrets["airflow_jwt"],
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
        # For drills: a task that breaks the stack it belongs to must know which one that is. With slashes,
        # because supervisord takes quotes off the ends of a value, also those that are a folder's own.
        "SLUICE_HOME": f"{context.home.root}/",
        "SLUICE_CACHE": f"{cache()}/",
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_CONN_SLUICE_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "AIRFLOW_CONN_SLUICE_RESULTS": json.dumps(_results_connection(context)),
    }


def _results_connection(context: Context) -> dict[str, str | int]:
    """The connection of the sinks that `stream.toml` calls sluice_results."""
    return {
        "conn_type": "postgres",
        "host": HOST,
        "port": context.ports["postgres"],
        "schema": postgres.RESULTS,
        "login": postgres.RESULTS,
        "password": context.secrets["postgres_results"],
    }


def prepare(context: Context) -> None:
    """Its files: the operator's password, the preloading, and an empty airflow.cfg.

    The password is written before the first start: then Airflow does not make one and print it into a log.
    """
    passwords = json.dumps({USER: context.secrets["airflow_operator"]})
    write_private(context.home.airflow / "passwords.json", passwords)
    write_private(context.home.airflow / "config" / "airflow_local_settings.py", _LOCAL_SETTINGS)
    # Without one, Airflow would write a file of 2,000 lines here that has no effect.
    write_private(
        context.home.airflow / "airflow.cfg",
        "# Everything is set in the environment: conf/supervisord.conf\n",
    )


def programs(context: Context) -> list[Program]:
    common = environment(context)
    return [
        Program(
            name,
            with_parent(context.python_env / "bin" / "airflow", *arguments),
            common,
            priority=60,
            directory=context.home.root,
            options=SERVICE_OPTIONS,
        )
        for name, (arguments, _) in COMPONENTS.items()
    ]


def migrate(context: Context, step: Step) -> None:
    """Brings Airflow's database to this version's schema, once per version. Raises UsageError if that
    fails."""
    done = f"{context.secrets['install']} {context.python_env.name}"
    if context.home.state().get("airflow_migrated") == done:
        return
    log = context.home.logs / "airflow-migrate.log"
    shell.run([context.python_env / "bin" / "airflow", "db", "migrate"], step, log, environment(context))
    context.home.remember(airflow_migrated=done)


def health(context: Context) -> dict[str, str]:
    """Component → `healthy` or what it is instead. Raises httpx.HTTPError without an answer."""
    answer = httpx.get(f"{url(context)}/api/v2/monitor/health", timeout=5, trust_env=False)
    answer.raise_for_status()
    return {name: str(part.get("status")) for name, part in answer.json().items()}
