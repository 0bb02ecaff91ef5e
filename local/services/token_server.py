"""A process that serves by HTTP and needs no other service: the checks, the observer."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from local.runtime.context import Context, with_parent
from local.runtime.supervisord import Program


@dataclass(frozen=True)
class TokenServer:
    """`module`: its main program, on :mod:`sluice.supervision.serving`; `priority`: as of Program."""

    name: str
    module: str
    priority: int

    def url(self, context: Context) -> str:
        return f"http://{context.network.address(self.name)}"

    def program(self, context: Context, *options: str) -> Program:
        address = ["--host", context.network.bind, "--port", str(context.ports[self.name])]
        command = with_parent(context.python, "-m", self.module, *address, *options)
        return Program(self.name, command, context.job_environment(), self.priority, context.directory)

    def probe(self, context: Context) -> str:
        """Raises httpx.HTTPError without a response."""
        httpx.get(f"{self.url(context)}/health", timeout=3, trust_env=False).raise_for_status()
        return "serving"
