"""AWS by ministack, on loopback, in memory: Glue, which refuses an update of a table's stale version, and
what else a test names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from local.runtime.ports import HOST, free_ports, free_range
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from local.setup.ministack import ensure_ministack
from local.stack.stack import wait_until
from sluice.clients.catalogs.glue import LOCATION, BoundedGlue
from sluice.config.platform import Platform
from tests.support.catalog_proxy import Answer, Ask, Asked, Rule, passed_on

NAME = "glue"


def program(folder: Path, port: int, services: str = NAME, **settings: str) -> Program:
    """``services``: those that it has, by its own names; ``settings``: its further variables."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "BIND_HOST": HOST,
        "GATEWAY_PORT": str(port),
        "SERVICES": services,
        "LOG_LEVEL": "WARNING",
        **settings,
        # For its file of the process's number.
        "TMPDIR": str(folder),
    }
    return Program(NAME, [str(ensure_ministack())], environment, 30, folder, SERVICE_OPTIONS)


@contextmanager
def running(folder: Path, services: str = NAME, **settings: str) -> Iterator[str]:
    """Its address."""
    (port,) = free_ports(1, set(), free_range(os.environ))
    started, url = program(folder, port, services, **settings), f"http://{HOST}:{port}"
    command, environment = list(started.command), dict(started.environment)
    with subprocess.Popen(command, env=environment, cwd=started.directory) as server:
        try:
            wait_until(started.name, lambda: is_up(url), 60, 0.2)
            yield url
        finally:
            server.terminate()


def probe(url: str) -> str:
    """Raises httpx.HTTPError if it does not answer."""
    httpx.get(f"{url}/_ministack/health", timeout=5, trust_env=False).raise_for_status()
    return "ready"


def is_up(url: str) -> bool:
    try:
        probe(url)
    except httpx.HTTPError:
        return False
    return True


def direct(url: str, platform: Platform) -> Platform:
    """The platform with its Glue at another address."""
    catalog = replace(platform.lake.catalog, endpoint=url)
    return replace(platform, lake=replace(platform.lake, catalog=catalog))


def action(asked: Asked) -> str:
    """What a request asks for, as `GetTable`."""
    return asked.headers["x-amz-target"].removeprefix("AWSGlue.")


def at_commits(rule: Rule) -> Rule:
    """The rule for what changes a table, each time."""

    def only(asked: Asked, ask: Ask) -> Answer | None:
        return rule(asked, ask) if action(asked) == "UpdateTable" else ask(asked)

    return only


def once(rule: Rule) -> Rule:
    """The rule for one request, the others as they are."""
    rules = iter([rule])
    return lambda asked, ask: next(rules, passed_on)(asked, ask)


def before_a_commit(commit: Callable[[], object]) -> Rule:
    """Another client commits after one has read the table, and before Glue gets its request."""

    def rule(asked: Asked, ask: Ask) -> Answer:
        commit()
        return ask(asked)

    return at_commits(once(rule))


def restore(catalog: BoundedGlue, locations: Mapping[str, str]) -> None:
    """Set the metadata files of these tables, as who copies their entries back from an account's backup."""
    for name, location in locations.items():
        database, table = name.split(".")
        found = catalog.glue.get_table(DatabaseName=database, Name=table)["Table"]
        parameters = {**found["Parameters"], LOCATION: location}
        kept = {key: found[key] for key in ("TableType", "StorageDescriptor")}
        catalog.glue.update_table(
            DatabaseName=database, TableInput={"Name": table, "Parameters": parameters, **kept}
        )
