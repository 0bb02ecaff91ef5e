"""Which streams have a page, and the link to it. Light: every Airflow process imports this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.model import stream as streams
from sluice.model.stream import StreamSpec

# Where the app is mounted, below the path of Airflow's base URL.
PREFIX = "/sluice"
QUERIES = "Running queries"


def with_report() -> list[StreamSpec]:
    """The streams that declare a report. Raises ConfigError where a stream.toml is wrong."""
    return [spec for spec in map(streams.load, streams.names()) if spec.report]


def every() -> list[StreamSpec]:
    """All streams: each has a consumer, and so a query. Raises ConfigError where a stream.toml is wrong."""
    return [streams.load(name) for name in streams.names()]


def external_views(specs: Sequence[StreamSpec]) -> list[dict[str, Any]]:
    """One link per report and one to the running queries, as Airflow's plugins declare them. That leads to
    the first stream's, whose page leads to the others.

    The addresses are relative: the browser resolves them against Airflow's ``<base>``, so they hold behind a
    base URL with a path.
    """
    reports = [
        _view(spec.report.title, f"reports/{spec.name}", f"sluice-{spec.name}")
        for spec in specs
        if spec.report
    ]
    running = [_view(QUERIES, f"queries/{spec.name}", "sluice-queries") for spec in specs[:1]]
    return reports + running


def _view(name: str, path: str, route: str) -> dict[str, Any]:
    root = PREFIX.removeprefix("/")
    return {
        "name": name,
        "href": f"{root}/{path}",
        "destination": "nav",
        "nav_top_level": True,
        "url_route": route,
        "icon": f"{root}/static/icon.svg",
    }
