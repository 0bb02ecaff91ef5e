"""An HTTP reverse proxy in front of an S3 server that injects faults by method and key.

It forwards byte for byte: target, Host header, body as a stream. So the server accepts a signature made for
the proxy's address.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiohttp import (
    ClientConnectionError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    hdrs,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from local.runtime.processes import ServerThread

HOST = "127.0.0.1"
_HOP_BY_HOP = frozenset(
    name.lower()
    for name in (
        *("Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer"),
        # The proxy itself answers 100; the server gets the body at once.
        *("Transfer-Encoding", "Upgrade", "Expect"),
    )
)
_CHUNK = 64 * 1024
_REMEMBERED = 10_000
_CODES = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied", 404: "NoSuchKey"}


@dataclass(frozen=True)
class Fault:
    """What happens to requests of `method` ("" for any) whose unquoted target, `/bucket/key?query`, contains
    a match of `pattern`, `times` times (None: always). The first matching fault counts.

    First `delay` (seconds), then one of: `status`, an answer in S3's format; `cut="request"`, the connection
    is cut before the server receives it; `cut="answer"`, after the server has carried it out; `cut="body"`,
    behind so many bytes of the answer's body as `body_bytes` says; else the request passes.
    """

    pattern: str = ""
    method: str = ""
    status: int = 0
    cut: Literal["", "request", "answer", "body"] = ""
    body_bytes: int = 0
    delay: float = 0.0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.status and self.cut:
            raise ValueError(f"{self}: status or cut, not both")
        if not (self.status or self.cut or self.delay):
            raise ValueError(f"{self}: give a status, a cut or a delay")
        re.compile(self.pattern)

    def fits(self, method: str, target: str) -> bool:
        return self.method in ("", method) and re.search(self.pattern, target) is not None


@dataclass(frozen=True)
class RequestLog:
    """A request: its unquoted target, the matching fault, the status sent (None: connection cut)."""

    method: str
    target: str
    fault: Fault | None
    status: int | None


class FaultProxy(ServerThread):
    """The proxy, in a thread of its own. Any thread may call its methods."""

    def __init__(self, upstream: str, port: int = 0) -> None:
        """`upstream`: the server's address without a path. `port`: 0 for a free one."""
        super().__init__("fault-proxy")
        self._upstream = URL(upstream)
        self._port = port
        self._guard = threading.Lock()
        self._faults: list[Fault] = []
        self._left: list[int | None] = []
        self._requests: deque[RequestLog] = deque(maxlen=_REMEMBERED)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def requests(self) -> list[RequestLog]:
        """The last 10,000 requests, oldest first."""
        with self._guard:
            return list(self._requests)

    def matches(self) -> int:
        """The number of requests that matched a fault."""
        return sum(1 for request in self.requests if request.fault is not None)

    def add(self, fault: Fault) -> None:
        with self._guard:
            self._faults.append(fault)
            self._left.append(fault.times)

    def clear(self) -> None:
        with self._guard:
            self._faults.clear()
            self._left.clear()

    async def _serve(self, end: asyncio.Event) -> None:
        async with ClientSession(
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None, sock_connect=10),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
        ) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                fault = self._fault(request.method, unquote(request.raw_path))
                return await self._handle(request, fault, session)

            runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, HOST, self._port)
                await site.start()
                self._port = int(runner.addresses[0][1])
                self._ready.set()
                await end.wait()
            finally:
                await runner.cleanup()

    def _fault(self, method: str, target: str) -> Fault | None:
        with self._guard:
            for index, fault in enumerate(self._faults):
                left = self._left[index]
                if left == 0 or not fault.fits(method, target):
                    continue
                if left is not None:
                    self._left[index] = left - 1
                return fault
        return None

    def _record(self, request: web.BaseRequest, fault: Fault | None, status: int | None) -> None:
        with self._guard:
            self._requests.append(RequestLog(request.method, unquote(request.raw_path), fault, status))

    async def _handle(
        self, request: web.BaseRequest, fault: Fault | None, session: ClientSession
    ) -> web.StreamResponse:
        if fault is not None:
            await asyncio.sleep(fault.delay)
            if fault.cut == "request":
                return self._cut(request, fault)
        _accept_body(request)
        if fault is None or not fault.status:
            return await self._forward(request, fault, session)
        self._record(request, fault, fault.status)
        return await _refusal(request, fault.status)

    async def _forward(
        self, request: web.BaseRequest, fault: Fault | None, session: ClientSession
    ) -> web.StreamResponse:
        try:
            async with session.request(
                request.method,
                self._upstream.join(URL(request.raw_path, encoded=True)),
                headers=_end_to_end(request.headers),
                data=request.content if request.body_exists else None,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                allow_redirects=False,
            ) as answer:
                if fault is not None and fault.cut == "answer":
                    return self._cut(request, fault)
                return await self._pass_on(request, fault, answer)
        except ClientConnectionError:
            # As with the server itself: if it is down there is no answer, not even an error.
            return self._cut(request, fault)

    async def _pass_on(
        self, request: web.BaseRequest, fault: Fault | None, answer: ClientResponse
    ) -> web.StreamResponse:
        self._record(request, fault, answer.status)
        headers = _end_to_end(answer.headers)
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        await response.prepare(request)
        left = fault.body_bytes if fault is not None and fault.cut == "body" else None
        async for chunk in answer.content.iter_chunked(_CHUNK):
            await response.write(chunk[:left])
            if left is not None and (left := max(left - len(chunk), 0)) == 0:
                return self._cut_off(request, response)
        await response.write_eof()
        return response

    @staticmethod
    def _cut_off(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
        if request.transport is not None:
            # What was written is sent.
            request.transport.close()
        return response

    def _cut(self, request: web.BaseRequest, fault: Fault | None) -> web.Response:
        self._record(request, fault, None)
        if request.transport is not None:
            request.transport.abort()
        # Never sent: there is no connection to send it over.
        return web.Response()


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)


def _accept_body(request: web.BaseRequest) -> None:
    """Send 100 to a client that waits for it before its body, as the AWS SDKs do with every PUT: aiohttp's
    low-level server does not, and they would wait for seconds."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _refusal(request: web.BaseRequest, status: int) -> web.Response:
    # The body first: a client that still sends it would see a cut connection.
    async for _ in request.content.iter_chunked(_CHUNK):
        pass
    code = _CODES.get(status, "InternalError")
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
        f"<Message>injected fault: {status}</Message><RequestId>drill</RequestId></Error>"
    )
    body = b"" if request.method == hdrs.METH_HEAD else text.encode()
    return web.Response(status=status, body=body, content_type="application/xml")
