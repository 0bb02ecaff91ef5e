"""The checkout's commands of `sluice`: the embedded stack, its checks and images (SLUICE_COMMANDS names this
module; `local/run` sets it, and so do the images)."""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from local.base import REPO
from local.commands import developers, stack
from local.containers import stack as containers
from sluice.cli.installation import Host

IN_CONTAINERS = "is not for containers. Fix: there is"


def add(app: typer.Typer) -> Host:
    """Add what is for here: on the machine of a checkout, or in a container of its images."""
    if containers.PROFILES_VARIABLE in os.environ:
        _add(app, stack.demo, stack.airflow, developers.python)
        return Host("docker compose run --rm tools", containers.ContainerStack, elsewhere=ELSEWHERE)
    _add(app, *stack.COMMANDS)
    developers.add(app)
    return Host(
        "local/run",
        stack.opened,
        REPO / "spark_jobs",
        add_streams=lambda: stack.opened().up(),
        allow_reading=lambda topic: stack.opened().allow_reading(topic),
    )


def _add(app: typer.Typer, *commands: Callable[..., None]) -> None:
    for command in commands:
        settings = stack.SETTINGS.get(command.__name__)
        app.command(context_settings=settings, rich_help_panel=stack.PANEL)(command)


ELSEWHERE = {
    "up": f"{IN_CONTAINERS} docker compose up --wait",
    "down": f"{IN_CONTAINERS} docker compose stop",
    "status": f"{IN_CONTAINERS} docker compose ps",
    "logs": f"{IN_CONTAINERS} docker compose logs -f",
    "destroy": f"{IN_CONTAINERS} docker compose down --volumes",
    "drill": "injects faults into an embedded stack. Fix: make drill, without Docker",
}
