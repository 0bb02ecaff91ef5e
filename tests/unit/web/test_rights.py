"""Who may see a stream: by the auth manager's answer about its DAG, and in no other words than for none."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.models.dag import DagModel
from fastapi import HTTPException

from sluice.config import streams
from sluice.web import rights

USER: Any = object()


class FakeManager:
    """Answers by team, DAG and entity, as an auth manager with rights per DAG does."""

    def __init__(self, allowed: set[tuple[str | None, str, DagAccessEntity | None]]) -> None:
        self.allowed = allowed

    def filter_authorized_dag_ids(
        self, *, dag_ids: set[str], user: object, method: str, team_name: str | None
    ) -> set[str]:
        assert (user, method) == (USER, "GET")
        return {dag for dag in dag_ids if (team_name, dag, None) in self.allowed}

    def is_authorized_dag(
        self, *, method: str, access_entity: DagAccessEntity, details: Any, user: object
    ) -> bool:
        assert (user, method) == (USER, "GET")
        return (details.team_name, details.id, access_entity) in self.allowed


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    made = FakeManager({("rides", "nyc_taxi_stream", None), (None, "isp_hits_stream", None)})
    teams = {"nyc_taxi_stream": "rides"}
    monkeypatch.setattr(rights, "get_auth_manager", lambda: made)
    monkeypatch.setattr(
        DagModel,
        "get_dag_id_to_team_name_mapping",
        lambda ids: {dag: teams[dag] for dag in ids if dag in teams},
    )
    monkeypatch.setattr(DagModel, "get_team_name", teams.get)
    return made


def test_the_readable_streams_keep_their_order(manager: FakeManager) -> None:
    assert rights.readable_streams(streams.names(), USER) == ["isp_hits", "nyc_taxi"]
    assert rights.readable_streams(["nyc_taxi", "isp_hits"], USER) == ["nyc_taxi", "isp_hits"]
    assert rights.readable_streams([], USER) == []


def test_an_unknown_stream_and_one_that_may_not_be_read_have_one_answer(manager: FakeManager) -> None:
    assert rights.may_read_stream("nyc_taxi", USER) == "nyc_taxi"
    # Allowed by the manager, but no stream's.
    manager.allowed.add((None, "other_stream", None))
    for refused in ("wiki_changes", "other", "../nyc_taxi"):
        with pytest.raises(HTTPException) as found:
            rights.may_read_stream(refused, USER)
        assert (found.value.status_code, found.value.detail) == (404, f"no stream {refused!r}")


def test_a_log_needs_the_right_to_read_logs_too(manager: FakeManager) -> None:
    with pytest.raises(HTTPException, match="404: no stream 'nyc_taxi'"):
        rights.may_read_log("nyc_taxi", USER)
    manager.allowed.add(("rides", "nyc_taxi_stream", DagAccessEntity.TASK_LOGS))
    assert rights.may_read_log("nyc_taxi", USER) == "nyc_taxi"
