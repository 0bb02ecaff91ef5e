"""Services that not every stack runs: the replay server, the schema registry, and the REST catalog."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from local.base import UsageError
from local.runtime import ports
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.supervisord import Program
from local.services import registry, replay, rest_catalog
from local.setup.optional import ensure_registry, ensure_rest_catalog
from sluice.config.platform_sections.catalog import REST, SQL

# Until the ports of a service that was just stopped are free.
PORTS_SECONDS = 10.0

# Service -> its ports.
_PORTS: dict[str, tuple[str, ...]] = {
    replay.NAME: (replay.NAME,),
    registry.NAME: (registry.NAME, registry.HEALTH),
    rest_catalog.NAME: (rest_catalog.PORT,),
}


def decide_registry(
    home: StackDir, external: str | None, declared: Iterable[bool], requested: str | None = None
) -> None:
    """Keep in `home` whether the stack runs a schema registry; fetch it if it is missing.

    `external`: of an external Kafka, which has a registry of its own, if any. `declared`: as of
    :func:`needs_registry`. `requested`: when it runs one; default: SLUICE_REGISTRY, else the kept setting.
    Raises UsageError for an invalid one.
    """
    requested = requested or os.environ.get(registry.VARIABLE)
    setting = registry.chosen(requested, home.state().get("registry"))
    needed = external is None and registry.needs_registry(declared, setting)
    if needed:
        ensure_registry()
    home.remember(registry=setting, has_registry=needed)


def has_registry(home: StackDir) -> bool:
    """Whether the stack runs one, since it was last started."""
    return bool(home.state().get("has_registry"))


def decide_catalog(
    home: StackDir, external: str | None, is_running: bool, requested: str | None = None
) -> None:
    """Keep in `home` how roles find tables, `sql` or `rest`; fetch the REST catalog if it is missing.

    `external`: the folder of an external Kafka's and S3's files, if any. `requested`: the kind; default:
    SLUICE_CATALOG, else the kept one. Raises UsageError for an invalid one, and for another than that of a
    running stack.
    """
    kept = home.state().get("catalog")
    kind = rest_catalog.chosen(requested or os.environ.get(rest_catalog.VARIABLE), kept)
    known = kept or SQL
    if kind == REST and external is not None:
        raise UsageError(
            f"{rest_catalog.VARIABLE} is {kind}, and SLUICE_EXTERNAL names another S3, where the stack's "
            f"REST catalog has no login. Fix: local/run up --catalog {SQL}"
        )
    if is_running and kind != known:
        # Its streams read where tables are when they start.
        raise UsageError(f"the stack runs on catalog {known}, not on {kind}. Fix: make down first")
    if kind == REST:
        ensure_rest_catalog()
    home.remember(catalog=kind)


def has_rest_catalog(home: StackDir) -> bool:
    """Whether the stack runs one."""
    return bool(home.state().get("catalog") == REST)


def running(context: Context) -> dict[str, tuple[str, ...]]:
    """Those that this stack runs -> their ports."""
    runs = {replay.NAME: context.feed == replay.REPLAY, registry.NAME: context.registry is not None}
    runs[rest_catalog.NAME] = context.rest_catalog is not None
    return {name: used for name, used in _PORTS.items() if runs[name]}


def idle_ports(context: Context) -> set[str]:
    """The ports of the others, which are not used."""
    others = _PORTS.keys() - running(context).keys()
    return {port for name in others for port in _PORTS[name]}


def check_ports(context: Context, runs: Callable[[str], bool]) -> None:
    """Check the ports of those that a running stack gets. `runs`: whether a service runs already. Raises
    UsageError for one that is taken."""
    for name, used in running(context).items():
        if not runs(name):
            ports.check(context.ports, used, PORTS_SECONDS)


def programs(context: Context) -> list[Program]:
    """Their programs; the replay server's always, since `make status` tells why it does not run."""
    found = [replay.program(context)]
    if context.registry is not None:
        found.append(registry.program(context))
    if context.rest_catalog is not None:
        found.append(rest_catalog.program(context))
    return found


def prepare(context: Context) -> None:
    """Write their configuration."""
    if context.registry is not None:
        registry.prepare(context)
    if context.rest_catalog is not None:
        rest_catalog.prepare(context)
