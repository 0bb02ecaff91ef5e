"""A replay server with faults: cuts, refusals, silence, slow connections, anomalous events.

with FaultyReplay(rate=0, total=20_000) as replay:
    replay.set_faults(cut_every=500)  # must not matter
    replay.payload(17)                # the client must have received this
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from aiohttp import web

from local.replay import frames
from local.replay.events import Feed
from local.replay.server import TICK_SECONDS, Connection, Replay

# How a connection is cut: `end`, the answer ends as it should, after a whole event; `drop`, the connection
# is closed after a whole event, and the answer was not over; `half`, the same in the middle of an event;
# `half_end`, the answer ends as it should, in the middle of an event; `reset`, the connection is reset, and
# what is under way is lost; `hang`, half an event, and then nothing at all while the connection stays.
CUTS = ("end", "drop", "half", "half_end", "reset", "hang")
# Anomalies of an event. Not JSON: `broken`. JSON and no event: `list`, `no_meta_id`. Valid: `multi_line`
# (several `data:` lines), `comment` (comment lines in the middle), `no_sse_id` (no `id:` line), `legacy` (the
# shape of recentchange/2), `crlf` (lines end as in HTTP).
KINDS = ("broken", "multi_line", "comment", "no_sse_id", "no_meta_id", "legacy", "list", "crlf")
MALFORMED = ("broken", "no_meta_id", "list")


@dataclass(frozen=True)
class Faults:
    """Everything off by default.

    `cut_every`: a connection is cut as `cut` says after so many events; `cut_times`: so often, 0 for always.
    `refuse`: the next so many requests are answered with `refuse_status`; `refuse_seconds`: all of so long.
    `retry_after`: seconds, said with a refusal; 0 leaves it out.
    `silence_seconds`: for so long nothing is sent over any connection, not even a sign of life.
    `bytes_per_second`: of each connection; 0 for as fast as it is read.
    `anomaly_every`: one of N events is anomalous, in turn of the kinds in `anomalies`.
    `canary_every`: every so many events one is a canary (`meta.domain` is `canary`).
    `repeat`: a connection that resumes gets so many events again that it has had.
    """

    cut_every: int = 0
    cut: str = "half"
    cut_times: int = 0
    refuse: int = 0
    refuse_status: int = 503
    refuse_seconds: float = 0.0
    retry_after: int = 0
    silence_seconds: float = 0.0
    bytes_per_second: int = 0
    anomaly_every: int = 0
    anomalies: tuple[str, ...] = KINDS
    canary_every: int = 0
    repeat: int = 0

    def __post_init__(self) -> None:
        if self.cut not in CUTS or not set(self.anomalies) <= set(KINDS):
            raise ValueError(f"{self}: cut is one of {CUTS}, anomalies of {KINDS}")

    def anomaly(self, n: int) -> str | None:
        """The anomaly of event n: a kind, `canary`, or None."""
        if self.canary_every and n % self.canary_every == self.canary_every - 1:
            return "canary"
        if self.anomaly_every and n % self.anomaly_every == self.anomaly_every - 1:
            return self.anomalies[n // self.anomaly_every % len(self.anomalies)]
        return None


class _Cut(Exception):
    """The connection was cut on purpose."""


class FaultyReplay(Replay):
    """A Replay with faults that can be set while it runs, from any thread."""

    def __init__(self, rate: float = 50.0, **options: Any) -> None:
        self._guard = threading.Lock()
        self.faults = Faults()
        self._since = 0.0
        self._cuts = self._refused = 0
        super().__init__(rate, **options)

    def set_faults(self, **changed: Any) -> None:
        """Change some faults from now on; their counts and times start again."""
        with self._guard:
            self.faults = replace(self.faults, **changed)
            self._cuts = self._refused = 0
            self._since = time.time()

    def clear_faults(self) -> None:
        """End all faults but the anomalies of events: an event stays as it is."""
        now = asdict(self.faults)
        kept = {name: now[name] for name in ("anomalies", "anomaly_every", "canary_every")}
        self.set_faults(**asdict(Faults()) | kept)

    def anomaly(self, n: int) -> str | None:
        return self.faults.anomaly(n)

    def payload(self, n: int) -> str:
        """The data of event n as a client must receive it."""
        return payload(self.feed, n, self.anomaly(n))

    def is_silent(self, now: float) -> bool:
        return now < self._since + self.faults.silence_seconds

    def is_cut(self) -> bool:
        """Whether a connection that may be cut now is; counts it."""
        with self._guard:
            self._cuts += 1
            return self.faults.cut_times == 0 or self._cuts <= self.faults.cut_times

    def connection(self, request: web.Request, first: int) -> Connection:
        return FaultyConnection(self, request, first)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        with self._guard:
            faults = self.faults
            self._refused += 1
            refused = self._refused <= faults.refuse or time.time() < self._since + faults.refuse_seconds
        if refused:
            headers = {"Retry-After": str(faults.retry_after)} if faults.retry_after else {}
            return self.refuse(request, faults.refuse_status, "a fault on purpose\n", headers)
        return await super().stream(request)

    def first(self, position: str | None, since: str | None, now: float) -> int:
        first = super().first(position, since, now)
        return max(0, first - self.faults.repeat) if position else first


class FaultyConnection(Connection):
    def __init__(self, server: FaultyReplay, request: web.Request, first: int) -> None:
        super().__init__(request, server.state, first)
        self._server = server
        self._since_cut = 0

    async def run(self, retry_ms: int, keep_alive_seconds: float) -> web.StreamResponse:
        try:
            return await super().run(retry_ms, keep_alive_seconds)
        except _Cut:
            return self.answer

    def available(self, now: float) -> int:
        return 0 if self._server.is_silent(now) else super().available(now)

    def frame(self, n: int) -> bytes:
        return frame(self.state.feed, n, self._server.faults)

    async def keep_alive(self) -> None:
        if not self._server.is_silent(time.time()):
            await super().keep_alive()

    async def send(self, count: int) -> None:
        faults = self._server.faults
        if faults.cut_every:
            if self._since_cut >= faults.cut_every:
                self._since_cut = 0
                if self._server.is_cut():
                    await self._cut(faults.cut)
            count = min(count, faults.cut_every - self._since_cut)
        self._since_cut += count
        await super().send(count)

    async def write(self, data: bytes) -> None:
        slowly = self._server.faults.bytes_per_second
        if not slowly:
            await super().write(data)
            return
        step = max(1, int(slowly * TICK_SECONDS))
        for begin in range(0, len(data), step):
            await super().write(data[begin : begin + step])
            await asyncio.sleep(step / slowly)

    async def _cut(self, how: str) -> None:
        if how in ("half", "half_end", "hang"):
            await self.answer.write(half(self.state.feed, self.next, self.frame(self.next)))
        if how == "hang":
            await asyncio.Event().wait()
        transport = self.request.transport
        if how in ("end", "half_end"):
            await self.answer.write_eof()
        elif transport is not None and how == "reset":
            linger = struct.pack("ii", 1, 0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            transport.abort()
        elif transport is not None:
            # Not abort: what was sent before the cut arrives.
            transport.close()
        raise _Cut


def half(feed: Feed, n: int, data: bytes) -> bytes:
    """A part of an event, at least a byte, never whole; where it ends depends on the event's number."""
    return data[: 1 + int(feed.event_id(n)[:8], 16) % (len(data) - 1)]


