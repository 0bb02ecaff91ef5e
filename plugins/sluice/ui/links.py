"""Which streams have a page, and the link to it. Light: every Airflow process imports this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.model import stream as streams
from sluice.model.stream import StreamSpec

# Where the app is mounted, below the path of Airflow's base URL.
PREFIX = "/sluice"


def with_report() -> list[StreamSpec]:
    """The streams that declare a report. Raises ConfigError where a stream.toml is wrong."""
    return [spec for spec in map(streams.load, streams.names()) if spec.report]


def external_views(specs: Sequence[StreamSpec]) -> list[dict[str, Any]]:
    """One link per report, as Airflow's plugins declare them.

    The addresses are relative: the browser resolves them against Airflow's ``<base>``, so they hold behind a
    base URL with a path.
    """
    root = PREFIX.removeprefix("/")
    return [
        {
            "name": spec.report.title,
            "href": f"{root}/reports/{spec.name}",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": f"sluice-{spec.name}",
            "icon": f"{root}/static/icon.svg",
        }
        for spec in specs
        if spec.report
    ]
