"""The plugin: what it registers, and what it costs the processes that have no page."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from airflow.plugins_manager import is_valid_plugin
from fastapi import FastAPI

from sluice.config import streams
from sluice.web import navigation
from tests.support import pages

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = spec_from_file_location("sluice_plugin", PLUGINS / "sluice_plugin.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_link_to_all_streams_one_for_each_query_with_a_page_and_one_to_the_queries() -> None:
    taxi = streams.load("nyc_taxi")
    streams_page = {
        "name": "Streams",
        "href": "sluice/streams",
        "destination": "nav",
        "nav_top_level": True,
        "url_route": "sluice-streams",
        "icon": "sluice/static/icon.svg",
    }
    assert navigation.external_views([]) == [streams_page]
    assert navigation.external_views([taxi, pages.spec()]) == [
        streams_page,
        {
            "name": "Wikipedia: top editors",
            "href": "sluice/results/wiki_changes.editors",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "sluice-wiki_changes-editors",
            "icon": "sluice/static/icon.svg",
        },
        {
            "name": "Running queries",
            "href": "sluice/queries",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "sluice-queries",
            "icon": "sluice/static/icon.svg",
        },
    ]


def test_the_streams_of_the_repository() -> None:
    assert navigation.pages(streams.load_all()) == [("wiki_changes.editors", "Wikipedia: top editors")]
    assert [spec.name for spec in streams.load_all()] == streams.names()


def test_addresses_are_relative_and_quote_what_a_run_id_has() -> None:
    run = "scheduled__2026-01-01T00:00:00+00:00#000002"
    quoted = "sluice/streams/nyc_taxi/runs/scheduled__2026-01-01T00%3A00%3A00%2B00%3A00%23000002"
    assert navigation.stream_page("nyc_taxi") == "sluice/streams/nyc_taxi"
    assert navigation.ledger_page("nyc_taxi", run, "proof") == f"{quoted}/proof"
    assert navigation.ledger_page("nyc_taxi", run) == quoted
    assert navigation.log_page("nyc_taxi", "consumer") == "sluice/streams/nyc_taxi/log/consumer"


def test_the_plugin_registers_the_app_once(plugin: ModuleType) -> None:
    assert is_valid_plugin(plugin.SluicePlugin)
    made = plugin.SluicePlugin()
    assert [view["url_route"] for view in made.external_views] == [
        *("sluice-streams", "sluice-wiki_changes-editors", "sluice-queries")
    ]
    (app,) = made.fastapi_apps
    assert (app["url_prefix"], app["name"]) == ("/sluice", "sluice")
    assert isinstance(app["app"], FastAPI)
    # Airflow asks for it again each time a person opens its list of plugins.
    assert made.fastapi_apps[0]["app"] is app["app"]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("sluice.web.navigation", "fastapi airflow pyiceberg boto3 pyarrow plotly"),
        ("sluice.web.links", "fastapi pyiceberg boto3 pyarrow plotly pyspark sluice.airflow"),
    ],
)
def test_a_task_that_loads_the_plugin_imports_no_page_and_no_step(module: str, absent: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PLUGINS)},
    )
    assert not set(absent.split()) & set(done.stdout.split())


def test_airflow_executes_nothing_else_of_the_folder() -> None:
    from airflow._shared.module_loading import find_path_from_directory

    found = find_path_from_directory(str(PLUGINS), ".airflowignore", "glob")
    assert {Path(path).name for path in found if path.endswith(".py")} == {"sluice_plugin.py"}
