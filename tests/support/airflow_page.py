"""Airflow's API server with Sluice's plugin, over made-up sources: `python -m tests.support.airflow_page`.

Everything but the sources is Airflow's own: the login, the rights, the database, the navigation. Its settings
come through the environment. The database is made from the models, which is migrations' result and takes a
second.
"""

from __future__ import annotations

import os
import time
from urllib.parse import urlsplit

import uvicorn
from airflow.api_fastapi.app import cached_app
from airflow.utils.db import initdb
from fastapi import FastAPI
from fastapi.routing import Mount

from sluice.ui import documents
from sluice.ui.data import sources
from tests.support import pages


def main() -> None:
    initdb()
    app = cached_app(apps="core")
    # Names that the page must show as they are, under Airflow's roof too.
    made = pages.make_app(pages.make_results(time.time(), names=pages.name_of))
    (mounted,) = [route.app for route in app.routes if isinstance(route, Mount) and route.path == "/sluice"]
    assert isinstance(mounted, FastAPI)
    mounted.dependency_overrides[sources] = made.app.dependency_overrides[sources]
    # Not the dependency, which asks for the right.
    documents.open_ledger = lambda stream: pages.ledger()  # type: ignore[assignment]
    address = urlsplit(os.environ["AIRFLOW__API__BASE_URL"])
    uvicorn.run(app, host=address.hostname or "127.0.0.1", port=address.port or 0, log_level="warning")


if __name__ == "__main__":
    main()
