"""The drills' proxy with what tests need besides: faults by method, delays and cut connections."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from aiohttp import ClientResponse, ClientSession, web

from local.drills.proxy import FaultProxy, FaultRule, accept_body, cut_connection


@dataclass(frozen=True)
class Fault(FaultRule):
    """``method``: "" for any. First ``delay`` (seconds), then one of: ``status``; ``cut="request"``, the
    connection is cut before the server hears of it; ``cut="answer"``, after the server has carried it out;
    else the request passes."""

    pattern: str = ""
    method: str = ""
    status: int = 0
    cut: Literal["", "request", "answer"] = ""
    delay: float = 0.0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.status and self.cut:
            raise ValueError(f"{self}: status or cut, not both")
        if not (self.status or self.cut or self.delay):
            raise ValueError(f"{self}: give a status, a cut or a delay")
        super().__post_init__()

    def fits(self, method: str, target: str) -> bool:
        return self.method in ("", method) and super().fits(method, target)


class CuttingProxy(FaultProxy):
    async def _handle(
        self, request: web.BaseRequest, rule: FaultRule | None, session: ClientSession
    ) -> web.StreamResponse:
        if isinstance(rule, Fault):
            await asyncio.sleep(rule.delay)
            if rule.cut == "request":
                self._record(request, rule, None)
                return cut_connection(request)
            if not rule.status:
                accept_body(request)
                return await self._forward(request, rule, session)
        return await super()._handle(request, rule, session)

    async def _pass_on(
        self, request: web.BaseRequest, rule: FaultRule | None, answer: ClientResponse
    ) -> web.StreamResponse:
        if isinstance(rule, Fault) and rule.cut == "answer":
            self._record(request, rule, None)
            return cut_connection(request)
        return await super()._pass_on(request, rule, answer)
