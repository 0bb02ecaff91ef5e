"""The replay server: recorded events as a live feed, for a machine without internet, demos and tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx

from local.base import REPO, UsageError
from local.replay.server import PATH
from local.runtime.context import Context, with_parent
from local.runtime.ports import HOST
from local.runtime.supervisord import Program
from sluice.config.stream import StreamSpec

NAME = "replay"
# The feeds that producers read: those of `stream.toml`, or this server.
PUBLIC, REPLAY = "public", "replay"
VARIABLE = "SLUICE_FEED"
# About the rate of Wikimedia's feed.
EVENTS_PER_SECOND = 50


def chosen(requested: str | None, stored: str | None) -> str:
    """The requested feed, else the stored one. Raises UsageError for an unknown one."""
    feed = requested or stored or PUBLIC
    if feed not in (PUBLIC, REPLAY):
        raise UsageError(f"{VARIABLE} is {feed!r}. Fix: give {PUBLIC} or {REPLAY}")
    return feed


def feeds(specs: Iterable[StreamSpec], port: int) -> dict[str, str]:
    """Stream → this server's address, for every stream whose feed it can replay."""
    paths = {spec.name: urlsplit(spec.feed.url).path for spec in specs if spec.feed is not None}
    return {name: f"http://{HOST}:{port}{path}" for name, path in paths.items() if path == PATH}


def url(context: Context) -> str:
    return f"http://{HOST}:{context.ports[NAME]}"


def program(context: Context) -> Program:
    """Serves a client without a position from the first event on, which is emitted at the first request, and
    continues its numbers after a restart: so every replayed event can be counted in the lake."""
    position = context.home.data / "replay.json"
    options = ["--port", str(context.ports[NAME]), "--rate", str(EVENTS_PER_SECOND)]
    options += ["--from-start", "--wait-for-client"]
    command = with_parent(context.python, "-m", "local.replay", *options, "--position-file", position)
    python = {"PYTHONPATH": f"{REPO / 'plugins'}:{REPO}", "PYTHONUNBUFFERED": "1"}
    return Program(NAME, command, {**context.environment(), **python}, priority=40, directory=REPO)


def status(context: Context) -> dict[str, Any]:
    """Its status (local.replay.schedule). Raises httpx.HTTPError without a response."""
    response = httpx.get(f"{url(context)}/status", timeout=3, trust_env=False)
    response.raise_for_status()
    return dict(response.json())


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without a response."""
    current = status(context)
    return f"{current['n'] + 1:,} events, {current['open']} connections"


def burst(context: Context, events: int, rate: float) -> int:
    """Emit `events` events at `rate` from now on; give the first one's number. Raises httpx.HTTPError."""
    body = {"events": events, "rate": rate}
    response = httpx.post(f"{url(context)}/burst", json=body, timeout=3, trust_env=False)
    response.raise_for_status()
    return int(response.json()["n"])
