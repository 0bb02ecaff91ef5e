"""Unit tests reach no network: a test that tries fails at once, naming the address.

Sluice is imported by fixtures: pytest-xdist's first process reads this file, and runs no test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket

from tests.support.variables import Variables


@pytest.fixture(autouse=True)
def _new_triggerer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a triggerer does: without samples and without abandoned requests."""
    from sluice.airflow.triggers import requests, samples

    monkeypatch.setattr(samples.STORE, "_kept", {})
    monkeypatch.setattr(requests, "ABANDONED", requests.Abandoned())


@pytest.fixture(autouse=True)
def _new_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with a database of Airflow without Variables."""
    from sluice.airflow import hook

    monkeypatch.setattr(hook, "Variable", Variables())


@pytest.fixture(autouse=True)
def _kept_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of data files share DuckDB's databases."""
    from sluice.clients.lake.reading import data_files
    from tests.support.kept_databases import kept

    monkeypatch.setattr(data_files, "connected", kept)


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
