"""The embedded schema registry, as its clients meet it: logins, rights, and what a crash leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from local.runtime.ports import HOST
from local.runtime.registry_access import ADMIN
from local.services import registry
from local.stack.stack import wait_until
from tests.support.processes import listening
from tests.support.services import Services

RIDES: dict[str, Any] = {
    "type": "record",
    "name": "Ride",
    "fields": [{"name": "zone", "type": "long"}],
}
# Records that were written without it cannot be read with it.
REQUIRED = {"name": "fare", "type": "double"}
SUBJECT = "rides-value"
LATEST = f"/compatibility/subjects/{SUBJECT}/versions/latest"


class Registry:
    """Confluent's API with the logins of the stack's roles."""

    def __init__(self, services: Services) -> None:
        self.url, self._secrets = services.registry, services.stack.secrets

    def ask(self, path: str, role: str = "consumer", body: Any = None, method: str = "") -> Any:
        """The answer, as (status, document)."""
        name = ADMIN if role == "admin" else f"sluice-{role}"
        answer = httpx.request(
            method or ("GET" if body is None else "POST"),
            f"{self.url}{path}",
            json=body,
            auth=(name, self._secrets[f"registry_{role}"]),
            timeout=20,
            trust_env=False,
        )
        return answer.status_code, answer.json()


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("registry"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def served(services: Services) -> Registry:
    made = Registry(services)
    status, registered = made.ask(f"/subjects/{SUBJECT}/versions", "producer", avro(RIDES))
    assert status == 200, registered
    return made


def avro(schema: dict[str, Any]) -> dict[str, str]:
    return {"schema": json.dumps(schema)}


def with_field(field: dict[str, Any]) -> dict[str, str]:
    return avro(RIDES | {"fields": [*RIDES["fields"], field]})


def schema_id(served: Registry) -> int:
    status, found = served.ask(f"/subjects/{SUBJECT}/versions/latest")
    assert status == 200, found
    return int(found["id"])


def test_roles_read_and_only_airflow_and_producers_register(served: Registry) -> None:
    for role in ("airflow", "consumer", "reader", "producer"):
        assert served.ask("/subjects", role) == (200, [SUBJECT])
    for role in ("consumer", "reader"):
        assert served.ask("/subjects/other-value/versions", role, avro(RIDES))[0] == 403
    number = schema_id(served)
    status, registered = served.ask(f"/subjects/{SUBJECT}/versions", "airflow", avro(RIDES))
    assert (status, registered["id"]) == (200, number)
    status, found = served.ask(f"/schemas/ids/{schema_id(served)}")
    assert (status, json.loads(found["schema"])) == (200, RIDES)
    assert served.ask("/schemas/ids/4711")[1]["error_code"] == 40403


@pytest.mark.parametrize("login", [None, ("sluice-consumer", "wrong")])
def test_without_a_right_login_nothing_is_told(served: Registry, login: tuple[str, str] | None) -> None:
    answer = httpx.get(f"{served.url}/subjects", auth=login, timeout=20, trust_env=False)
    assert answer.status_code == 401


def test_versions_are_compatible_backwards_unless_a_subject_declares_otherwise(served: Registry) -> None:
    assert served.ask("/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert served.ask(LATEST, body=with_field(REQUIRED)) == (200, {"is_compatible": False})
    assert served.ask(LATEST, body=with_field(REQUIRED | {"default": 0.0})) == (200, {"is_compatible": True})
    versions = f"/subjects/{SUBJECT}/versions"
    assert served.ask(versions, "producer", with_field(REQUIRED))[0] == 409
    anything = {"compatibility": "NONE"}
    assert served.ask("/config", "producer", anything, "PUT")[0] == 403, "the default is no producer's"
    assert served.ask(f"/config/{SUBJECT}", "producer", anything, "PUT")[0] == 200
    assert served.ask(versions, "producer", with_field(REQUIRED))[0] == 200


def test_it_listens_on_loopback_alone(services: Services, served: Registry) -> None:
    ports = services.stack.ports
    # Other tests of this process may have a registry of their own.
    found = listening("quarkus-run.jar", services.stack.home.id)
    assert found == {(HOST, ports[registry.NAME]), (HOST, ports[registry.HEALTH])}


def test_its_passwords_are_in_no_argument_and_no_log(services: Services, served: Registry) -> None:
    secrets = services.stack.secrets
    own = [value for name, value in secrets.items() if "registry" in name]
    argv = " ".join(registry.program(services.registry_context).command)
    log = (services.stack.home.logs / "registry.log").read_text()
    assert "started in" in log
    assert not [value for value in own if value in argv or value in log]


def test_schemas_survive_a_crash_under_their_ids(services: Services, served: Registry) -> None:
    number, rule = schema_id(served), served.ask(f"/config/{SUBJECT}")
    assert served.ask("/config", "admin", {"compatibility": "FULL"}, "PUT")[0] == 200
    with asking(served, f"/schemas/ids/{number}") as statuses:
        services.crash("registry", 0)
    # A schema that is not found rejects records: that one is there from the first answer on.
    assert 200 in statuses
    assert 404 not in statuses
    assert schema_id(served) == number
    assert served.ask(f"/config/{SUBJECT}") == rule
    assert served.ask("/config") == (200, {"compatibilityLevel": "FULL"})


@contextmanager
def asking(served: Registry, path: str) -> Iterator[list[int]]:
    """Ask it again and again meanwhile. The list: the statuses of its answers, as soon as there are any."""
    statuses, ended = list[int](), threading.Event()

    def ask() -> None:
        while not ended.wait(0.01):
            with suppress(httpx.TransportError):
                statuses.append(served.ask(path)[0])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield statuses
        wait_until("an answer", lambda: bool(statuses) and statuses[-1] == 200, 30)
    finally:
        ended.set()
        thread.join()


def test_it_comes_back_with_its_database(services: Services, served: Registry) -> None:
    number = schema_id(served)
    services.crash("postgres", 1)
    wait_until("the registry", lambda: served.ask(f"/schemas/ids/{number}")[0] == 200, 30)


def test_its_user_of_the_database_has_that_database_alone(services: Services, served: Registry) -> None:
    with services.postgres() as connection, connection.cursor() as cursor:
        for database, may in {"registry": True, "lake": False, "airflow": False, "results": False}.items():
            cursor.execute("select has_database_privilege('registry', %s, 'connect')", [database])
            assert cursor.fetchone() == (may,), database
        cursor.execute(
            "select rolsuper or rolcreatedb or rolcreaterole from pg_roles where rolname = 'registry'"
        )
        assert cursor.fetchone() == (False,)
