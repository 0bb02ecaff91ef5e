"""Nothing of the pages is to be had without Airflow's login: asked over HTTP of a real Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute
from prometheus_client.parser import text_string_to_metric_families

from tests.support.airflow_server import Airflow
from tests.support.observed import RUN
from tests.support.pages import QUERY, STREAM, TOKEN, make_app

FILES = (
    "results.js",
    "queries.js",
    "live.js",
    "page.css",
    "streams.css",
    "theme.js",
    "icon.svg",
    "plotly.min.js",
)
PATHS = (
    f"/sluice/results/{STREAM}.{QUERY}",
    f"/sluice/api/results/{STREAM}.{QUERY}",
    f"/sluice/api/results/{STREAM}.{QUERY}?window=1795276800&whose=bots",
    "/sluice/queries",
    f"/sluice/queries/{STREAM}",
    f"/sluice/api/queries/{STREAM}",
    "/sluice/streams",
    f"/sluice/streams/{STREAM}",
    f"/sluice/streams/{STREAM}/log/consumer",
    f"/sluice/streams/{STREAM}/runs/{quote(RUN)}",
    f"/sluice/streams/{STREAM}/runs/{quote(RUN)}/proof",
    f"/sluice/streams/{STREAM}/runs/{quote(RUN)}/proof.json",
    *(f"/sluice/static/{name}" for name in FILES),
)
# What must not tell even whether it is there, or has no answer of its own.
OTHERS = (
    "/sluice/results/unknown.editors",
    "/sluice/queries/unknown",
    "/sluice/api/queries/unknown",
    f"/sluice/api/results/{STREAM}.{QUERY}?window=nonsense",
    f"/sluice/api/results/{STREAM}.{QUERY}?whose=nonsense",
    "/sluice/streams/unknown",
    "/sluice/streams/unknown/log/consumer",
    f"/sluice/streams/unknown/runs/{quote(RUN)}/proof",
    f"/sluice/streams/{STREAM}/runs/unknown",
    f"/sluice/streams/{STREAM}/log/unknown",
    "/sluice/static/unknown.js",
)
METRICS = "/sluice/metrics"


@pytest.fixture(scope="module")
def anonymous(airflow: Airflow) -> Iterator[httpx.Client]:
    with airflow.client() as client:
        yield client


@pytest.fixture(scope="module")
def rightless(airflow: Airflow) -> Iterator[httpx.Client]:
    """Logged in, without a right."""
    with airflow.client("rightless") as client:
        yield client


@pytest.fixture(scope="module")
def viewer(airflow: Airflow) -> Iterator[httpx.Client]:
    with airflow.client("viewer") as client:
        yield client


def test_every_route_of_the_app_is_asked_here() -> None:
    app = make_app().app
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes), "a route that is none of FastAPI's own is not guarded"
    asked = [path.removeprefix("/sluice").partition("?")[0] for path in (*PATHS, METRICS)]
    for route in routes:
        assert any(route.path_regex.match(path) for path in asked), route.path


@pytest.mark.parametrize("path", [*PATHS, *OTHERS])
def test_who_may_have_it(
    anonymous: httpx.Client, rightless: httpx.Client, viewer: httpx.Client, path: str
) -> None:
    """Without a login 401; without the right, or with a forged login, 403; an answer only with the right."""
    answer = anonymous.get(path)
    assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"})
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert rightless.get(path).status_code == 403
    assert anonymous.get(path, headers={"Authorization": "Bearer e30.e30.e30"}).status_code == 403
    answer = viewer.get(path)
    assert answer.status_code == 200 if path in PATHS else answer.status_code in (404, 422)
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]


def test_supervision_is_that_of_airflows_own_database(viewer: httpx.Client) -> None:
    """An Airflow without supervision."""
    found = viewer.get(f"/sluice/api/results/{STREAM}.{QUERY}").json()
    assert found["status"]["supervision"] == {
        "dag": f"{STREAM}_stream",
        "paused": None,
        "at": None,
        "passed": None,
        "current": False,
    }


def test_fastapis_own_pages_are_not_there(viewer: httpx.Client) -> None:
    for path in ("docs", "redoc", "openapi.json", f"reports/{STREAM}/", "static/", "static/../app.py"):
        assert viewer.get(f"/sluice/{path}").status_code == 404, path


def test_prometheus_is_let_in_by_its_token_alone(anonymous: httpx.Client, viewer: httpx.Client) -> None:
    """As docs/reference.md tells it: `Authorization: Bearer <token>`, the platform file's. No login is."""
    assert [client.get(METRICS).status_code for client in (anonymous, viewer)] == [401, 401]
    bearer = {"Accept": "text/plain;version=0.0.4", "Authorization": f"Bearer {TOKEN}"}
    answer = anonymous.get(METRICS, headers=bearer)
    assert answer.headers["Content-Type"].startswith("text/plain")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"sluice_query_batch_duration_seconds", "sluice_stream_lag_records"} <= names
