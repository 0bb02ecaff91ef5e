"""The process that observes all streams, for the pages, the metrics and supervision."""

from __future__ import annotations

import httpx

from local.base import REPO
from local.runtime.context import Context, with_parent
from local.runtime.supervisord import Program

NAME = "observer"


def url(context: Context) -> str:
    return f"http://{context.network.address(NAME)}"


def program(context: Context) -> Program:
    options = ["--host", context.network.bind, "--port", str(context.ports[NAME])]
    command = with_parent(context.python, "-m", "sluice.supervision.observer.server", *options)
    python = {"PYTHONPATH": f"{REPO / 'plugins'}:{REPO}", "PYTHONUNBUFFERED": "1"}
    return Program(NAME, command, {**context.job_environment(), **python}, priority=45, directory=REPO)


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without a response."""
    httpx.get(f"{url(context)}/health", timeout=3, trust_env=False).raise_for_status()
    return "serving"
