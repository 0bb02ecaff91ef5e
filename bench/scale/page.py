"""The page of all streams, as the API server makes it of hundreds: in a process with their declarations and
a database of Airflow, beside an observer's process that knows each component of three hours.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

from sluice.config import streams
from sluice.config.platform_sections.metrics import ObserverAccess
from sluice.config.stream import StreamSpec
from sluice.supervision.observer.live import Live, Point
from sluice.supervision.observer.server import Server

TOKEN, PARTITIONS, TURNS = "t" * 32, 10, 7
# Finished checks of each stream in its database, and loads that run: a day's, and some.
CHECKS, LOADS = 20, 2


def prepare() -> None:
    """Before Airflow is imported."""
    database = Path(mkdtemp(prefix="sluice-scale-db-")) / "airflow.db"
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{database}"


def page(names: list[str]) -> dict[str, Any]:
    """The median of a page whose every value is too old and read again, and of one within a moment."""
    from fastapi.testclient import TestClient

    from sluice.supervision.observer.client import ObserverClient
    from sluice.web.app import create
    from sluice.web.data.observed import Observed
    from sluice.web.data.sources import Sources, sources
    from tests.support.pages import allow_everything

    specs = list(streams.load_valid().specs)
    _fill_database(specs)
    port = _serve(_known(specs))
    client = ObserverClient(ObserverAccess(f"http://127.0.0.1:{port}", TOKEN))

    def cold() -> Sources:
        # The page and what is read for it share the declarations, as the server's do.
        made = Sources()
        made.observed = Observed(lambda: client)
        return made

    made = cold()
    app = create(lambda: made.declared())
    allow_everything(app)
    app.dependency_overrides[sources] = lambda: made
    figures: dict[str, list[float]] = {"page_ms": [], "page_cpu_ms": [], "page_again_ms": []}
    with TestClient(app) as browser:
        for _ in range(TURNS):
            made = cold()
            began, cpu = time.perf_counter(), time.process_time()
            text = browser.get("/streams").text
            figures["page_ms"].append(time.perf_counter() - began)
            figures["page_cpu_ms"].append(time.process_time() - cpu)
            began = time.perf_counter()
            browser.get("/streams")
            figures["page_again_ms"].append(time.perf_counter() - began)
    if any(f'id="stream-{name}"' not in text for name in names) or "does not answer" in text:
        raise ValueError(f"the page lacks streams, or the observer: {text[:500]}")
    milliseconds = {name: round(1000 * statistics.median(found)) for name, found in figures.items()}
    return {"page_kb": len(text) // 1000, **milliseconds}


def _known(specs: list[StreamSpec]) -> dict[str, dict[str, Live]]:
    """What is known of each component, with the points of three hours."""
    from tests.support import observed

    now, found = time.time(), dict[str, dict[str, Live]]()
    for (stream, component), live in observed.streams(specs, now).lives.items():
        if live.points:
            points = [
                Point(
                    at, {p: int(at) + p for p in range(PARTITIONS)}, {p: int(at) for p in range(PARTITIONS)}
                )
                for at in (now - 30 * number for number in range(360, -1, -1))
            ]
            live = replace(live, points=points)
        found.setdefault(stream, {})[component] = live
    return found


def _serve(known: Mapping[str, Mapping[str, Live]]) -> int:
    """The port of an observer's server, in a process of its own that ends with this one."""

    class Known:
        def all_lives(self) -> Mapping[str, Mapping[str, Live]]:
            return known

        def lives(self, stream: str) -> Mapping[str, Live]:
            return known.get(stream, {})

        def is_working(self) -> bool:
            return True

    server = Server(("127.0.0.1", 0), TOKEN, cast("Any", Known()))
    multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True).start()
    server.socket.close()
    return int(server.server_port)


def _fill_database(specs: list[StreamSpec]) -> None:
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.settings import engine
    from sqlalchemy import insert

    import_all_models()
    now = datetime.now(UTC)
    common = {"bundle_name": "dags-folder", "max_active_tasks": 16, "max_active_runs": 1}
    common |= {"max_consecutive_failed_dag_runs": 0, "has_task_concurrency_limits": False}
    dags, runs = list[dict[str, object]](), list[dict[str, object]]()
    for spec in specs:
        dags.append({"dag_id": f"{spec.name}_stream", "is_paused": False, **common})
        made = [("stream", "success", number) for number in range(CHECKS)]
        for kind, state, number in [*made, *(("load", "running", number) for number in range(LOADS))]:
            at = now - timedelta(minutes=2 * number + 1)
            runs.append(
                {
                    "id": len(runs) + 1,
                    "dag_id": f"{spec.name}_{kind}",
                    "run_id": f"scheduled__{number}",
                    "run_type": "scheduled",
                    "state": state,
                    "run_after": at,
                    "start_date": at,
                    "end_date": at if state == "success" else None,
                }
            )
    if engine is None:
        raise ValueError("Airflow has no database")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(DagBundleModel.__table__).values(name="dags-folder"))
        connection.execute(insert(DagModel.__table__), dags)
        connection.execute(insert(DagRun.__table__), runs)
