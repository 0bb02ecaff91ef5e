"""The metrics for Prometheus, by a static token: a login would expire, and a scrape has no user's rights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST

from sluice.clients.kafka.query_progress import QueryHistory
from sluice.config.streams import Declared
from sluice.core.errors import ClientError
from sluice.core.exposition import exposition, is_token
from sluice.web.data.sources import Sources, sources
from sluice.web.metrics.queries import QueryMetrics
from sluice.web.metrics.streams import StreamMetrics

log = logging.getLogger(__name__)

bearer = HTTPBearer(auto_error=False)


def may_scrape(
    given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    data: Annotated[Sources, Depends(sources)],
) -> None:
    """Answers 401 without the token of ``[metrics]`` in the platform file; always, if that has none."""
    token = data.metrics_token()
    if given is None or token is None or not is_token(given.credentials, token):
        raise HTTPException(401, "Not authenticated", {"WWW-Authenticate": "Bearer"})


def router(declared: Callable[[], Declared]) -> APIRouter:
    made = APIRouter(dependencies=[Depends(may_scrape)])

    # A plain function: it blocks, so FastAPI runs it in a thread.
    @made.get("/metrics")
    def metrics(data: Annotated[Sources, Depends(sources)]) -> Response:
        known = declared()
        found = {
            (stream, component): live
            for stream, lives in data.all_lives(known.specs).items()
            for component, live in lives.items()
        }
        text = exposition(
            StreamMetrics(found, time.time(), list(known.invalid), len(known.problems)),
            QueryMetrics(histories(data, [spec.name for spec in known.specs])),
        )
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return made


def histories(data: Sources, streams: Sequence[str]) -> dict[str, tuple[QueryHistory, ...] | None]:
    """Stream -> its queries, None if progress cannot be read. Raises ConfigError."""
    try:
        queries = data.progress().queries
    except ClientError as error:
        log.warning("query metrics are missing: %s", error)
        return dict.fromkeys(streams)
    return {stream: queries.get(stream, ()) for stream in streams}
