"""The server: sends each client the events after its position, at the feed's rate."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from local.replay import frames
from local.replay.events import Feed
from local.replay.schedule import Clock, RequestRecord, SavedPosition, State
from local.runtime.processes import ServerThread

HOST = "127.0.0.1"
PATH = "/v2/stream/recentchange"
# Events per second of their own time, if they are sent as fast as they are read.
FULL_SPEED_EVENT_RATE = 2_000.0
_SAVE_SECONDS = 1.0
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
        """Send events until one side closes the connection."""
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
                    # The write never waits for a fast reader: let the other connections run.
                    await asyncio.sleep(0)
                    continue
                if time.monotonic() - wrote > keep_alive_seconds:
                    await self.keep_alive()
                    wrote = time.monotonic()
                await asyncio.sleep(TICK_SECONDS)
        except ConnectionResetError:
            return self.answer  # the client closed the connection
        finally:
            self.state.connected(-1)

    def available(self, now: float) -> int:
        """The number of events to send now."""
        return min(_BATCH, self.state.following(now) - self.next)

    def frame(self, n: int) -> bytes:
        return frames.frame(self.state.feed, n)

    async def send(self, count: int) -> None:
        first, self.next = self.next, self.next + count
        # Counted first: a client that has read them finds them in the status.
        self.state.sent(self.next - 1, count)
        await self.write(b"".join(self.frame(n) for n in range(first, self.next)))

    async def keep_alive(self) -> None:
        await self.write(b": keep-alive\n\n")

    async def write(self, data: bytes) -> None:
        await self.answer.write(data)


class Replay(ServerThread):
    """The server, in a thread of its own from `with` to its end. Any thread may call its methods."""

    def __init__(
        self,
        rate: float = 50.0,
        *,
        port: int = 0,
        total: int | None = None,
        from_start: bool = False,
        start: float | None = None,
        event_rate: float | None = None,
        retry_ms: int = 1_000,
        keep_alive_seconds: float = 15.0,
        position_file: Path | None = None,
        wait_for_client: bool = False,
        **feed: Any,
    ) -> None:
        """See `python -m local.replay --help`; `feed`: Feed's other fields. At rate 0 `from_start` is always
        set, `event_rate` defaults to 2,000, and `position_file` is ignored. Raises ValueError for invalid
        values of Feed.
        """
        super().__init__("replay")
        now = time.time()
        self._position = SavedPosition(position_file if rate else None, rate)
        event_rate = event_rate or rate or FULL_SPEED_EVENT_RATE
        first = self._position.first
        self.state = State(
            Clock(born=now, rate=rate, first=first, total=total),
            Feed(start=now - first / event_rate if start is None else start, rate=event_rate, **feed),
            asleep=wait_for_client,
        )
        self._from_start = from_start or rate == 0
        self._retry_ms = retry_ms
        self._keep_alive_seconds = keep_alive_seconds
        self._port = port

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
    def requests(self) -> list[RequestRecord]:
        """The last 1,000 requests for the feed, oldest first."""
        return self.state.requests

    def burst(self, events: int, rate: float) -> int:
        """See State.burst."""
        return self.state.burst(events, rate, time.time())

    def status(self) -> dict[str, Any]:
        """State.to_json, and the feed's own values."""
        feed = {name: getattr(self.feed, name) for name in ("start", "rate", "seed", "servers", "users")}
        return self.state.to_json(time.time()) | {"feed": feed}

    async def _serve(self, end: asyncio.Event) -> None:
        app = web.Application()
        app.router.add_get(PATH, self.stream)
        app.router.add_get("/status", self._answer_status)
        app.router.add_post("/burst", self._answer_burst)
        # Connections never end by themselves.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._port).start()
            self._port = int(runner.addresses[0][1])
            self._ready.set()
            while not end.is_set():
                self._position.reached(self.state.following(time.time()))
                with suppress(TimeoutError):
                    await asyncio.wait_for(end.wait(), _SAVE_SECONDS)
        finally:
            await runner.cleanup()
            self._position.close(self.state.following(time.time()))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer a request for the feed: 400 for an invalid position, 403 without a User-Agent."""
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
        """The first event for a client. Raises BadPosition."""
        following = self.state.following(now)
        if position:
            # A position beyond the end is usually of another feed: it gets new events.
            return min(following, frames.after(position))
        if since is not None:
            return frames.since(self.feed, since)
        return 0 if self._from_start else following

    def _record(self, request: web.Request, status: int) -> None:
        headers = request.headers
        position = headers.get("Last-Event-ID")
        self.state.record(RequestRecord(time.time(), headers.get("User-Agent", ""), position, status))

    async def _answer_status(self, _: web.Request) -> web.Response:
        return web.json_response(self.status())

    async def _answer_burst(self, request: web.Request) -> web.Response:
        # A browser lets a page post text to another site without a preflight request.
        if request.content_type != "application/json":
            return web.json_response({"error": "send application/json"}, status=415)
        try:
            body = await request.json()
            return web.json_response({"n": self.burst(int(body["events"]), float(body["rate"]))})
        except (ValueError, TypeError, KeyError) as error:
            return web.json_response({"error": f"{error!r}. Fix: give events and rate"}, status=400)
