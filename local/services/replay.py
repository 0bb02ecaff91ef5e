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
# Whose feeds are read: those that `stream.toml` names, or this server in their place.
PUBLIC, REPLAY = "public", "replay"
VARIABLE = "SLUICE_FEED"
# About what Wikimedia's has.
EVENTS_PER_SECOND = 50


def chosen(given: str | None, kept: str | None) -> str:
    """The one that is asked for, else the one that was kept. Raises UsageError for another word."""
    feed = given or kept or PUBLIC
    if feed not in (PUBLIC, REPLAY):
        raise UsageError(f"{VARIABLE} is {feed!r}: say {PUBLIC} or {REPLAY}")
    return feed


def feeds(specs: Iterable[StreamSpec], port: int) -> dict[str, str]:
    """Stream → this server's address, for every stream whose feed it can stand in for."""
    paths = {spec.name: urlsplit(spec.feed.url).path for spec in specs if spec.feed is not None}
    return {name: f"http://{HOST}:{port}{path}" for name, path in paths.items() if path == PATH}


def url(context: Context) -> str:
    """Of the server; the feed and its `/status` lie below."""
    return f"http://{HOST}:{context.ports[NAME]}"


def program(context: Context) -> Program:
    """Who says no position gets everything from the first event on, which happens when somebody asks; and the
    numbers go on after a restart. So all that was replayed can be counted in the lake."""
    place = context.home.data / "replay.json"
    options = ["--port", str(context.ports[NAME]), "--rate", str(EVENTS_PER_SECOND)]
    options += ["--from-start", "--patient"]
    return Program(
        NAME,
        with_parent(context.python, "-m", "local.replay", *options, "--place", place),
        {**context.environment(), "PYTHONPATH": f"{REPO / 'plugins'}:{REPO}", "PYTHONUNBUFFERED": "1"},
        priority=40,
        directory=REPO,
        options=SERVICE_OPTIONS,
    )


def status(context: Context) -> dict[str, Any]:
    """What it says of itself (local.replay.schedule). Raises httpx.HTTPError when it does not answer."""
    answer = httpx.get(f"{url(context)}/status", timeout=3, trust_env=False)
    answer.raise_for_status()
    return dict(answer.json())


def probe(context: Context) -> str:
    """How far it is. Raises httpx.HTTPError when it does not answer."""
    found = status(context)
    return f"{found['n'] + 1:,} events, {found['open']} connections"


def burst(context: Context, events: int, rate: float) -> int:
    """Lets so many events come at this rate, from now on; gives the number of the first of them.

    Raises httpx.HTTPError when it does not answer or refuses.
    """
    answer = httpx.post(
        f"{url(context)}/burst", json={"events": events, "rate": rate}, timeout=3, trust_env=False
    )
    answer.raise_for_status()
    return int(answer.json()["n"])
