"""Registers Sluice's pages with Airflow, and does nothing else: every Airflow process imports this file."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from sluice.config.streams import load_valid
from sluice.web import links, navigation


class SluicePlugin(AirflowPlugin):
    name = "sluice"
    external_views = navigation.external_views(load_valid().specs)
    operator_extra_links: ClassVar[list[Any]] = list(links.LINKS)

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """Made when the API server asks for it: tasks and the scheduler never do, and need no FastAPI."""
        from sluice.web.app import create
        from sluice.web.data.sources import sources

        app = create(lambda: sources().declared())
        return [{"app": app, "url_prefix": navigation.PREFIX, "name": "sluice"}]
