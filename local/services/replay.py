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
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from sluice.model.spec.stream import StreamSpec

NAME = "replay"
# The feeds that producers read: those of `stream.toml`, or this server in their place.
PUBLIC, REPLAY = "public", "replay"
VARIABLE = "SLUICE_FEED"
# About the rate of Wikimedia's feed.
EVENTS_PER_SECOND = 50


def chosen(given: str | None, kept: str | None) -> str:
    """The requested feed, else the kept one. Raises UsageError for another word."""
    feed = given or kept or PUBLIC
    if feed not in (PUBLIC, REPLAY):
        raise UsageError(f"{VARIABLE} is {feed!r}. Fix: give {PUBLIC} or {REPLAY}")
    return feed


def feeds(specs: Iterable[StreamSpec], port: int) -> dict[str, str]:
    """Stream → this server's address, for every stream whose feed it can stand in for."""
    paths = {spec.name: urlsplit(spec.feed.url).path for spec in specs if spec.feed is not None}
    return {name: f"http://{HOST}:{port}{path}" for name, path in paths.items() if path == PATH}


def url(context: Context) -> str:
    """Of the server; the feed and its `/status` lie below."""
    return f"http://{HOST}:{context.ports[NAME]}"


def program(context: Context) -> Program:
    """A client without a position gets all events from the first one on, which happens at the first request;
    the numbers continue after a restart. So every replayed event can be counted in the lake."""
    position = context.home.data / "replay.json"
    options = ["--port", str(context.ports[NAME]), "--rate", str(EVENTS_PER_SECOND)]
    options += ["--from-start", "--wait-for-client"]
    return Program(
        NAME,
        with_parent(context.python, "-m", "local.replay", *options, "--position-file", position),
        {**context.environment(), "PYTHONPATH": f"{REPO / 'plugins'}:{REPO}", "PYTHONUNBUFFERED": "1"},
        priority=40,
        directory=REPO,
        options=SERVICE_OPTIONS,
    )


def status(context: Context) -> dict[str, Any]:
    """Its status (local.replay.schedule). Raises httpx.HTTPError without an answer."""
    answer = httpx.get(f"{url(context)}/status", timeout=3, trust_env=False)
    answer.raise_for_status()
    return dict(answer.json())


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without an answer."""
    found = status(context)
    return f"{found['n'] + 1:,} events, {found['open']} connections"


def burst(context: Context, events: int, rate: float) -> int:
    """Emit `events` events at `rate` from now on; give the first one's number.

    Raises httpx.HTTPError without an answer, and for a refusal.
    """
    answer = httpx.post(
        f"{url(context)}/burst", json={"events": events, "rate": rate}, timeout=3, trust_env=False
    )
    answer.raise_for_status()
    return int(answer.json()["n"])
