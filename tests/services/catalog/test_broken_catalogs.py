"""Catalogs that break a promise, behind a proxy that breaks one of Iceberg's own: each is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from sluice.catalog_check import kept
from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import ACCEPTED, Finding
from sluice.clients.lake.catalog import Lake
from sluice.core.errors import Unreachable
from tests.support import broken_catalogs
from tests.support.broken_catalogs import BROKEN
from tests.support.catalog_proxy import Answer, Ask, Asked, CatalogProxy, Rule, passed_on, refusal, through
from tests.support.raising import raising
from tests.support.services import Services

# Each of ten rounds takes up to a second.
SLOW = ("branch-moved-meanwhile", "commit-meanwhile")
ORDER = [*(step.promise for step in STEPS), *(race.promise for race in RACES)]


@pytest.fixture(scope="module")
def proxy(services: Services) -> Iterator[CatalogProxy]:
    with CatalogProxy(services.rest_catalog) as made:
        yield made


@pytest.fixture
def namespace() -> str:
    return f"check{uuid.uuid4().hex[:6]}"


def tried(services: Services, proxy: CatalogProxy, rule: Rule, namespace: str) -> list[Finding]:
    """What `sluice catalog-check` finds."""
    proxy.rule = rule
    platform = through(proxy.url, services.on_rest("consumer"))
    with closing(Lake.open(platform)) as one, closing(Lake.open(platform)) as other:
        found = kept.tried(one.catalog, other.catalog, namespace)
        proxy.rule = passed_on
        has_kept = kept.read(one.catalog, namespace) is not None
        scratch = [name for _, name in one.catalog.list_tables(namespace) if name != kept.TABLE]
    assert has_kept is all(finding.is_kept for finding in found)
    assert scratch == [], "they are dropped"
    return found


@pytest.mark.exhaustive
def test_a_proxy_that_changes_nothing_breaks_nothing(
    services: Services, proxy: CatalogProxy, namespace: str
) -> None:
    found = tried(services, proxy, passed_on, namespace)
    assert [one.promise for one in found if one.is_kept] == ORDER


def test_there_is_a_broken_catalog_of_each_promise() -> None:
    assert list(BROKEN) == ORDER


@pytest.mark.parametrize(
    "promise", [pytest.param(one, marks=[pytest.mark.exhaustive] if one in SLOW else []) for one in ORDER]
)
def test_a_catalog_that_breaks_one_promise_is_named_by_it(
    services: Services, proxy: CatalogProxy, namespace: str, promise: str
) -> None:
    *before, broken = tried(services, proxy, BROKEN[promise], namespace)
    assert (broken.promise, broken.is_kept) == (promise, False), broken.found
    assert [one.promise for one in before] == ORDER[: ORDER.index(promise)]
    assert broken.found != broken.expected


def test_a_catalog_that_refuses_what_it_has_committed_is_named(
    services: Services, proxy: CatalogProxy, namespace: str
) -> None:
    """What the table has is as expected, and a writer would take its own commit for another one's."""
    broken = tried(services, proxy, broken_catalogs.refuses_what_it_committed, namespace)[-1]
    assert (broken.promise, broken.is_kept) == ("publish", False)
    assert broken.found.partition(";")[2] == broken.expected.partition(";")[2]
    assert broken.expected.startswith(ACCEPTED)


@pytest.mark.parametrize("status", [500, 503])
def test_an_unknown_outcome_is_no_broken_promise_and_none_that_is_kept(
    services: Services, proxy: CatalogProxy, namespace: str, status: int
) -> None:
    def loses_answers(asked: Asked, ask: Ask) -> Answer:
        answer = ask(asked)
        is_lost = asked.is_commit and answer.status == 200
        return refusal(status, "ServiceFailureException", "the database left") if is_lost else answer

    with raising(Unreachable, "scratch table", "the database left"):
        tried(services, proxy, loses_answers, namespace)
    proxy.rule = passed_on
    with closing(Lake.open(through(proxy.url, services.on_rest("consumer")))) as lake:
        assert kept.read(lake.catalog, namespace) is None
        assert lake.catalog.list_tables(namespace) == [], "the scratch table is dropped"
