"""Airflow's API server with Sluice's plugin, over made-up sources: `python -m tests.support.airflow_page`.

Everything but the sources is Airflow's own: the login, the rights, the database, the navigation. Its settings
come through the environment. The database is made from the models, which is migrations' result and takes a
second.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from airflow.api_fastapi.app import cached_app, get_auth_manager
from airflow.utils.db import initdb
from fastapi import FastAPI
from fastapi.routing import Mount

from sluice.config import streams
from sluice.web.data.airflow_db import OpenApproval
from sluice.web.data.sources import sources
from tests.support import fab_users, pages


def main() -> None:
    initdb()
    app = cached_app(apps="core")
    if fab_users.is_used(get_auth_manager()):
        fab_users.add(json.loads(Path(os.environ["AIRFLOW_HOME"], "passwords.json").read_text()))
    # Names that the page must show as they are, under Airflow's roof too.
    made = pages.make_app(pages.make_results(time.time(), names=pages.name_of))
    (mounted,) = [route.app for route in app.routes if isinstance(route, Mount) and route.path == "/sluice"]
    assert isinstance(mounted, FastAPI)
    mounted.dependency_overrides[sources] = made.app.dependency_overrides[sources]
    made.airflow = replace(made.airflow, approvals=list(approvals(time.time())))
    address = urlsplit(os.environ["AIRFLOW__API__BASE_URL"])
    uvicorn.run(app, host=address.hostname or "127.0.0.1", port=address.port or 0, log_level="warning")


def approvals(now: float) -> Iterator[OpenApproval]:
    """An open one of each stream: the first can be answered by Ada alone."""
    for number, stream in enumerate(streams.names()):
        named = () if number else ("Ada",)
        yield OpenApproval(
            f"{stream}_change", "a run", "approve_change", f"Revert {stream}?", now - 60, named
        )


if __name__ == "__main__":
    main()
