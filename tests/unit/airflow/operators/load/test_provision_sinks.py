"""The queries' sinks are made, and their connections handed over to the process that writes to them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.connections import write_connection_file
from sluice.airflow.operators.load.provision import ProvisionSinksOperator
from sluice.clients.databases import results as databases
from sluice.config import connection
from sluice.config.connection import Database
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query
from sluice.config.sections.topic import Topic
from tests.support.raising import raising
from tests.support.steps import given

CONNECTION = "AIRFLOW_CONN_SLUICE_RESULTS"
WHERE = Database("postgresql", "127.0.0.1", 5432, "results", "results", "very-secret")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(connection.DIRECTORY_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_connection_is_handed_over_for_its_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert write_connection_file("sluice_results", WHERE)
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("sluice_results.toml", 0o600)
    assert connection.load("sluice_results") == WHERE
    assert not write_connection_file("sluice_results", WHERE), "nothing is written where nothing changed"
    path.chmod(0o644)
    assert write_connection_file("sluice_results", WHERE), "what others may read is written again"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", ["", "/nowhere/at/all"])
def test_without_a_folder_nothing_is_handed_over(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connection.DIRECTORY_VARIABLE, value)
    with raising(ConfigError, "SLUICE_CONNECTIONS_DIR", repr(value)):
        write_connection_file("sluice_results", WHERE)


class World:
    """Kafka and a database, as the step that provisions meets them."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.topics: list[Topic] = []

    def table(self, where: Database, table: str, query: Query, types: Mapping[str, str], key: str) -> str:
        assert where == WHERE
        assert key == f"isp_hits/{table.removeprefix('isp_hits_')}"
        assert set(types) == {*query.keys, *query.aggregates, "version"}
        self.tables.append(table)
        return "made"

    def provision(self, topic: Topic) -> SimpleNamespace:
        """Kafka's."""
        self.topics.append(topic)
        return SimpleNamespace(message=lambda: "as declared")

    def run(self) -> dict[str, Any]:
        made = ProvisionSinksOperator(task_id="provision_sinks", stream="isp_hits")
        made.__dict__["platform_hook"] = SimpleNamespace(
            topics=self, platform=SimpleNamespace(kubernetes=None)
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(databases, "provision", self.table)
            return made.work(given())


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow knows the connection of the counts."""
    monkeypatch.setenv(CONNECTION, "postgres://results:very-secret@127.0.0.1:5432/results")


@pytest.mark.usefixtures("connected")
def test_every_table_and_compacted_topic_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    result = world.run()
    assert world.tables == ["isp_hits_windows", "isp_hits_audience"]
    assert [topic.name for topic in world.topics] == ["isp-hits-zipcodes", "isp-hits-windows"]
    assert all(topic.config["cleanup.policy"] == "compact" for topic in world.topics)
    said = capsys.readouterr().out
    assert len(result["sinks"]) == 5
    assert all(line in said for line in result["sinks"])
    assert connection.load("sluice_results") == WHERE
    assert "very-secret" not in f"{result} {said}"


def test_a_connection_that_airflow_does_not_know_is_named(folder: Path) -> None:
    with raising(AirflowFailException, "'sluice_results'", CONNECTION):
        World().run()
    assert not list(folder.iterdir())


def test_a_connection_of_another_kind_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONNECTION, "sqlite://x")
    with raising(ConfigError, "sluice_results", "'sqlite'"):
        World().run()
