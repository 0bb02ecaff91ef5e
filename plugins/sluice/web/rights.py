"""Who may see a stream: each user who may read its DAGs in Airflow, by Airflow's own auth manager."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import HTTPException

from sluice.config import streams


def dag_of(stream: str) -> str:
    """The DAG that stands for a stream's: each stream has it, also one with an invalid declaration."""
    return f"{stream}_stream"


def readable_streams(names: Iterable[str], user: BaseUser) -> list[str]:
    """Those of ``names`` whose DAGs ``user`` may read, in the same order."""
    names = list(names)
    team_of = DagModel.get_dag_id_to_team_name_mapping([dag_of(name) for name in names])
    by_team: dict[str | None, set[str]] = defaultdict(set)
    for name in names:
        by_team[team_of.get(dag_of(name))].add(dag_of(name))
    manager = get_auth_manager()
    allowed: set[str] = set()
    for team, dags in by_team.items():
        allowed |= manager.filter_authorized_dag_ids(dag_ids=dags, user=user, method="GET", team_name=team)
    return [name for name in names if dag_of(name) in allowed]


def may_read_stream(stream: str, user: GetUserDep) -> str:
    """Dependency of a route below ``/streams/{stream}``: its name, if the user may read its DAGs.

    The answer about a stream that the user may not read is the one about a stream that does not exist.
    """
    if stream not in streams.names() or stream not in readable_streams([stream], user):
        raise HTTPException(404, f"no stream {stream!r}")
    return stream


def may_read_log(stream: str, user: GetUserDep) -> str:
    """As :func:`may_read_stream`, of a user who may read the logs of the stream's tasks too."""
    name = may_read_stream(stream, user)
    details = DagDetails(id=dag_of(name), team_name=DagModel.get_team_name(dag_of(name)))
    entity = DagAccessEntity.TASK_LOGS
    if not get_auth_manager().is_authorized_dag(
        method="GET", access_entity=entity, details=details, user=user
    ):
        raise HTTPException(404, f"no stream {stream!r}")
    return name


@dataclass(frozen=True)
class Reader:
    """What the user of a request may see."""

    user: BaseUser

    def streams(self, names: Iterable[str]) -> list[str]:
        return readable_streams(names, self.user)

    def may_read_log(self, stream: str) -> bool:
        try:
            may_read_log(stream, self.user)
        except HTTPException:
            return False
        return True


def reader(user: GetUserDep) -> Reader:
    return Reader(user)
