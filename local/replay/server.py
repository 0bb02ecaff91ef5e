"""The server: a client gets the events that follow its position, at the feed's rate."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from local.replay import frames
from local.replay.events import Feed
from local.replay.schedule import Asked, Clock, Place, State
from local.runtime.processes import ThreadedServer

HOST = "127.0.0.1"
PATH = "/v2/stream/recentchange"
# Of the events' own time, if they come as fast as they are read.
FULL_SPEED_PACE = 2_000.0
_PLACE_SECONDS = 1.0
# Events per write, and the interval of the checks for new ones.
_BATCH = 100
TICK_SECONDS = 0.05
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Connection:
    """One client's connection, from event `first` until one side closes it."""

    def __init__(self, request: web.Request, state: State, first: int) -> None:
        self.request = request
        self.state = state
        self.next = first
        self.answer = web.StreamResponse(headers=_HEADERS)

    async def run(self, retry_ms: int, keep_alive_seconds: float) -> web.StreamResponse:
        """Send events until the client or the server goes."""
        self.state.connected(1)
        try:
            await self.answer.prepare(self.request)
            await self.write((f"retry: {retry_ms}\n" if retry_ms else "").encode() + b":ok\n\n")
            wrote = time.monotonic()
            while True:
                count = self.available(time.time())
                if count > 0:
                    await self.send(count)
                    wrote = time.monotonic()
                    # A fast reader never makes us wait; the others still want their turn.
                    await asyncio.sleep(0)
                    continue
                if time.monotonic() - wrote > keep_alive_seconds:
                    await self.keep_alive()
                    wrote = time.monotonic()
                await asyncio.sleep(TICK_SECONDS)
        except ConnectionResetError:
            return self.answer  # the client went: as clients do
        finally:
            self.state.connected(-1)

    def available(self, now: float) -> int:
        """The number of events to send now."""
        return min(_BATCH, self.state.following(now) - self.next)

    def frame(self, n: int) -> bytes:
        return frames.frame(self.state.feed, n)

    async def send(self, count: int) -> None:
        first, self.next = self.next, self.next + count
        # Counted before they are written: a client that has read them finds them counted.
        self.state.sent(self.next - 1, count)
        await self.write(b"".join(self.frame(n) for n in range(first, self.next)))

    async def keep_alive(self) -> None:
        await self.write(b": keep-alive\n\n")

    async def write(self, data: bytes) -> None:
        await self.answer.write(data)


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
        Everything else is Feed's. Raises ValueError for what Feed does not take.
        """
        super().__init__("replay")
        now = time.time()
        self._place = Place(place if rate else None, rate)
        pace = pace or rate or FULL_SPEED_PACE
        first = self._place.first
        self.state = State(
            Clock(born=now, rate=rate, first=first, total=total),
            Feed(start=now - first / pace if start is None else start, pace=pace, **feed),
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
        return self.state.feed

    @property
    def asked(self) -> list[Asked]:
        """The requests for the feed so far, oldest first (the last 1,000)."""
        return self.state.asked

    def burst(self, events: int, rate: float) -> int:
        """So many events from now on at this rate, then as before; gives the number of the first of them.
        Raises ValueError at full speed, and for what is no burst."""
        return self.state.burst(events, rate, time.time())

    def status(self) -> dict[str, Any]:
        """How far it is and who asked: State.to_json, and the feed's own values."""
        feed = {name: getattr(self.feed, name) for name in ("start", "pace", "seed", "servers", "users")}
        return self.state.to_json(time.time()) | {"feed": feed}

    # Inside its thread.

    async def _serve(self, end: asyncio.Event) -> None:
        app = web.Application()
        app.router.add_get(PATH, self.stream)
        app.router.add_get("/status", self._answer_status)
        app.router.add_post("/burst", self._answer_burst)
        # Connections never end by themselves: nothing to wait for.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._port).start()
            self._port = int(runner.addresses[0][1])
            self._ready.set()
            while not end.is_set():
                self._place.reached(self.state.following(time.time()))
                with suppress(TimeoutError):
                    await asyncio.wait_for(end.wait(), _PLACE_SECONDS)
        finally:
            await runner.cleanup()
            self._place.close(self.state.following(time.time()))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for the feed: 400 for a wrong position, 403 without a User-Agent."""
        now = time.time()
        try:
            first = self.first(request.headers.get("Last-Event-ID"), request.query.get("since"), now)
        except frames.BadPosition as error:
            return self.refuse(request, 400, f"{error}\n")
        if not request.headers.get("User-Agent"):
            return self.refuse(request, 403, "Say who you are in the header User-Agent.\n")
        self.state.wake(now)
        self._record(request, 200)
        connection = self.connection(request, first)
        return await connection.run(self._retry_ms, self._keep_alive_seconds)

    def connection(self, request: web.Request, first: int) -> Connection:
        return Connection(request, self.state, first)

    def refuse(
        self, request: web.Request, status: int, text: str, headers: dict[str, str] | None = None
    ) -> web.Response:
        self._record(request, status)
        return web.Response(status=status, text=text, headers=headers)

    def first(self, position: str | None, since: str | None, now: float) -> int:
        """The event that a client gets first. Raises BadPosition."""
        following = self.state.following(now)
        if position:
            # One from beyond the end is of another feed, as a rule: it gets what is new.
            return min(following, frames.after(position))
        if since is not None:
            return frames.since(self.feed, since)
        return 0 if self._from_start else following

    def _record(self, request: web.Request, status: int) -> None:
        said = request.headers
        self.state.note(Asked(time.time(), said.get("User-Agent", ""), said.get("Last-Event-ID"), status))

    async def _answer_status(self, _: web.Request) -> web.Response:
        return web.json_response(self.status())

    async def _answer_burst(self, request: web.Request) -> web.Response:
        # Not text: a page in a browser could send that here without asking.
        if request.content_type != "application/json":
            return web.json_response({"error": "send application/json"}, status=415)
        try:
            wanted = await request.json()
            return web.json_response({"n": self.burst(int(wanted["events"]), float(wanted["rate"]))})
        except (ValueError, TypeError, KeyError) as error:
            return web.json_response({"error": f"{error!r}: give events and rate"}, status=400)
