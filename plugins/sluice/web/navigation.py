"""Links to the pages. Light: every Airflow process imports this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from sluice.config.stream import StreamSpec
from sluice.core.addresses import PREFIX, stream_page

STREAMS = "Streams"
QUERIES = "Running queries"


def ledger_page(stream: str, run_id: str, document: str = "") -> str:
    """Address of a run's document in the ledger (a name of ``ledger.run_key``), or of the list of them."""
    # Run ids contain ":" and "+", load ids "#".
    run = f"{stream_page(stream)}/runs/{quote(run_id, safe='')}"
    return f"{run}/{quote(document, safe='')}" if document else run


def log_page(stream: str, component: str) -> str:
    """Address of the last lines of the log of the component's process."""
    return f"{stream_page(stream)}/log/{component}"


def pages(specs: Sequence[StreamSpec]) -> list[tuple[str, str]]:
    """``<stream>.<query>`` and title of each query with a page."""
    return [
        (f"{spec.name}.{name}", query.page.title)
        for spec in specs
        for name, query in spec.queries.items()
        if query.page
    ]


def external_views(specs: Sequence[StreamSpec]) -> list[dict[str, Any]]:
    """Airflow's external views: all streams, a query with a page each, and running queries.

    Airflow shows them, titles and addresses, to everybody who may see plugins: it knows no rights per view.
    Addresses are relative: the browser resolves them against Airflow's ``<base>``.
    """
    results = [
        _view(title, f"results/{name}", f"sluice-{name.replace('.', '-')}") for name, title in pages(specs)
    ]
    running = [_view(QUERIES, "queries", "sluice-queries")] if specs else []
    return [_view(STREAMS, "streams", "sluice-streams"), *results, *running]


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
