"""Which streams have a page, and the link to it. Light: every Airflow process imports this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.model.spec import stream as streams
from sluice.model.spec.stream import StreamSpec

# Where the app is mounted, below the path of Airflow's base URL.
PREFIX = "/sluice"
QUERIES = "Running queries"


def pages(specs: Sequence[StreamSpec]) -> list[tuple[str, str]]:
    """``<stream>.<query>`` and title of each query with a page."""
    return [
        (f"{spec.name}.{name}", query.page)
        for spec in specs
        for name, query in spec.queries.items()
        if query.page
    ]


def every() -> list[StreamSpec]:
    """All streams: each has a consumer, and so a query. Raises ConfigError where a stream.toml is wrong."""
    return [streams.load(name) for name in streams.names()]


def external_views(specs: Sequence[StreamSpec]) -> list[dict[str, Any]]:
    """One link per query with a page and one to the running queries, as Airflow's plugins declare them. The
    latter leads to the first stream's, whose page leads to the others.

    The addresses are relative: the browser resolves them against Airflow's ``<base>``, so they hold behind a
    base URL with a path.
    """
    results = [
        _view(title, f"results/{name}", f"sluice-{name.replace('.', '-')}") for name, title in pages(specs)
    ]
    running = [_view(QUERIES, f"queries/{spec.name}", "sluice-queries") for spec in specs[:1]]
    return results + running


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
