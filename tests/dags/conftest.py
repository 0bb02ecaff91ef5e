"""The DAG bag as Airflow's DAG processor would fill it, without a database and without the network."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_socket import disable_socket, enable_socket

from sluice.config import folders
from tests.support import declarations
from tests.support.declarations import DagFile

REPO = Path(__file__).resolve().parents[2]
DAGS = REPO / "dags"

# Before Airflow is imported: it reads its configuration, and makes its home, then.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="sluice-airflow-"))
# Drills are there on an embedded stack only.
os.environ["SLUICE_HOME"] = tempfile.mkdtemp(prefix="sluice-home-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()


@pytest.fixture(scope="session")
def bag() -> Any:
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(dag_folder=str(DAGS))
    assert not found.import_errors, found.import_errors
    return found


@pytest.fixture(scope="session")
def dag_file() -> DagFile:
    return DagFile(DAGS / "streams.py")


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of streams: two valid ones."""
    root = tmp_path / "streams"
    monkeypatch.setattr(folders, "STREAMS", root)
    for name in declarations.VALID:
        declarations.make(root, name)
    return root


def files() -> list[Path]:
    """Every DAG file."""
    return sorted(path for path in DAGS.rglob("*.py") if not path.name.startswith("_"))
