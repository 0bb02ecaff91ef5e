"""One connection to the feed, from its first event until somebody ends it."""

from __future__ import annotations

import asyncio
import socket
import struct
import time

from aiohttp import web

from local.replay.feed import Feed
from local.replay.frames import frame
from local.replay.state import State

# Events are rendered and written so many at a time, and looked for so often where the clock brings them.
_BATCH = 100
_TICK_SECONDS = 0.05
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}


class Connection:
    """Sends the feed from event `first` on, with the faults that are on at each moment."""

    def __init__(self, request: web.Request, state: State, first: int) -> None:
        self._request = request
        self._state = state
        self._next = first
        self._answer = web.StreamResponse(headers=_HEADERS)

    async def run(self, retry_ms: int, keep_alive_seconds: float) -> web.StreamResponse:
        """Returns when the connection was cut on purpose; is cancelled when the client or the server goes."""
        self._state.connected(1)
        try:
            await self._answer.prepare(self._request)
            await self._write((f"retry: {retry_ms}\n" if retry_ms else "").encode() + b":ok\n\n")
            return await self._send(keep_alive_seconds)
        except ConnectionResetError:
            return self._answer  # the client went: as clients do
        finally:
            self._state.connected(-1)

    async def _send(self, keep_alive_seconds: float) -> web.StreamResponse:
        since_cut = 0
        spoke = time.monotonic()
        while True:
            now, faults, feed = time.time(), self._state.faults, self._state.feed
            count = min(_BATCH, self._state.following(now) - self._next)
            if count <= 0 or self._state.silent(now):
                if not self._state.silent(now) and time.monotonic() - spoke > keep_alive_seconds:
                    await self._write(b": keep-alive\n\n")
                    spoke = time.monotonic()
                await asyncio.sleep(_TICK_SECONDS)
                continue
            if faults.cut_every:
                if since_cut >= faults.cut_every:
                    since_cut = 0
                    if self._state.cut():
                        return await self._cut(faults.cut)
                count = min(count, faults.cut_every - since_cut)
            numbers = range(self._next, self._next + count)
            self._next += count
            since_cut += count
            # Before they go: whoever has read them finds them counted.
            self._state.sent(self._next - 1, count)
            await self._write(b"".join([frame(feed, n, faults) for n in numbers]))
            spoke = time.monotonic()
            # A fast reader never makes us wait; the others still want their turn.
            await asyncio.sleep(0)

    async def _write(self, data: bytes) -> None:
        slowly = self._state.faults.bytes_per_second
        if not slowly:
            await self._answer.write(data)
            return
        step = max(1, int(slowly * _TICK_SECONDS))
        for begin in range(0, len(data), step):
            await self._answer.write(data[begin : begin + step])
            await asyncio.sleep(step / slowly)

    async def _cut(self, how: str) -> web.StreamResponse:
        if how in ("half", "half_end", "hang"):
            feed, n = self._state.feed, self._next
            await self._answer.write(half(feed, n, frame(feed, n, self._state.faults)))
        if how == "hang":
            await asyncio.Event().wait()
        if how in ("end", "half_end"):
            await self._answer.write_eof()
            return self._answer
        transport = self._request.transport
        if transport is None:
            return self._answer
        if how == "reset":
            linger = struct.pack("ii", 1, 0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            transport.abort()
        else:
            # Not abort: what was sent before the cut arrives.
            transport.close()
        return self._answer


def half(feed: Feed, n: int, data: bytes) -> bytes:
    """A part of an event, at least a byte, never whole; where it ends depends on the event's number."""
    return data[: 1 + int(feed.event_id(n)[:8], 16) % (len(data) - 1)]
