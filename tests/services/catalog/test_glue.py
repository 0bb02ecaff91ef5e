"""AWS Glue (ministack's): what it keeps, a version that it forgets, an answer that is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from local.runtime.ports import HOST
from sluice.catalog_check import kept
from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import SCHEMA, Finding
from sluice.clients.catalogs.glue import LOCATION, BoundedGlue
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.login.credentials import login
from sluice.config.platform import Platform
from sluice.core.errors import Missing
from tests.support import glue_server
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, passed_on
from tests.support.processes import listening
from tests.support.raising import raising
from tests.support.services import Services


@pytest.fixture
def proxy(services: Services) -> Iterator[CatalogProxy]:
    yield services.glue_proxy
    services.glue_proxy.rule = passed_on


@pytest.fixture
def platform(services: Services) -> Platform:
    return services.on_glue("consumer")


@pytest.fixture
def other(services: Services, table: Table) -> Iterator[Table]:
    """As another client has it, without the proxy."""
    with closing(Lake.open(glue_server.direct(services.glue, services.on_glue("consumer")))) as lake:
        yield lake.catalog.load_table(table.name())


@pytest.fixture
def catalog(platform: Platform) -> Iterator[BoundedGlue]:
    with closing(Lake.open(platform)) as lake:
        assert isinstance(lake.catalog, BoundedGlue)
        yield lake.catalog


@pytest.fixture
def table(services: Services, catalog: BoundedGlue) -> Iterator[Table]:
    catalog.create_namespace_if_not_exists("raw")
    yield catalog.create_table("raw.t", SCHEMA)
    services.glue_proxy.rule = passed_on
    catalog.drop_table("raw.t")


def tried(platform: Platform, namespace: str) -> list[Finding]:
    """What `sluice catalog-check` finds."""
    with closing(Lake.open(platform)) as one, closing(Lake.open(platform)) as other:
        found = kept.tried(one.catalog, other.catalog, namespace)
        assert (kept.read(one.catalog, namespace) is not None) is all(each.is_kept for each in found)
    return found


def set_property(table: Table, value: str) -> None:
    with table.transaction() as change:
        change.set_properties(value=value)


def value_of(catalog: BoundedGlue) -> str | None:
    return catalog.load_table("raw.t").properties.get("value")


# A stream on Glue is not made otherwise: tests/spark.
@pytest.mark.exhaustive
def test_it_keeps_what_a_writer_relies_on(services: Services) -> None:
    found = tried(services.on_glue("consumer"), "all_kept")
    assert [each for each in found if not each.is_kept] == []
    assert len(found) == len(STEPS) + len(RACES)


def forgets_versions(asked: Asked, ask: Ask) -> Answer:
    """As moto's Glue, which ignores them."""
    body = {key: value for key, value in asked.json.items() if key != "VersionId"}
    return ask(asked.with_json(body))


def test_one_that_accepts_an_old_version_is_named(platform: Platform, proxy: CatalogProxy) -> None:
    proxy.rule = forgets_versions
    *others, broken = tried(platform, "forgets")
    assert broken.promise in {race.promise for race in RACES}, broken.found
    assert not broken.is_kept
    assert [each for each in others if not each.is_kept] == []


def test_a_commit_whose_answer_was_lost_is_made_once(
    catalog: BoundedGlue, table: Table, proxy: CatalogProxy
) -> None:
    """botocore sends it again, and it is refused by what it has committed itself."""
    sent = list[str]()

    def noted(asked: Asked, ask: Ask) -> Answer | None:
        sent.append(asked.json["TableInput"]["Parameters"][LOCATION])
        answer = ask(asked)
        return None if len(sent) == 1 else answer

    proxy.rule = glue_server.at_commits(noted)
    set_property(table, "a")
    assert len(sent) == 2, "it was sent again"
    assert sent[0] == sent[1]
    assert value_of(catalog) == "a"


def test_a_commit_is_refused_for_another_one_that_came_between(
    catalog: BoundedGlue, table: Table, other: Table, proxy: CatalogProxy
) -> None:
    proxy.rule = glue_server.before_a_commit(lambda: set_property(other, "other"))
    with raising(CommitFailedException, "concurrent update"):
        set_property(table, "mine")
    assert value_of(catalog) == "other"


def test_a_repeated_commit_is_refused_for_what_another_client_did_meanwhile(
    catalog: BoundedGlue, table: Table, other: Table, proxy: CatalogProxy
) -> None:
    """It may not be taken for the client's own."""

    def unheard(_: Asked, __: Ask) -> None:
        set_property(other, "other")

    proxy.rule = glue_server.at_commits(glue_server.once(unheard))
    with raising(CommitFailedException, "concurrent update"):
        set_property(table, "mine")
    assert value_of(catalog) == "other"


def test_a_role_finds_a_table_by_one_request(platform: Platform, table: Table, proxy: CatalogProxy) -> None:
    asked = list[str]()

    def noted(one: Asked, ask: Ask) -> Answer:
        asked.append(glue_server.action(one))
        return ask(one)

    proxy.rule = noted
    with closing(Lake.open(platform)) as lake:
        assert lake.location("raw.t") == table.metadata_location
        assert lake.table("raw.t").metadata == table.metadata
        assert lake.location("raw.other") is None
        with raising(Missing, "raw.other"):
            lake.table("raw.other")
    assert set(asked) == {"GetTable"}
    assert len(asked) == 4


def test_it_listens_on_loopback_alone(services: Services) -> None:
    address = services.glue
    # Tests of a whole stack start one of their own, in this process too.
    found = listening("/ministack")
    assert address in {f"http://{host}:{port}" for host, port in found}
    assert {host for host, _ in found} == {HOST}


def test_a_role_of_s3_is_the_catalogs_login_too(
    services: Services, platform: Platform, proxy: CatalogProxy
) -> None:
    tokens: list[str] = []

    def noted(asked: Asked, ask: Ask) -> Answer | None:
        tokens.append(asked.headers.get("x-amz-security-token", ""))
        return ask(asked)

    proxy.rule = noted
    arn = "arn:aws:iam::123456789012:role/lake"
    role = replace(platform.s3, role_arn=arn, sts_endpoint=services.minio_url)
    keyless = replace(platform.lake.catalog, access_key="", secret_key="")
    with closing(Lake.open(replace(platform, s3=role, lake=replace(platform.lake, catalog=keyless)))) as lake:
        lake.catalog.create_namespace_if_not_exists("raw")
        made = lake.catalog.create_table("raw.by_role", SCHEMA)
        set_property(made, "1")
        assert lake.table("raw.by_role").properties["value"] == "1"
        lake.catalog.drop_table("raw.by_role")
    assert len(tokens) >= 4
    assert set(tokens) == {login(role).get_frozen_credentials().token}
