"""What a registry is asked, and what its answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluice.clients.registry import http
from sluice.clients.registry.client import RegistryClient
from sluice.config.platform_sections.registry import Registry
from sluice.core.registry import schemas
from sluice.core.registry.errors import (
    IncompatibleVersion,
    RefusedSchema,
    RegistryRefused,
    RegistryUnreachable,
    UnknownSchema,
)
from sluice.core.registry.json_text import MAX_TEXT_BYTES
from sluice.core.registry.schemas import AVRO, JSON, Reference, registered
from tests.support.raising import raising
from tests.support.registry_server import AVRO_TEXT, Answer, RegistryServer, error, serving

pytestmark = pytest.mark.usefixtures("socket_enabled")
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "price", "type": "a.Money"}]}'
MONEY = '{"type": "record", "name": "a.Money", "fields": [{"name": "unit", "type": "a.Unit"}]}'
UNIT = '{"type": "enum", "name": "a.Unit", "symbols": ["EUR"]}'


def reference(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": version}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with serving() as made:
        yield made


@pytest.fixture
def client(server: RegistryServer) -> RegistryClient:
    return RegistryClient(Registry(server.url, name="tests"))


def test_a_schema_by_its_id(server: RegistryServer, client: RegistryClient) -> None:
    server.answers["/schemas/ids/7"] = Answer({"schema": AVRO_TEXT, "maxId": 9, "guid": "x"})
    found = registered(client.bundle(7))
    assert (found.id, found.type, found.text) == (7, AVRO, AVRO_TEXT)


def test_references_are_fetched_once_each_with_theirs(server: RegistryServer, client: RegistryClient) -> None:
    both = [reference("a.Money", "money/v", 3), reference("a.Unit", "unit")]
    server.answers["/schemas/ids/7"] = Answer({"schema": ORDER, "references": both})
    of_money = {"id": 5, "version": 3, "schema": MONEY, "references": [reference("a.Unit", "unit")]}
    server.answers["/subjects/money%2Fv/versions/3?deleted=true"] = Answer(of_money)
    server.answers["/subjects/unit/versions/1?deleted=true"] = Answer({"id": 4, "version": 1, "schema": UNIT})
    bundle = client.bundle(7)
    found = registered(bundle)
    money = json.loads(found.text)["fields"][0]["type"]
    assert (money["name"], money["fields"][0]["type"]["symbols"]) == ("a.Money", ["EUR"])
    assert bundle.definition.references == (
        Reference("a.Money", "money/v", 3),
        Reference("a.Unit", "unit", 1),
    )
    assert len(server.requests) == 3


@pytest.mark.parametrize("code", [40401, 40402])
def test_a_reference_that_is_not_there_refuses_the_schema(
    server: RegistryServer, client: RegistryClient, code: int
) -> None:
    server.answers["/schemas/ids/7"] = Answer({"schema": ORDER, "references": [reference("a.Money", "m", 3)]})
    server.answers["/subjects/m/versions/3?deleted=true"] = error(code)
    with raising(
        RefusedSchema, "schema id 7 refers to version 3 of subject 'm', which the registry does not"
    ):
        client.bundle(7)


def test_references_have_a_number_at_most(
    server: RegistryServer, client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.clients.registry import client as module

    monkeypatch.setattr(module, "MAX_REFERENCES", 3)
    server.answers["/schemas/ids/7"] = Answer({"schema": ORDER, "references": [reference("a", "s", 1)]})
    for number in range(1, 9):
        one = {"schema": UNIT, "references": [reference("a", "s", number + 1)]}
        server.answers[f"/subjects/s/versions/{number}?deleted=true"] = Answer(one)
    with raising(RefusedSchema, "schema id 7 refers to more than 3 schemas"):
        client.bundle(7)
    assert len(server.requests) == 4


def test_no_more_is_fetched_than_a_schema_may_have(server: RegistryServer, client: RegistryClient) -> None:
    text = " " * (MAX_TEXT_BYTES - 9)
    several = [reference("a", "s", number) for number in range(1, 20)]
    server.answers["/schemas/ids/7"] = Answer({"schema": ORDER, "references": several})
    for number in range(1, 20):
        server.answers[f"/subjects/s/versions/{number}?deleted=true"] = Answer({"schema": text})
    with raising(RefusedSchema, "schema id 7", schemas.MAX_TOTAL_BYTES):
        client.bundle(7)
    assert len(server.requests) == 5
    server.answers["/schemas/ids/8"] = Answer({"schema": "x" * (MAX_TEXT_BYTES + 1)})
    with raising(RefusedSchema, "schema id 8", MAX_TEXT_BYTES + 1):
        registered(client.bundle(8))


def test_what_is_not_there_is_unknown(server: RegistryServer, client: RegistryClient) -> None:
    server.answers["/schemas/ids/7"] = error(40403)
    server.answers["/subjects/s/versions/latest"] = error(40401)
    server.answers["/subjects/s/versions"] = error(40401)
    with raising(UnknownSchema, "schema id 7 is unknown to the schema registry 'tests'"):
        client.bundle(7)
    with raising(UnknownSchema, "version latest of subject 's'"):
        client.latest("s")
    with raising(UnknownSchema, "subject 's'"):
        client.versions("s")


def test_an_address_that_is_not_the_apis_is_no_unknown_schema(client: RegistryClient) -> None:
    with raising(RegistryRefused, "/schemas/ids/7 answered 404", "Fix: correct url"):
        client.bundle(7)


def test_versions_of_a_subject(server: RegistryServer, client: RegistryClient) -> None:
    one = {"subject": "s", "id": 4, "version": 2, "schemaType": "JSON", "schema": '{"type": "object"}'}
    server.answers["/subjects/s/versions/latest"] = Answer(one)
    server.answers["/subjects/s/versions"] = Answer([2, 1])
    found = client.latest("s")
    assert (found.subject, found.version, found.schema.id, found.schema.type) == ("s", 2, 4, JSON)
    assert client.versions("s") == [1, 2]


@pytest.mark.parametrize("code", [40401, 40408])
def test_the_level_of_a_subject_is_its_own_or_that_of_all(
    server: RegistryServer, client: RegistryClient, code: int
) -> None:
    server.answers["/config/own?defaultToGlobal=true"] = Answer({"compatibilityLevel": "FULL"})
    server.answers["/config/other?defaultToGlobal=true"] = error(code)
    server.answers["/config?defaultToGlobal=true"] = Answer({"compatibilityLevel": "BACKWARD"})
    assert (client.compatibility("own"), client.compatibility("other")) == ("FULL", "BACKWARD")
    server.answers["/config?defaultToGlobal=true"] = Answer({"compatibility": "BACKWARD"})
    with raising(RegistryRefused, "/config?defaultToGlobal=true answered 200, and not a level"):
        client.compatibility("other")


@pytest.mark.parametrize("body", [None, [], 7, {}, {"schema": 7}, {"schema": "", "references": [7]}])
def test_a_schema_of_another_form_is_refused(
    server: RegistryServer, client: RegistryClient, body: Any
) -> None:
    server.answers["/schemas/ids/7"] = server.answers["/subjects/s/versions/latest"] = Answer(body)
    server.answers["/subjects/s/versions"] = Answer({"a": 1})
    with raising(RegistryRefused, "/schemas/ids/7 answered 200, and not a schema"):
        client.bundle(7)
    with raising(RegistryRefused, "answered 200, and not a number under"):
        client.latest("s")
    with raising(RegistryRefused, "answered 200, and not a list of numbers"):
        client.versions("s")


def test_a_schema_that_is_beyond_every_bound_is_refused_and_not_the_registry(
    server: RegistryServer, client: RegistryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 1_000)
    server.answers["/schemas/ids/7"] = Answer({"schema": "x" * 1_000})
    server.answers["/subjects/s/versions/latest"] = Answer(b"[" * 1_000)
    server.answers["/subjects/s/versions"] = Answer(["x" * 1_000])
    with raising(RefusedSchema, "schema id 7 cannot be read", "answered more than"):
        client.bundle(7)
    with raising(RegistryRefused, "answered more than"):
        client.versions("s")
    monkeypatch.undo()
    server.answers["/subjects/s/versions/latest"] = Answer(b"[" * 100_000)
    with raising(RefusedSchema, "version latest of subject 's' cannot be read", "nested too deeply"):
        client.latest("s")


def test_fields_that_producers_encrypt_are_read_with_a_warning(
    server: RegistryServer, client: RegistryClient, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"domainRules": [{"name": "r", "type": "ENCRYPT"}]}
    server.answers["/schemas/ids/7"] = Answer({"schema": AVRO_TEXT, "ruleSet": rules})
    assert client.bundle(7).definition.text == AVRO_TEXT
    assert "schema id 7 has a rule that encrypts fields" in caplog.text


VERSIONS, OF_SUBJECT = "POST /subjects/t%2Fx-value/versions", "POST /subjects/t%2Fx-value"


def test_a_schema_is_registered_and_found_again(server: RegistryServer, client: RegistryClient) -> None:
    server.answers |= {VERSIONS: Answer({"id": 7}), OF_SUBJECT: Answer({"id": 7, "version": 2})}
    assert client.register("t/x-value", AVRO_TEXT) == 7
    assert client.id_of("t/x-value", AVRO_TEXT) == 7
    assert server.posted == [{"schema": AVRO_TEXT}] * 2
    assert server.paths == [VERSIONS, OF_SUBJECT]


@pytest.mark.parametrize(
    ("answer", "raised", "said"),
    [
        (error(409, "Incompatible: " + "x" * 300 + "\nfare"), IncompatibleVersion, "xx\\u000afare'. Fix: "),
        (error(42201, "not a schema"), RefusedSchema, "not a schema"),
        (error(40401), RegistryRefused, "40401"),
        (Answer({"error_code": 40301, "message": "no"}, 403), RegistryRefused, "a missing right"),
        (Answer({}, 500), RegistryUnreachable, "answered 500"),
        (Answer({"id": 0}), RegistryRefused, "not the id of a schema"),
        (Answer({"id": 1 << 31}), RegistryRefused, "not the id of a schema"),
        (Answer([7]), RegistryRefused, "not a number under id"),
    ],
)
def test_a_schema_that_is_not_registered(
    server: RegistryServer, client: RegistryClient, answer: Answer, raised: type[Exception], said: str
) -> None:
    server.answers[VERSIONS] = answer
    with raising(raised, said, "Fix: "):
        client.register("t/x-value", AVRO_TEXT)


@pytest.mark.parametrize("code", [40401, 40403])
def test_a_subject_without_the_schema(server: RegistryServer, client: RegistryClient, code: int) -> None:
    server.answers[OF_SUBJECT] = error(code)
    with raising(UnknownSchema, "'t/x-value'", "Fix: clear provision_topic"):
        client.id_of("t/x-value", AVRO_TEXT)
    # 409 and 422 are no answers to it.
    server.answers[OF_SUBJECT] = error(409)
    with raising(RegistryRefused, "not the id"):
        client.id_of("t/x-value", AVRO_TEXT)


def test_the_versions_that_an_id_is(server: RegistryServer, client: RegistryClient) -> None:
    path = "/schemas/ids/7/versions"
    server.answers[path] = Answer([{"subject": "s", "version": 2}, {"subject": "a-value", "version": 10}])
    assert client.uses(7) == [("a-value", 10), ("s", 2)]
    others: list[Any] = [None, {}, [7], [{"subject": "s"}], [{"subject": "s", "version": "2"}]]
    for body in others:
        server.answers[path] = Answer(body)
        with raising(RegistryRefused, "answered 200, and not a list of subjects and versions"):
            client.uses(7)
    server.answers[path] = error(40403)
    with raising(UnknownSchema, "schema id 7"):
        client.uses(7)


def test_the_subjects_of_an_id_are_also_those_of_deleted_versions(
    server: RegistryServer, client: RegistryClient
) -> None:
    path = "/schemas/ids/7/versions"
    server.answers[f"{path}?deleted=true"] = Answer([{"subject": "s", "version": 2}])
    assert client.subjects(7) == {"s"}
    server.answers[f"{path}?deleted=true"] = error(40403)
    assert client.subjects(7) == frozenset()
