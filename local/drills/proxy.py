"""An HTTP reverse proxy in front of an S3 server that can be told to fail: by method, by key, so many times.

What it lets through it lets through byte for byte: the target as it was written, the Host header, the body as
a stream, nothing unpacked. So a signature made for the proxy's address is one that the server accepts, and
what it answers is what the client gets.

    with FaultProxy("http://127.0.0.1:19000") as proxy:
        proxy.add(Rule(pattern="^/warehouse/lake/", status=503, times=3))
        client = boto3.client("s3", endpoint_url=proxy.url, …)
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiohttp import (
    ClientConnectionError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    hdrs,
    web,
)
from multidict import CIMultiDict
from yarl import URL

from local.runtime.processes import ThreadedServer

HOST = "127.0.0.1"
# Of one connection, not of the body that follows.
_HOP_BY_HOP = frozenset(
    name.lower()
    for name in (
        *("Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "TE", "Trailer"),
        # The 100 is said here; the server is sent the body at once.
        *("Transfer-Encoding", "Upgrade", "Expect"),
    )
)
_CHUNK = 64 * 1024
_REMEMBERED = 10_000
_CODES = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied", 404: "NoSuchKey"}


@dataclass(frozen=True)
class Rule:
    """One fault. What it is for: `method` ("": any) and `pattern`, a regular expression that is searched in
    the unquoted target, `/bucket/key?query`.

    What happens, first `delay` (seconds), then one of: `status` is answered in S3's words without asking the
    server; `cut="request"`, the connection is cut before the server hears of it; `cut="answer"`, the server
    does what it is asked, and the client never learns; else the request passes.
    `times`: how often, None for always. Of several rules that fit, the one that was added first counts.
    """

    pattern: str = ""
    method: str = ""
    status: int | None = None
    cut: Literal["", "request", "answer"] = ""
    delay: float = 0.0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.cut:
            raise ValueError(f"{self}: status or cut, not both")
        if self.status is None and not self.cut and not self.delay:
            raise ValueError(f"{self}: give a status, a cut or a delay")
        re.compile(self.pattern)

    def fits(self, method: str, target: str) -> bool:
        return self.method in ("", method) and re.search(self.pattern, target) is not None


@dataclass(frozen=True)
class Seen:
    """A request that came: its target unquoted, the rule that it met, and the status that was answered
    (None where the connection was cut)."""

    method: str
    target: str
    rule: Rule | None
    status: int | None


class FaultProxy(ThreadedServer):
    """The proxy, in a thread of its own from `with` to its end. Its methods may be called from any thread."""

    def __init__(self, upstream: str, rules: Iterable[Rule] = (), port: int = 0) -> None:
        """`upstream`: the server's address without a path. `port`: 0 for a free one."""
        super().__init__("fault-proxy")
        self._upstream = URL(upstream)
        self._port = port
        self._guard = threading.Lock()
        self._rules: list[Rule] = list(rules)
        self._left: list[int | None] = [rule.times for rule in self._rules]
        self._seen: deque[Seen] = deque(maxlen=_REMEMBERED)

    # From outside.

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def seen(self) -> list[Seen]:
        """The requests so far, oldest first (the last 10,000)."""
        with self._guard:
            return list(self._seen)

    def hits(self) -> int:
        """How many of the requests met a rule."""
        return sum(1 for request in self.seen if request.rule is not None)

    def add(self, rule: Rule) -> None:
        with self._guard:
            self._rules.append(rule)
            self._left.append(rule.times)

    def clear(self) -> None:
        """No more faults; what is being delayed goes on afterwards."""
        with self._guard:
            self._rules.clear()
            self._left.clear()

    # Inside its thread.

    async def _serve(self, end: asyncio.Event) -> None:
        async with ClientSession(
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None, sock_connect=10),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
        ) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                return await self._handle(request, session)

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

    def _rule(self, method: str, target: str) -> Rule | None:
        with self._guard:
            for index, rule in enumerate(self._rules):
                left = self._left[index]
                if left == 0 or not rule.fits(method, target):
                    continue
                if left is not None:
                    self._left[index] = left - 1
                return rule
        return None

    def _note(self, request: web.BaseRequest, rule: Rule | None, status: int | None) -> None:
        with self._guard:
            self._seen.append(Seen(request.method, unquote(request.raw_path), rule, status))

    async def _handle(self, request: web.BaseRequest, session: ClientSession) -> web.StreamResponse:
        rule = self._rule(request.method, unquote(request.raw_path))
        if rule is not None and rule.delay:
            await asyncio.sleep(rule.delay)
        if not (rule is not None and rule.cut == "request"):
            _let_it_send(request)
        if rule is not None and rule.status is not None:
            self._note(request, rule, rule.status)
            return await _refusal(request, rule.status)
        if rule is not None and rule.cut == "request":
            self._note(request, rule, None)
            return _cut(request)
        target = self._upstream.join(URL(request.raw_path, encoded=True))
        headers = _passed(request.headers)
        try:
            async with session.request(
                request.method,
                target,
                headers=headers,
                data=request.content if request.body_exists else None,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
                allow_redirects=False,
            ) as answer:
                if rule is not None and rule.cut == "answer":
                    self._note(request, rule, None)
                    return _cut(request)
                self._note(request, rule, answer.status)
                passed = web.StreamResponse(
                    status=answer.status, reason=answer.reason, headers=_passed(answer.headers)
                )
                await passed.prepare(request)
                async for part in answer.content.iter_chunked(_CHUNK):
                    await passed.write(part)
                await passed.write_eof()
                return passed
        except ClientConnectionError:
            # As with the server itself: where it is not there, there is no answer, not even an error.
            self._note(request, rule, None)
            return _cut(request)


def _passed(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)


def _let_it_send(request: web.BaseRequest) -> None:
    """Says 100 to a client that waits for it before it sends its body, as the AWS SDKs do with every PUT:
    aiohttp's low-level server does not, and they would wait for seconds."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


async def _refusal(request: web.BaseRequest, status: int) -> web.Response:
    # The body first: a client that still sends it would take the answer for a cut connection.
    async for _ in request.content.iter_chunked(_CHUNK):
        pass
    code = _CODES.get(status, "InternalError")
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
        f"<Message>a fault on purpose: {status}</Message><RequestId>drill</RequestId></Error>"
    )
    body = b"" if request.method == hdrs.METH_HEAD else text.encode()
    return web.Response(status=status, body=body, content_type="application/xml")


def _cut(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    # Never sent: there is no connection to send it over.
    return web.Response()
