"""The process that observes all streams, for the pages, the metrics and supervision."""

from __future__ import annotations

import httpx

from local.runtime.context import Context, with_parent
from local.runtime.supervisord import Program

NAME = "observer"


def url(context: Context) -> str:
    return f"http://{context.network.address(NAME)}"


def program(context: Context) -> Program:
    options = ["--host", context.network.bind, "--port", str(context.ports[NAME])]
    command = with_parent(context.python, "-m", "sluice.supervision.observer.server", *options)
    return Program(NAME, command, context.job_environment(), priority=45, directory=context.directory)


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without a response."""
    httpx.get(f"{url(context)}/health", timeout=3, trust_env=False).raise_for_status()
    return "serving"
