"""The process that observes all streams, for the pages, the metrics and supervision."""

from __future__ import annotations

from local.services.token_server import TokenServer

_SERVER = TokenServer("observer", "sluice.supervision.observer.server", priority=45)
NAME, url, program, probe = _SERVER.name, _SERVER.url, _SERVER.program, _SERVER.probe
