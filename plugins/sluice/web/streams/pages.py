"""The pages of streams: one for all, one of each, and the log of a process. The server renders them whole."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from sluice.catalog_check.status import CatalogStatus
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import CONSUMER, StreamSpec
from sluice.config.streams import Declared
from sluice.core.errors import ClientError
from sluice.core.json_record import Document
from sluice.core.messages import iso
from sluice.core.schema_versions.stream import StreamSchema
from sluice.supervision.observer.component import CHART_SECONDS
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import Live
from sluice.supervision.rules.guide import GUIDES
from sluice.web import formats, navigation
from sluice.web.data.airflow_db import LoadRun, OpenApproval
from sluice.web.data.sources import Sources, sources
from sluice.web.declared import find_stream
from sluice.web.rights import Reader, may_read_log, may_read_stream, reader
from sluice.web.streams.overview import Overview, StreamView, points_view, stream_view
from sluice.web.templating import TEMPLATES

MAX_EVENTS = 30
LOG_LINES = 15
clock = time.time


def router(declared: Callable[[], Declared], refresh_seconds: float) -> APIRouter:
    """Routes below ``/streams``; each shows streams only to who may read their DAGs."""
    made = APIRouter(prefix="/streams", default_response_class=HTMLResponse)

    def page(request: Request, template: str, depth: int, now: float, **values: Any) -> HTMLResponse:
        common = {
            "root": "../" * depth,
            "now": now,
            "time": partial(_time, now=now),
            "refresh_seconds": refresh_seconds,
            "proof_page": partial(_below, navigation.ledger_page, document="proof"),
        }
        return TEMPLATES.TemplateResponse(request, template, common | values)

    @made.get("")
    def overview(
        request: Request,
        who: Annotated[Reader, Depends(reader)],
        data: Annotated[Sources, Depends(sources)],
    ) -> HTMLResponse:
        known, now = declared(), clock()
        readable = set(who.streams([*(spec.name for spec in known.specs), *known.invalid]))
        specs = [spec for spec in known.specs if spec.name in readable]
        reasons = {name: why for name, why in known.invalid.items() if name in readable}
        view = Overview(now, _views(specs, data.all_lives(specs), data, now), reasons, known.problems)
        return page(request, "streams.html", 0, now, view=view, cycle_seconds=data.observed.cycle_seconds)

    @made.get("/{stream}", dependencies=[Depends(may_read_stream)])
    def one(
        request: Request,
        stream: str,
        who: Annotated[Reader, Depends(reader)],
        data: Annotated[Sources, Depends(sources)],
    ) -> HTMLResponse:
        spec, now = find_stream(declared(), stream), clock()
        (view,) = _views([spec], {stream: data.lives(spec)}, data, now)
        live = data.observed.live(stream, CONSUMER)
        events, events_error = _events(spec, data)
        schema, schema_error = _schema(spec, data)
        catalog, catalog_error = _catalog(data)
        return page(
            request,
            "stream.html",
            1,
            now,
            view=view,
            spec=spec,
            source=spec.source.value,
            pages=navigation.pages([spec]),
            charts=points_view(live, now, CHART_SECONDS),
            chart_seconds=CHART_SECONDS,
            batches=live.batches,
            schema=schema,
            schema_error=schema_error,
            catalog=catalog,
            catalog_error=catalog_error,
            left_to_catalog=_left_to_catalog(data),
            events=events,
            events_error=events_error,
            logs=_logs(spec, data) if who.may_read_log(stream) else None,
            guides={health: guide.for_stream(stream) for health, guide in GUIDES.items()},
        )

    @made.get("/{stream}/log/{component}", dependencies=[Depends(may_read_log)])
    def log(
        request: Request, stream: str, component: str, data: Annotated[Sources, Depends(sources)]
    ) -> HTMLResponse:
        spec = find_stream(declared(), stream)
        if component not in spec.components:
            raise HTTPException(404, f"stream {stream!r} has no component {component!r}")
        lines = data.log(spec, component)
        return page(request, "log.html", 3, clock(), stream=stream, component=component, lines=lines)

    return made


def _views(
    specs: list[StreamSpec], lives: Mapping[str, Mapping[str, Live]], data: Sources, now: float
) -> list[StreamView]:
    known = data.airflow()
    approvals, runs = defaultdict[str, list[OpenApproval]](list), defaultdict[str, list[LoadRun]](list)
    for approval in known.approvals:
        approvals[approval.dag].append(approval)
    for run in known.runs:
        runs[run.dag].append(run)
    return [
        stream_view(
            spec,
            lives[spec.name],
            known.checks.get(spec.name) or LastCheck(f"{spec.name}_stream"),
            approvals[f"{spec.name}_change"],
            [*runs[f"{spec.name}_load"], *runs[f"{spec.name}_backfill"]],
            now,
        )
        for spec in specs
    ]


def _logs(spec: StreamSpec, data: Sources) -> Mapping[str, list[str]]:
    found = {}
    for component in spec.components:
        try:
            found[component] = data.log(spec, component)[-LOG_LINES:]
        except ClientError as error:
            found[component] = [formats.public(str(error))]
    return found


def _left_to_catalog(data: Sources) -> list[str]:
    """What is left to the catalog by declaration, or why that is not known."""
    try:
        return data.left_to_catalog()
    except ConfigError as error:
        return [f"not known: {error}"]


def _schema(spec: StreamSpec, data: Sources) -> tuple[StreamSchema | None, str]:
    """The schema of the stream's table; why it cannot be read."""
    try:
        return data.schema(spec), ""
    except (ClientError, ConfigError) as error:
        return None, str(error)


def _catalog(data: Sources) -> tuple[CatalogStatus | None, str]:
    """What was found of the lake's catalog; why it cannot be read."""
    try:
        return data.catalog(), ""
    except (ClientError, ConfigError) as error:
        return None, str(error)


def _events(spec: StreamSpec, data: Sources) -> tuple[list[dict[str, Any]], str]:
    """The newest events of all components, newest first; why they cannot be read."""
    try:
        found = data.events(spec)
    except (ClientError, ConfigError) as error:
        return [], str(error)
    newest = sorted(found, key=lambda one: str(one[1]["at"]), reverse=True)[:MAX_EVENTS]
    return [
        {
            "at": datetime.fromisoformat(event["at"]).timestamp(),
            "component": component,
            "title": _title(event),
            "text": str(event.get("message") or event.get("reason") or ""),
        }
        for component, event in newest
    ], ""


def _title(event: Document) -> str:
    """``healthy``, ``restart by schedule``, ``recovered in 8 s``."""
    kind = str(event["kind"])
    words = [str(event["health"]) if kind == "health" else kind.replace("_", " ")]
    if kind == "recovered":
        words.append(f"in {event['seconds']:.0f} s")
    if event.get("who"):
        words.append(f"by {event['who']}")
    return " ".join(words)


def _time(at: float, now: float) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(iso(at), formats.moment(at, now))


def _below(address: Callable[..., str], *arguments: str, **keywords: str) -> str:
    """An address relative to the app's root."""
    return address(*arguments, **keywords).removeprefix(f"{navigation.PREFIX.removeprefix('/')}/")
