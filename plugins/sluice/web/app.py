"""The web app behind Airflow's login: pages, their data as JSON, metrics and static files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.config.sections.page import ALL, Page
from sluice.config.stream import StreamSpec
from sluice.config.streams import Declared
from sluice.core.errors import ClientError, Missing
from sluice.supervision.observer.component_view import LastCheck, component_views
from sluice.web import documents, navigation
from sluice.web import static_files as assets
from sluice.web.data.sources import Sources, sources
from sluice.web.declared import find_stream
from sluice.web.formats import public
from sluice.web.metrics import route as metrics
from sluice.web.query_json import queries_view, results_view
from sluice.web.rights import Reader, may_read_stream, reader
from sluice.web.static_files import Headers
from sluice.web.streams import pages as streams
from sluice.web.streams.health import last_check, stream_status
from sluice.web.templating import TEMPLATES

REFRESH_SECONDS = 10.0
YEAR_SECONDS = 31_536_000

# Who may open Airflow at all: what of a stream is shown is the stream's right. Not the right to see plugins,
# which of FAB's roles Viewer and User do not have.
may_read = requires_access_view(AccessView.WEBSITE)


def create(declared: Callable[[], Declared], refresh_seconds: float = REFRESH_SECONDS) -> FastAPI:
    """The app: the pages of streams, of each stream's queries, and of each query that declares one.

    Every route but the metrics requires the login, and those of a stream the right to read its DAGs.
    FastAPI's own routes (documentation), folders of static files and redirects would not, so they are off.
    ``declared``: the streams now; ``refresh_seconds``: polling interval of the pages.
    """
    app = FastAPI(
        title="Sluice",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Headers)
    app.add_exception_handler(ClientError, _client_error)
    app.add_exception_handler(ConfigError, _client_error)
    # Not of the login: Prometheus has none.
    app.include_router(metrics.router(declared))
    pages = APIRouter(dependencies=[Depends(may_read)])
    pages.include_router(streams.router(declared, refresh_seconds))
    pages.include_router(documents.router)

    def with_page(stream: str, name: str) -> tuple[StreamSpec, Page]:
        spec = find_stream(declared(), stream)
        if name in spec.queries and (found := spec.queries[name].page):
            return spec, found
        raise HTTPException(404, f"stream {stream!r} has no query {name!r} with a page")

    of_stream = [Depends(may_read_stream)]

    # Plain functions: each blocks, so FastAPI runs it in a thread.

    @pages.get("/results/{stream}.{name}", response_class=HTMLResponse, dependencies=of_stream)
    def page(request: Request, stream: str, name: str) -> HTMLResponse:
        spec, declared_page = with_page(stream, name)
        return TEMPLATES.TemplateResponse(
            request,
            "results.html",
            {
                "stream": stream,
                "name": name,
                "query": spec.queries[name],
                "page": declared_page,
                "words": {
                    "counted": declared_page.counted,
                    "names": declared_page.names.many,
                    "kinds": [asdict(words) for words in declared_page.kinds],
                },
                "refresh_seconds": refresh_seconds,
                "plotly_version": assets.plotly_version(),
            },
        )

    @pages.get("/api/results/{stream}.{name}", dependencies=of_stream)
    def data(
        stream: str,
        name: str,
        data_sources: Annotated[Sources, Depends(sources)],
        check: Annotated[LastCheck, Depends(last_check)],
        window: float | None = None,
        whose: str = ALL,
    ) -> JSONResponse:
        spec, declared_page = with_page(stream, name)
        choices = declared_page.choices
        if whose not in choices:
            raise HTTPException(422, f"whose is {shown(whose)}. Fix: ask for one of {', '.join(choices)}")
        results = data_sources.results(spec, name)
        view, now = results_view(results, declared_page, window, choices[whose]), time.time()
        components = component_views(spec, data_sources.lives(spec), check, now)
        status = stream_status(components, check, spec.supervision, now)
        return JSONResponse(view | {"now": now, "status": status})

    @pages.get("/queries")
    def any_queries(who: Annotated[Reader, Depends(reader)]) -> RedirectResponse:
        for stream in who.streams([spec.name for spec in declared().specs]):
            return RedirectResponse(f"queries/{stream}")
        raise HTTPException(404, "there is no stream whose DAGs you may read")

    @pages.get("/queries/{stream}", response_class=HTMLResponse, dependencies=of_stream)
    def queries_page(request: Request, stream: str, who: Annotated[Reader, Depends(reader)]) -> HTMLResponse:
        known = declared()
        spec = find_stream(known, stream)
        return TEMPLATES.TemplateResponse(
            request,
            "queries.html",
            {
                "stream": stream,
                "streams": who.streams([one.name for one in known.specs]),
                "pages": navigation.pages([spec]),
                "refresh_seconds": refresh_seconds,
                "plotly_version": assets.plotly_version(),
            },
        )

    @pages.get("/api/queries/{stream}", dependencies=of_stream)
    def queries_data(stream: str, data_sources: Annotated[Sources, Depends(sources)]) -> JSONResponse:
        find_stream(declared(), stream)
        return JSONResponse(queries_view(data_sources.progress(), stream, time.time()))

    @pages.get("/static/{name}")
    def static(name: str, v: str = "") -> FileResponse:
        path, media_type = assets.find(name)
        # With its version in the address a file never changes; else the browser asks each time.
        caching = f"private, max-age={YEAR_SECONDS}, immutable" if v else "private, no-cache"
        return FileResponse(path, media_type=media_type, headers={"Cache-Control": caching})

    app.include_router(pages)
    return app


def _client_error(request: Request, error: Exception) -> JSONResponse:
    missing = isinstance(error, Missing)
    return JSONResponse(
        {"detail": public(str(error)), "kind": "missing" if missing else "error"}, 404 if missing else 503
    )
