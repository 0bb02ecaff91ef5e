"""Users of the FAB auth manager, which knows rights per DAG: its own roles, and such as an admin makes."""

from __future__ import annotations

from typing import Any

from airflow.utils.session import create_session

from sluice.config import streams

AUTH_MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
# A test logs in more often than FAB lets a person, and a right that is taken away is gone at once.
SETTINGS = {"CORE__AUTH_MANAGER": AUTH_MANAGER, "FAB__AUTH_RATE_LIMITED": "False", "FAB__CACHE_TTL": "1"}
# The stream that some users may not read.
HIDDEN = "wiki_changes"
KINDS = ("stream", "load", "backfill", "change", "maintenance", "reconciliation")

READ = "can_read"
_SEES = ((READ, "Website"), (READ, "Plugins"), ("menu_access", "DAGs"))
_LOGS = ((READ, "Task Instances"), (READ, "Task Logs"), (READ, "DAG Runs"))
# Only Op and Admin among FAB's own roles have the right that Airflow's navigation asks for.
PAGES = "Pages"
ALL_BUT_ONE, WITHOUT_LOGS, WITHOUT_WEBSITE = "All but one", "Without logs", "Without website"
ROLES: dict[str, tuple[tuple[str, str], ...]] = {
    PAGES: ((READ, "Website"), (READ, "Plugins")),
    ALL_BUT_ONE: (*_SEES, *_LOGS),
    WITHOUT_LOGS: _SEES,
    WITHOUT_WEBSITE: ((READ, "Plugins"), *_LOGS),
}
# User -> roles.
USERS: dict[str, tuple[str, ...]] = {
    "viewer": ("Viewer", PAGES),
    "user": ("User", PAGES),
    "op": ("Op",),
    "admin": ("Admin",),
    "viewer-as-shipped": ("Viewer",),
    "user-as-shipped": ("User",),
    "all-but-one": (ALL_BUT_ONE,),
    "without-logs": (WITHOUT_LOGS,),
    "without-website": (WITHOUT_WEBSITE,),
    "leaving": (ALL_BUT_ONE,),
    "no-stream": (PAGES,),
}


def is_used(manager: object) -> bool:
    """Not by its class: the module is imported where FAB is used alone."""
    return f"{type(manager).__module__}.{type(manager).__name__}" == AUTH_MANAGER


def add(passwords: dict[str, str]) -> None:
    """Make USERS and ROLES, and the permissions of each DAG as Airflow does when it has parsed one."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
    from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager

    with get_application_builder() as builder:
        security: Any = builder.sm
        for role, permissions in ROLES.items():
            made = security.add_role(role)
            for action, resource in permissions:
                security.add_permission_to_role(made, security.create_permission(action, resource))
        for user, roles in USERS.items():
            found = [security.find_role(role) for role in roles]
            assert all(found), roles
            assert security.add_user(user, user, "Test", f"{user}@example.org", found, passwords[user])
    with create_session() as session:
        for stream in streams.names():
            for kind in KINDS:
                dag: Any = _Dag(f"{stream}_{kind}", None if stream == HIDDEN else _READERS)
                FabAuthManager.sync_dag_perms(dag, session=session)


_READERS = {role: {READ} for role in (ALL_BUT_ONE, WITHOUT_LOGS, WITHOUT_WEBSITE)}


class _Dag:
    """What FAB asks of a DAG."""

    def __init__(self, dag_id: str, access_control: dict[str, set[str]] | None) -> None:
        self.dag_id, self.access_control = dag_id, access_control
