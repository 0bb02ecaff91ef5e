"""The process that serves when supervision checked each component last."""

from __future__ import annotations

from local.runtime.context import Context
from local.runtime.supervisord import Program
from local.services.token_server import TokenServer

_SERVER = TokenServer("checks", "sluice.supervision.checks.server", priority=40)
NAME, url, probe = _SERVER.name, _SERVER.url, _SERVER.probe


def program(context: Context) -> Program:
    return _SERVER.program(context, "--file", str(context.home.data / "checks.json"))