def frame(feed: Feed, n: int, faults: Faults) -> bytes:
    """Event n on the wire, with its anomaly."""
    kind = faults.anomaly(n)
    if kind is None:
        return frames.frame(feed, n)
    lines = ["event: message", f"id: {frames.sse_id(feed, n)}"]
    lines += [f"data: {line}" for line in payload(feed, n, kind).split("\n")]
    if kind == "no_sse_id":
        del lines[1]
    if kind == "comment":
        lines[1:1] = [": in the middle of an event", ":"]
    end = "\r\n" if kind == "crlf" else "\n"
    return (end.join(lines) + end * 2).encode()


def payload(feed: Feed, n: int, kind: str | None) -> str:
    """The data of event n, as a client must have it (several `data:` lines joined by a line end)."""
    text = feed.data(n)
    if kind == "broken":
        return text[: len(text) // 2]
    if kind in (None, "comment", "no_sse_id", "crlf"):
        return text
    event: dict[str, Any] = json.loads(text)
    if kind == "multi_line":
        return json.dumps(event, ensure_ascii=False, indent=1)
    if kind == "list":
        return json.dumps([event], ensure_ascii=False)
    if kind == "no_meta_id":
        del event["meta"]["id"]
    if kind == "canary":
        event["meta"]["domain"] = "canary"
    if kind == "legacy":
        event = legacy(event)
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def legacy(event: dict[str, Any]) -> dict[str, Any]:
    """An event in the shape it had before streams had versioned schemas (mediawiki/recentchange/2)."""
    meta = {name: value for name, value in event["meta"].items() if name != "stream"}
    meta |= {
        "schema_uri": "mediawiki/recentchange/2",
        "dt": event["meta"]["dt"].partition(".")[0] + "+00:00",
    }
    return {"meta": meta} | {
        name: value for name, value in event.items() if name not in ("$schema", "meta", "title_url")
    }
