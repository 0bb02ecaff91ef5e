"""How each service is: asked of the service itself, not only of supervisord."""

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

from local.base import UnhealthyService, UsageError
from local.progress import Step
from local.runtime.context import Context
from local.runtime.ports import HOST
from local.runtime.supervisord import Supervisor
from local.services import airflow, kafka, minio, postgres, replay
from local.stack.airflow_api import AirflowError
from sluice.clients.errors import ClientError

UNREACHABLE = (httpx.HTTPError, psycopg2.OperationalError, KafkaException)
# What the systems of a broken stack answer: they are asked again, until a deadline.
UNREACHABLE_ERRORS = (
    *(ClientError, AirflowError, httpx.HTTPError, psycopg2.Error, KafkaException, S3Error, BotoCoreError),
    *(xmlrpc.client.Error, HTTPException, OSError),
)
# supervisord's states in which a program will not come up by itself any more.
ENDED = ("FATAL", "EXITED", "STOPPED", "UNKNOWN")


@dataclass(frozen=True)
class Row:
    """One line of `make status`; `fine` is None for a stream that is stopped on purpose."""

    name: str
    state: str
    address: str
    health: str
    fine: bool | None

    @property
    def is_stream(self) -> bool:
        return self.name.startswith("stream-")


def probe(name: str, context: Context) -> str:
    """What the service answers. Raises one of UNREACHABLE, or Problem when it answers that it is not well."""
    simple: dict[str, Callable[[Context], str]] = {
        "postgres": postgres.probe,
        "kafka": kafka.probe,
        "minio": minio.probe,
        replay.NAME: replay.probe,
    }
    if name in simple:
        return simple[name](context)
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
    if name == replay.NAME:
        return replay.url(context)
    return f"{HOST}:{context.ports[name]}" if name in context.ports else ""


def wait(name: str, context: Context, supervisor: Supervisor, step: Step, seconds: float) -> None:
    """Waits until a service is healthy.

    Raises UnhealthyService with the last lines of its log as soon as it has ended for good, or after
    `seconds`.
    """
    deadline = time.monotonic() + seconds
    while True:
        info = supervisor.states()[name]
        try:
            found = probe(name, context)
            if info["statename"] in ("RUNNING", "STARTING"):
                step.line(found)
                return
            why = info["statename"]
        except (*UNREACHABLE, UsageError) as error:
            why = " ".join(str(error).split())
        step.line(f"{name}: {info['statename'].lower()}, {why}")
        log = context.home.logs / f"{name}.log"
        if info["statename"] in ENDED:
            reason = info["spawnerr"] or info["description"]
            raise UnhealthyService(
                f"{name} is {info['statename']} ({reason}); the end of {log}:\n{tail(log)}"
            )
        if time.monotonic() > deadline:
            raise UnhealthyService(
                f"{name} was not healthy within {seconds:.0f} s ({why}); the end of {log}:\n{tail(log)}"
            )
        time.sleep(0.5)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, indented."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return "  (there is no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def rows(
    context: Context, states: dict[str, dict[str, Any]], ask: Callable[[str, Context], str] = probe
) -> list[Row]:
    """The table of `make status`: services first, then streams. `ask`: how a service is asked."""
    found: list[Row] = []
    for name, info in sorted(states.items(), key=lambda item: (item[0].startswith("stream-"), item[0])):
        state = info["statename"]
        if name.startswith("stream-"):
            fine = {"RUNNING": True, "STOPPED": None}.get(state, False)
            health = info["description"] if state != "STOPPED" else "stopped (Airflow starts it)"
            found.append(Row(name, state, "", health, fine))
            continue
        if name == replay.NAME and context.feed != replay.REPLAY and state == "STOPPED":
            found.append(Row(name, state, "", "not wanted: the feeds are the public ones", None))
            continue
        try:
            health, fine = ask(name, context), state == "RUNNING"
        except (*UNREACHABLE, UsageError) as error:
            health, fine = " ".join(str(error).split()), False
        found.append(Row(name, state, address(name, context), health, fine))
    if context.external is not None:
        for name in ("kafka", "minio"):
            found.append(Row(name, "external", str(context.external), "not ours to watch", None))
    return found
