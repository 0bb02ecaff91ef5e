"""An HTTP reverse proxy in front of an S3 server that injects faults by key.

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
class FaultRule:
    """Answer `status` in S3's format to requests whose unquoted target, `/bucket/key?query`, contains a match
    of `pattern`, `times` times (None: always). The first matching rule counts."""

    pattern: str
    status: int
    times: int | None = None

    def __post_init__(self) -> None:
        re.compile(self.pattern)

    def fits(self, method: str, target: str) -> bool:
        return re.search(self.pattern, target) is not None


@dataclass(frozen=True)
class RequestLog:
    """A request: its unquoted target, the matching rule, the status sent (None: connection cut)."""

    method: str
    target: str
    rule: FaultRule | None
    status: int | None


class FaultProxy(ServerThread):
    """The proxy, in a thread of its own. Any thread may call its methods."""

    def __init__(self, upstream: str, port: int = 0) -> None:
        """`upstream`: the server's address without a path. `port`: 0 for a free one."""
        super().__init__("fault-proxy")
        self._upstream = URL(upstream)
        self._port = port
        self._guard = threading.Lock()
        self._rules: list[FaultRule] = []
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
        """The number of requests that matched a rule."""
        return sum(1 for request in self.requests if request.rule is not None)

    def add(self, rule: FaultRule) -> None:
        with self._guard:
            self._rules.append(rule)
            self._left.append(rule.times)

    def clear(self) -> None:
        with self._guard:
            self._rules.clear()
            self._left.clear()

    async def _serve(self, end: asyncio.Event) -> None:
        async with ClientSession(
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None, sock_connect=10),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
        ) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                rule = self._rule(request.method, unquote(request.raw_path))
                return await self._handle(request, rule, session)

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

    def _rule(self, method: str, target: str) -> FaultRule | None:
        with self._guard:
            for index, rule in enumerate(self._rules):
                left = self._left[index]
                if left == 0 or not rule.fits(method, target):
                    continue
                if left is not None:
                    self._left[index] = left - 1
                return rule
        return None

    def _record(self, request: web.BaseRequest, rule: FaultRule | None, status: int | None) -> None:
        with self._guard:
            self._requests.append(RequestLog(request.method, unquote(request.raw_path), rule, status))

    async def _handle(
        self, request: web.BaseRequest, rule: FaultRule | None, session: ClientSession
    ) -> web.StreamResponse:
        accept_body(request)
        if rule is None:
            return await self._forward(request, rule, session)
        self._record(request, rule, rule.status)
        return await _refusal(request, rule.status)

    async def _forward(
        self, request: web.BaseRequest, rule: FaultRule | None, session: ClientSession
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
                return await self._pass_on(request, rule, answer)
        except ClientConnectionError:
            # As with the server itself: if it is down there is no answer, not even an error.
            self._record(request, rule, None)
            return cut_connection(request)

    async def _pass_on(
        self, request: web.BaseRequest, rule: FaultRule | None, answer: ClientResponse
    ) -> web.StreamResponse:
        self._record(request, rule, answer.status)
        headers = _end_to_end(answer.headers)
        response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
        await response.prepare(request)
        async for chunk in answer.content.iter_chunked(_CHUNK):
            await response.write(chunk)
        await response.write_eof()
        return response


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)


def accept_body(request: web.BaseRequest) -> None:
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


def cut_connection(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    # Never sent: there is no connection to send it over.
    return web.Response()
