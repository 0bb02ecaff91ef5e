"""The server: who asks gets the feed from where it stopped, at its pace, with the faults that are on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from local.replay import frames
from local.replay.connection import Connection
from local.replay.faults import Faults
from local.replay.feed import Feed
from local.replay.place import Place
from local.replay.state import Asked, Clock, State
from local.threaded import ThreadedServer

HOST = "127.0.0.1"
PATH = "/v2/stream/recentchange"
# Of the events' own time, where they come as fast as they are read.
FULL_SPEED_PACE = 2_000.0
_PLACE_SECONDS = 1.0


class Replay(ThreadedServer):
    """The server, in a thread of its own from `with` to its end. Any thread may call its methods."""

    def __init__(
        self,
        rate: float = 50.0,
        *,
        port: int = 0,
        total: int | None = None,
        from_start: bool = False,
        start: float | None = None,
        pace: float | None = None,
        faults: Faults | None = None,
        retry_ms: int = 1_000,
        keep_alive_seconds: float = 15.0,
        place: Path | None = None,
        patient: bool = False,
        **feed: Any,
    ) -> None:
        """`rate`: events per second by the clock; 0 for as fast as they are read. `port`: 0 for a free one.
        `total`: no more events than that. `from_start`: who says no position gets everything, not what is
        new; so it is always at rate 0. `start`, `pace`: of the events' own time, as Feed has it; by default
        they happen when they are sent (at rate 0: from now on, 2,000 a second). `retry_ms`: what clients are
        told to wait before they come again; 0 says nothing. `keep_alive_seconds`: after so long without an
        event a comment is sent. `place`: a file, so that the numbers go on after a restart (not at rate 0).
        `patient`: the first event happens when somebody asks for the feed, not before.
        Everything else is Feed's. Raises ValueError for what Feed or Faults do not take.
        """
        super().__init__("replay")
        now = time.time()
        self._place = Place(place if rate else None, rate)
        pace = pace or rate or FULL_SPEED_PACE
        first = self._place.first
        self._state = State(
            Clock(born=now, rate=rate, first=first, total=total),
            Feed(start=now - first / pace if start is None else start, pace=pace, **feed),
            faults or Faults(),
            asleep=patient,
        )
        self._from_start = from_start or rate == 0
        self._retry_ms = retry_ms
        self._keep_alive_seconds = keep_alive_seconds
        self._port = port

    # From outside.

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}{PATH}"

    @property
    def feed(self) -> Feed:
        """The events; a new one after a burst."""
        return self._state.feed

    @property
    def faults(self) -> Faults:
        """Those that are on."""
        return self._state.faults

    @property
    def asked(self) -> list[Asked]:
        """The requests for the feed so far, oldest first (the last 1,000)."""
        return self._state.asked

    def break_it(self, **wanted: Any) -> Faults:
        """Changes some faults from now on; what they count starts anew. Raises ValueError."""
        return self._state.change(wanted, time.time())

    def heal(self) -> None:
        """No more faults. Events are as odd or not as they would have been, so this is about the others."""
        now = asdict(self.faults)
        kept = {name: now[name] for name in ("odd", "odd_every", "canary_every")}
        self._state.change(asdict(Faults()) | kept, time.time())

    def burst(self, events: int, rate: float) -> int:
        """So many events from now on at this rate, then as before; gives the number of the first of them.
        Raises ValueError at full speed, and for what is no burst."""
        return self._state.burst(events, rate, time.time())

    def odd_kind(self, n: int) -> str | None:
        """What is odd about event n, `canary`, or None."""
        return self.faults.odd_kind(n)

    def payload(self, n: int) -> str:
        """The data of event n as a client must get it."""
        return frames.payload(self.feed, n, self.odd_kind(n))

    def status(self) -> dict[str, Any]:
        """How far it is, who asked, and which faults are on: State.to_json, and the feed's own values."""
        feed = {name: getattr(self.feed, name) for name in ("start", "pace", "seed", "servers", "users")}
        return self._state.to_json(time.time()) | {"feed": feed}

    # Inside its thread.

    async def _serve(self, end: asyncio.Event) -> None:
        app = web.Application()
        app.router.add_get(PATH, self._stream)
        app.router.add_get("/status", self._answer_status)
        app.router.add_post("/faults", self._answer_faults)
        app.router.add_post("/burst", self._answer_burst)
        # Connections never end by themselves: nothing to wait for.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._port).start()
            self._port = int(runner.addresses[0][1])
            self._ready.set()
            while not end.is_set():
                self._place.reached(self._state.following(time.time()))
                with suppress(TimeoutError):
                    await asyncio.wait_for(end.wait(), _PLACE_SECONDS)
        finally:
            await runner.cleanup()
            self._place.close(self._state.following(time.time()))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        now, faults = time.time(), self.faults
        position = request.headers.get("Last-Event-ID")
        agent = request.headers.get("User-Agent", "")

        def answered(status: int) -> None:
            self._state.note(Asked(now, agent, position, status))

        if self._state.refuse(now):
            answered(faults.refuse_status)
            headers = {"Retry-After": str(faults.retry_after)} if faults.retry_after else {}
            return web.Response(status=faults.refuse_status, headers=headers, text="a fault on purpose\n")
        if not agent:
            answered(403)
            return web.Response(status=403, text="Say who you are in the header User-Agent.\n")
        try:
            first = self._first(position, request.query.get("since"), now)
        except frames.BadPosition as error:
            answered(400)
            return web.Response(status=400, text=f"{error}\n")
        self._state.wake(now)
        answered(200)
        connection = Connection(request, self._state, first)
        return await connection.run(self._retry_ms, self._keep_alive_seconds)

    def _first(self, position: str | None, since: str | None, now: float) -> int:
        following = self._state.following(now)
        if position:
            # One from beyond the end is of another feed, as a rule: it gets what is new.
            return min(following, max(0, frames.after(position) - self.faults.repeat))
        if since is not None:
            return frames.since(self.feed, since)
        return 0 if self._from_start else following

    async def _answer_status(self, _: web.Request) -> web.Response:
        return web.json_response(self.status())

    async def _answer_faults(self, request: web.Request) -> web.Response:
        return await _told(request, lambda wanted: asdict(self.break_it(**wanted)))

    async def _answer_burst(self, request: web.Request) -> web.Response:
        return await _told(
            request, lambda wanted: {"n": self.burst(int(wanted["events"]), float(wanted["rate"]))}
        )


async def _told(request: web.Request, do: Callable[[dict[str, Any]], dict[str, Any]]) -> web.Response:
    """Does what a JSON object asks for; 400 with the reason for what it cannot be."""
    # Not text: a page in a browser could send that here without asking.
    if request.content_type != "application/json":
        return web.json_response({"error": "send application/json"}, status=415)
    try:
        wanted = await request.json()
        if not isinstance(wanted, dict):
            raise ValueError("give a JSON object")
        return web.json_response(do(wanted))
    except (ValueError, TypeError, KeyError) as error:
        return web.json_response({"error": f"{error}"}, status=400)
