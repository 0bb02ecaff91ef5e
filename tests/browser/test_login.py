"""Nothing of the pages is to be had without Airflow's login: asked over HTTP of a real Airflow."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from prometheus_client.parser import text_string_to_metric_families

from tests.browser.conftest import Airflow
from tests.support.pages import STREAM, make_app

FILES = ("main.js", "queries.js", "page.css", "theme.js", "icon.svg", "plotly.min.js")
PATHS = (
    f"/sluice/reports/{STREAM}",
    f"/sluice/api/reports/{STREAM}",
    f"/sluice/api/reports/{STREAM}?window=1795276800&whose=bots",
    f"/sluice/queries/{STREAM}",
    f"/sluice/api/queries/{STREAM}",
    "/sluice/metrics",
    *(f"/sluice/static/{name}" for name in FILES),
)
# What must not tell even whether it is there, or has no answer of its own.
OTHERS = (
    "/sluice/reports/unknown",
    "/sluice/queries/unknown",
    "/sluice/api/queries/unknown",
    f"/sluice/api/reports/{STREAM}?window=nonsense",
    f"/sluice/api/reports/{STREAM}?whose=nonsense",
    "/sluice/static/unknown.js",
)


def test_every_route_of_the_app_is_asked_here() -> None:
    routes = [route for route in make_app().app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(make_app().app.routes), "a route that is none of FastAPI's own is not guarded"
    asked = [path.removeprefix("/sluice").partition("?")[0] for path in PATHS]
    for route in routes:
        assert any(route.path_regex.match(path) for path in asked), route.path


@pytest.mark.parametrize("path", [*PATHS, *OTHERS])
def test_without_a_login_401(airflow: Airflow, path: str) -> None:
    with airflow.client() as client:
        answer = client.get(path)
    assert answer.status_code == 401
    assert answer.json() == {"detail": "Not authenticated"}
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", [*PATHS, *OTHERS])
def test_without_the_right_403(airflow: Airflow, path: str) -> None:
    with airflow.client("nobody") as client:
        assert client.get(path).status_code == 403


def test_with_a_login_that_is_forged_403(airflow: Airflow) -> None:
    with airflow.client() as client:
        for path in PATHS:
            assert client.get(path, headers={"Authorization": "Bearer e30.e30.e30"}).status_code == 403


def test_with_the_right_200(airflow: Airflow) -> None:
    with airflow.client("viewer") as client:
        for path in PATHS:
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
        found = client.get(PATHS[1]).json()
    # Of Airflow's own database, in which nobody supervises anything.
    assert found["standing"]["supervision"] == {
        "dag": f"{STREAM}_stream",
        "paused": None,
        "at": None,
        "passed": None,
        "current": False,
    }


def test_fastapis_own_pages_are_not_there(airflow: Airflow) -> None:
    with airflow.client("viewer") as client:
        for path in ("docs", "redoc", "openapi.json", f"reports/{STREAM}/", "static/", "static/../app.py"):
            assert client.get(f"/sluice/{path}").status_code == 404, path


def test_prometheus_is_let_in_by_its_token(airflow: Airflow) -> None:
    """As docs/operating.md tells it: `Authorization: Bearer <token>`, the token by POST /auth/token."""
    with airflow.client("viewer") as client:
        answer = client.get("/sluice/metrics", headers={"Accept": "text/plain;version=0.0.4"})
    assert answer.headers["Content-Type"].startswith("text/plain")
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"sluice_query_batch_duration_seconds", "sluice_query_sign_age_seconds"} <= names


def test_the_navigation_has_a_link(airflow: Airflow) -> None:
    with airflow.client("viewer") as client:
        (plugin,) = client.get("/api/v2/plugins").json()["plugins"]
    views = plugin["external_views"]
    assert [view["name"] for view in views] == ["Wikipedia: busiest editors", "Running queries"]
    assert {view["destination"] for view in views} == {"nav"}
