"""The web app behind Airflow's login: pages, their data as JSON, metrics and static files."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.templating import Jinja2Templates
from prometheus_client import CONTENT_TYPE_LATEST

from sluice.clients.errors import ClientError, Missing
from sluice.model.queries.progress import QueryHistory
from sluice.model.queries.prometheus import exposition
from sluice.model.spec.config import ConfigError
from sluice.model.spec.query import Query
from sluice.model.spec.stream import StreamSpec
from sluice.ui import assets, navigation
from sluice.ui.assets import Headers
from sluice.ui.data import Sources, sources
from sluice.ui.health import LastCheck, last_check, stream_status
from sluice.ui.views import EditorFilter, queries_view, results_view

log = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
YEAR_SECONDS = 31_536_000

# The right that Airflow's navigation asks for too.
may_read = requires_access_view(AccessView.PLUGINS)

TEMPLATES = Jinja2Templates(Path(__file__).parent / "templates")


def create(specs: Sequence[StreamSpec], refresh_seconds: float = REFRESH_SECONDS) -> FastAPI:
    """The app: a page per query that declares one, and a page of each stream's queries.

    Every route requires the login. FastAPI's own routes (documentation), folders of static files and
    redirects would not, so they are off. ``refresh_seconds``: polling interval of the pages.
    """
    app = FastAPI(
        title="Sluice",
        dependencies=[Depends(may_read)],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Headers)
    app.add_exception_handler(ClientError, _client_error)
    app.add_exception_handler(ConfigError, _client_error)

    names = [spec.name for spec in specs]

    def known_stream(stream: str) -> str:
        if stream not in names:
            raise HTTPException(404, f"no stream {stream!r}")
        return stream

    def declared(stream: str, name: str) -> tuple[StreamSpec, Query]:
        for spec in specs:
            if spec.name == stream and name in spec.queries and spec.queries[name].page:
                return spec, spec.queries[name]
        raise HTTPException(404, f"stream {stream!r} has no query {name!r} with a page")

    # Plain functions: each blocks, so FastAPI runs it in a thread.

    @app.get("/results/{stream}.{name}", response_class=HTMLResponse)
    def page(request: Request, stream: str, name: str) -> HTMLResponse:
        _, query = declared(stream, name)
        return TEMPLATES.TemplateResponse(
            request,
            "results.html",
            {
                "stream": stream,
                "name": name,
                "query": query,
                "refresh_seconds": refresh_seconds,
                "plotly_version": assets.plotly_version(),
            },
        )

    @app.get("/api/results/{stream}.{name}")
    def data(
        stream: str,
        name: str,
        data_sources: Annotated[Sources, Depends(sources)],
        check: Annotated[LastCheck, Depends(last_check)],
        window: float | None = None,
        whose: EditorFilter = EditorFilter.ALL,
    ) -> JSONResponse:
        spec, _ = declared(stream, name)
        view, now = results_view(data_sources.results(spec, name), window, whose), time.time()
        status = stream_status(data_sources.health(spec), check, spec.supervision, now)
        return JSONResponse(view | {"now": now, "status": status})

    @app.get("/queries/{stream}", response_class=HTMLResponse)
    def queries_page(request: Request, stream: str) -> HTMLResponse:
        return TEMPLATES.TemplateResponse(
            request,
            "queries.html",
            {
                "stream": known_stream(stream),
                "streams": names,
                "pages": navigation.pages([spec for spec in specs if spec.name == stream]),
                "refresh_seconds": refresh_seconds,
                "plotly_version": assets.plotly_version(),
            },
        )

    @app.get("/api/queries/{stream}")
    def queries_data(stream: str, data_sources: Annotated[Sources, Depends(sources)]) -> JSONResponse:
        return JSONResponse(queries_view(data_sources.progress(), known_stream(stream), time.time()))

    @app.get("/metrics")
    def metrics(data_sources: Annotated[Sources, Depends(sources)]) -> Response:
        return Response(exposition(histories(data_sources, names)), media_type=CONTENT_TYPE_LATEST)

    @app.get("/static/{name}")
    def static(name: str, v: str = "") -> FileResponse:
        path, media_type = assets.find(name)
        # With its version in the address a file never changes; else the browser asks each time.
        caching = f"private, max-age={YEAR_SECONDS}, immutable" if v else "private, no-cache"
        return FileResponse(path, media_type=media_type, headers={"Cache-Control": caching})

    return app


def histories(data_sources: Sources, streams: Sequence[str]) -> dict[str, tuple[QueryHistory, ...] | None]:
    """Stream -> its queries, None if progress cannot be read. Raises ConfigError."""
    try:
        queries = data_sources.progress().queries
    except ClientError as error:
        log.warning("query metrics are missing: %s", error)
        return dict.fromkeys(streams)
    return {stream: queries.get(stream, ()) for stream in streams}


def _client_error(request: Request, error: Exception) -> JSONResponse:
    missing = isinstance(error, Missing)
    return JSONResponse(
        {"detail": str(error), "kind": "missing" if missing else "error"}, 404 if missing else 503
    )
