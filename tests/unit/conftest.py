"""Unit tests reach no network: a test that tries fails at once, naming the address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket

from sluice.airflow import hook
from sluice.airflow.triggers import requests, samples
from tests.support.variables import Variables


@pytest.fixture(autouse=True)
def _new_triggerer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a triggerer does: without samples and without abandoned requests."""
    monkeypatch.setattr(samples, "_kept", OrderedDict())
    monkeypatch.setattr(requests, "ABANDONED", requests.Abandoned())


@pytest.fixture(autouse=True)
def _new_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with a database of Airflow without Variables."""
    monkeypatch.setattr(hook, "Variable", Variables())


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
