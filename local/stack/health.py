"""Health of each service, from the service itself, not only from supervisord."""

from __future__ import annotations

import time
import xmlrpc.client
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import httpx
import psycopg2
from botocore.exceptions import BotoCoreError
from botocore.exceptions import ClientError as S3Error
from confluent_kafka import KafkaException

from local.base import UnhealthyService, UsageError, one_line
from local.progress import Step
from local.runtime.context import Context
from local.runtime.supervisord import Supervisor
from local.services import airflow, checks, kafka, minio, observer, postgres, registry, replay, rest_catalog
from sluice.cli.airflow_api import AirflowError
from sluice.core.errors import ClientError

UNREACHABLE = (httpx.HTTPError, psycopg2.OperationalError, KafkaException)
# Errors of the systems of an unhealthy stack: callers retry until a deadline.
UNREACHABLE_ERRORS = (
    *(
        ClientError,
        AirflowError,
        UnhealthyService,
        httpx.HTTPError,
        psycopg2.Error,
        KafkaException,
        S3Error,
        BotoCoreError,
    ),
    *(xmlrpc.client.Error, HTTPException, OSError),
)
# supervisord's states of a program that it does not restart.
ENDED = ("FATAL", "EXITED", "STOPPED", "UNKNOWN")


@dataclass(frozen=True)
class ServiceRow:
    """One line of `make status`. `name`, `state`: supervisord's, or `external` for a service that is not
    ours. `address`: `host:port`, a URL or empty; of an external one the folder with its platform files.
    `health`: its answer, or why there is none. `is_ok`: None if the service is not wanted, or not ours."""

    name: str
    state: str
    address: str
    health: str
    is_ok: bool | None


def probe(name: str, context: Context) -> str:
    """The service's answer. Raises one of UNREACHABLE, or UsageError if it is unhealthy."""
    simple: dict[str, Callable[[Context], str]] = {
        "postgres": postgres.probe,
        "kafka": kafka.probe,
        "minio": minio.probe,
        replay.NAME: replay.probe,
        registry.NAME: registry.probe,
        rest_catalog.NAME: rest_catalog.probe,
        checks.NAME: checks.probe,
        observer.NAME: observer.probe,
    }
    if name in simple:
        return simple[name](context)
    if name == airflow.CLEANUP:
        return "answers no requests: its log says what it did"
    component = airflow.COMPONENTS[name][1]
    status = airflow.health(context).get(component, "not mentioned")
    if status != "healthy":
        raise UnhealthyService(f"{component} is {status}")
    return "healthy"


def address(name: str, context: Context) -> str:
    if name == "airflow-api-server":
        return airflow.url(context)
    if name == "minio":
        return minio.url(context)
    if name == registry.NAME:
        return registry.url(context)
    if name == rest_catalog.NAME:
        return rest_catalog.url(context)
    if name == replay.NAME:
        return replay.url(context)
    if name == checks.NAME:
        return checks.url(context)
    if name == observer.NAME:
        return observer.url(context)
    return context.network.address(name) if name in context.ports else ""


def wait(name: str, context: Context, supervisor: Supervisor, step: Step, seconds: float) -> None:
    """Wait until a service is healthy. Raises UnhealthyService with the end of its log when it has ended for
    good, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        info = supervisor.states()[name]
        try:
            found = probe(name, context)
            if info["statename"] in ("RUNNING", "STARTING"):
                step.line(found)
                return
            reason = info["statename"]
        except (*UNREACHABLE, UsageError) as error:
            reason = one_line(error)
        step.line(f"{name}: {info['statename'].lower()}, {reason}")
        log = context.home.logs / f"{name}.log"
        if info["statename"] in ENDED:
            exit_reason = info["spawnerr"] or info["description"]
            raise UnhealthyService(
                f"{name} is {info['statename']} ({exit_reason}); the end of {log}:\n{tail(log)}"
            )
        if time.monotonic() > deadline:
            raise UnhealthyService(
                f"{name} was not healthy within {seconds:.0f} s ({reason}); the end of {log}:\n{tail(log)}"
            )
        time.sleep(0.5)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, indented."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def rows(
    context: Context, states: dict[str, dict[str, Any]], ask: Callable[[str, Context], str] = probe
) -> list[ServiceRow]:
    """The services of `make status`, by name. `ask`: probes a service."""
    found: list[ServiceRow] = []
    for name in sorted(name for name in states if not name.startswith("stream-")):
        state = states[name]["statename"]
        if name == replay.NAME and context.feed != replay.REPLAY and state == "STOPPED":
            found.append(ServiceRow(name, state, "", "not used: the feeds are the public ones", None))
            continue
        try:
            health, is_ok = ask(name, context), state == "RUNNING"
        except (*UNREACHABLE, UsageError) as error:
            health, is_ok = one_line(error), False
        found.append(ServiceRow(name, state, address(name, context), health, is_ok))
    if context.external is not None:
        for name in ("kafka", "minio"):
            found.append(ServiceRow(name, "external", context.external, "not monitored here", None))
    return found
