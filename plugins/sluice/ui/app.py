"""The app behind Airflow's login: a page per query with a results table and per stream's queries, their data
as JSON, the queries as metrics, and the files."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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
from sluice.ui.health import Supervised, standing, supervised
from sluice.ui.views import EditorFilter, queries_view, results_view

log = logging.getLogger(__name__)

REFRESH_SECONDS = 10.0
YEAR_SECONDS = 31_536_000

# Who may see Airflow's plugins may see what they show: the navigation asks for the same right.
may_read = requires_access_view(AccessView.PLUGINS)

TEMPLATES = Jinja2Templates(Path(__file__).parent / "templates")


def create(specs: Sequence[StreamSpec], refresh_seconds: float = REFRESH_SECONDS) -> FastAPI:
    """The app for the streams ``specs``, with a page for each query that declares one, and one for each
    stream's queries; pages ask for news every ``refresh_seconds``.

    Every route is behind the login. FastAPI's own routes (its documentation), folders of static files and
    redirects would not be, so there are none.
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

    # No coroutines: each of these blocks, so FastAPI runs it in a thread.

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
        known: Annotated[Sources, Depends(sources)],
        looks: Annotated[Supervised, Depends(supervised)],
        window: float | None = None,
        whose: EditorFilter = EditorFilter.ALL,
    ) -> JSONResponse:
        spec, _ = declared(stream, name)
        found: dict[str, Any] = results_view(known.results(spec, name), window, whose)
        now = time.time()
        found["now"] = now
        found["standing"] = standing(known.verdicts(spec), looks, spec.supervision, now)
        return JSONResponse(found)

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
    def queries_data(stream: str, known: Annotated[Sources, Depends(sources)]) -> JSONResponse:
        return JSONResponse(queries_view(known.progress(), known_stream(stream), time.time()))

    @app.get("/metrics")
    def metrics(known: Annotated[Sources, Depends(sources)]) -> Response:
        return Response(exposition(histories(known, names), time.time()), media_type=CONTENT_TYPE_LATEST)

    @app.get("/static/{name}")
    def static(name: str, v: str = "") -> FileResponse:
        path, media_type = assets.find(name)
        # With its version in the address a file never changes; else the browser asks each time.
        caching = f"private, max-age={YEAR_SECONDS}, immutable" if v else "private, no-cache"
        return FileResponse(path, media_type=media_type, headers={"Cache-Control": caching})

    return app


def histories(known: Sources, streams: Sequence[str]) -> dict[str, tuple[QueryHistory, ...] | None]:
    """Stream -> its queries, None if progress is not readable. Raises ConfigError."""
    try:
        queries = known.progress().queries
    except ClientError as error:
        log.warning("metrics of queries are missing: %s", error)
        return dict.fromkeys(streams)
    return {stream: queries.get(stream, ()) for stream in streams}


def _client_error(request: Request, error: Exception) -> JSONResponse:
    """What the page cannot know, with the reason: 404 where it is not there, 503 where it did not answer."""
    missing = isinstance(error, Missing)
    return JSONResponse(
        {"detail": str(error), "kind": "missing" if missing else "trouble"}, 404 if missing else 503
    )
