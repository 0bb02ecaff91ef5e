"""Keys that a catalog gives for a table: what the answer says of them, and when they are renewed."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients import backoff
from sluice.clients.catalogs import pointers, vended
from sluice.clients.catalogs.table_keys import RETRY_SECONDS, USUAL_SECONDS, TableKeys, table_keys
from sluice.clients.catalogs.vended import Vended, client_with
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from tests.support.raising import raising

ROLE = S3("role", "hidden", "http://minio:9000", path_style=True)
ANSWER = {
    "s3.access-key-id": "its",
    "s3.secret-access-key": "secret-of-table",
    "s3.session-token": "token-of-table",
    "s3.endpoint": "https://s3.test",
    "client.region": "eu-west-1",
    "s3.path-style-access": "false",
    "s3.session-token-expires-at-ms": "1300000",
}


def test_the_answer_says_how_its_bucket_is_reached() -> None:
    found = table_keys("raw.a", ANSWER, ROLE, 1000)
    keys = S3("its", "secret-of-table", "https://s3.test", "eu-west-1", session_token="token-of-table")
    assert (found.s3, found.received, found.ends) == (keys, 1000, 1300)
    assert "secret-of-table" not in repr(found)
    assert "token-of-table" not in repr(found)
    # Given again, they need no new connections.
    assert found == table_keys("raw.a", ANSWER, ROLE, 1010)
    few = {key: ANSWER[key] for key in ("s3.access-key-id", "s3.secret-access-key")}
    found = table_keys("raw.a", few | {"s3.region": "us-west-2"}, ROLE, 1000)
    assert (found.s3.endpoint, found.s3.region) == ("http://minio:9000", "us-west-2")
    assert found.s3.path_style
    assert (found.s3.session_token, found.ends) == ("", None)


@pytest.mark.parametrize("missing", ["s3.access-key-id", "s3.secret-access-key"])
def test_a_table_without_keys_is_refused(missing: str) -> None:
    with raising(Refused, "table raw.a", "gives no keys", "Fix:") as error:
        table_keys("raw.a", {**ANSWER, missing: ""}, ROLE, 1000)
    assert error.value.code is ErrorCode.CATALOG_KEYS


def test_a_catalog_leads_no_objects_to_plain_text() -> None:
    plain = {**ANSWER, "s3.endpoint": "http://user:hidden@other:9000/x"}
    with raising(
        Refused, "table raw.a", "s3.endpoint http://other:9000", "plain_text = true in [s3]"
    ) as error:
        table_keys("raw.a", plain, ROLE, 1000)
    assert error.value.code is ErrorCode.CATALOG_BROKEN
    assert "hidden" not in str(error.value)
    with raising(Refused, "no address"):
        table_keys("raw.a", {**ANSWER, "s3.endpoint": "http://[1"}, ROLE, 1000)
    declared = replace(ROLE, plain_text=True)
    assert table_keys("raw.a", plain, declared, 1000).s3.endpoint == plain["s3.endpoint"]
    here = {**ANSWER, "s3.endpoint": "http://[::1]:9000"}
    assert table_keys("raw.a", here, ROLE, 1000).s3.endpoint == "http://[::1]:9000"


def test_keys_are_due_after_two_thirds_of_their_time() -> None:
    found = table_keys("raw.a", ANSWER, ROLE, 1000)
    assert [found.is_due(now) for now in (1199, 1200)] == [False, True]
    assert [found.has_ended(now) for now in (1299, 1300)] == [False, True]
    endless = table_keys("raw.a", {**ANSWER, "s3.session-token-expires-at-ms": ""}, ROLE, 1000)
    assert [endless.is_due(1000 + USUAL_SECONDS * part) for part in (0.6, 0.7)] == [False, True]
    assert not endless.has_ended(1e12)


class Catalog:
    """Gives keys that live for ``seconds``; ``failure``: what it raises instead; ``asked``: for what."""

    def __init__(self) -> None:
        self.now, self.seconds, self.number = 1000.0, 60.0, 0
        self.failure: Exception | None = None
        self.asked: list[str] = []

    def find(self, name: str) -> Any:
        self.asked.append(name)
        if self.failure is not None:
            raise self.failure
        self.number += 1
        return pointers.Pointer("", None, self.answer()) if name != "raw.gone" else None

    def answer(self) -> Mapping[str, str]:
        ends = str(int((self.now + self.seconds) * 1000))
        return {**ANSWER, "s3.access-key-id": str(self.number), "s3.session-token-expires-at-ms": ends}


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    made = Catalog()
    monkeypatch.setattr(vended, "time", SimpleNamespace(time=lambda: made.now))
    monkeypatch.setattr(backoff, "now", lambda: made.now)
    monkeypatch.setattr(pointers, "opened", lambda properties: made)
    vended._vended.cache_clear()
    yield made
    vended._vended.cache_clear()


def key(found: TableKeys) -> str:
    return found.s3.access_key


def test_the_catalog_is_asked_when_keys_are_due_and_by_one_thread(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    threads = [threading.Thread(target=keys.keys, args=("raw.a",)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    catalog.now += 39
    assert (key(keys.keys("raw.a")), catalog.asked) == ("1", ["raw.a"])
    catalog.now += 2
    assert (key(keys.keys("raw.a")), catalog.asked) == ("2", ["raw.a", "raw.a"])


def test_a_catalog_that_gives_the_same_again_is_not_asked_at_each_request(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    keys.keys("raw.a")
    catalog.now, catalog.seconds = catalog.now + 45, 15
    for _ in range(10):
        keys.keys("raw.a")
    assert len(catalog.asked) == 2
    catalog.now, catalog.seconds = catalog.now + 10, 60
    assert key(keys.keys("raw.a")) == "3"


def test_keys_that_are_refused_are_not_asked_for_at_each_request(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    keys.keys("raw.a")
    catalog.now += RETRY_SECONDS
    # Revoked: of several threads the first asks, and the others take what it got.
    assert {key(keys.renewed("raw.a")) for _ in range(5)} == {"2"}
    catalog.now += RETRY_SECONDS
    assert key(keys.renewed("raw.a")) == "3"


def test_keys_that_have_not_ended_outlive_a_catalog_that_does_not_answer(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    keys.keys("raw.a")
    catalog.failure = Unreachable("the catalog is away")
    catalog.now += 59
    assert key(keys.keys("raw.a")) == "1"
    catalog.now += 1
    with raising(Unreachable, "away"):
        keys.keys("raw.a")
    catalog.failure = None
    catalog.now += 2
    assert key(keys.keys("raw.a")) == "2"
    with raising(Missing, "raw.gone"):
        keys.keys("raw.gone")


def test_a_catalog_that_is_back_is_asked_when_keys_end(catalog: Catalog) -> None:
    catalog.seconds = 900
    keys = Vended(ROLE, ())
    keys.keys("raw.a")
    catalog.failure = Unreachable("the catalog is away")
    catalog.now += 600
    catalog.asked.clear()
    for _ in range(600):
        assert key(keys.keys("raw.a")) == "1"
        catalog.now += 0.5
    assert 10 <= len(catalog.asked) <= 30, "ever later"
    catalog.failure = None
    assert key(keys.keys("raw.a")) == "2", "not the failure of half a minute ago"


@pytest.mark.parametrize("has_had_some", [False, True])
def test_without_good_keys_a_catalog_that_is_away_is_not_asked_at_each_request(
    catalog: Catalog, has_had_some: bool
) -> None:
    keys = Vended(ROLE, ())
    if has_had_some:
        keys.keys("raw.a")
        catalog.now += 100
    catalog.asked.clear()
    catalog.failure = Unreachable("the catalog is away")
    for _ in range(600):
        with raising(Unreachable, "the catalog is away"):
            keys.keys("raw.a")
        catalog.now += 0.1
    assert 3 <= len(catalog.asked) <= 10
    catalog.failure = None
    catalog.now += 30
    assert key(keys.keys("raw.a")) == ("2" if has_had_some else "1")


def test_keys_that_end_before_they_come_are_not_asked_for_at_each_request(catalog: Catalog) -> None:
    catalog.seconds = -60
    keys = Vended(ROLE, ())
    assert {key(keys.keys("raw.a")) for _ in range(10)} == {"1"}
    catalog.now += RETRY_SECONDS
    assert key(keys.keys("raw.a")) == "2"


def test_what_the_catalog_says_anyway_is_taken_when_keys_are_due(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    keys.keys("raw.a")
    keys.given("raw.a", {**ANSWER, "s3.access-key-id": "newer", "s3.session-token-expires-at-ms": "9999000"})
    assert key(keys.keys("raw.a")) == "1", "new keys are new connections"
    catalog.now += 41
    keys.given("raw.a", {**ANSWER, "s3.access-key-id": "older", "s3.session-token-expires-at-ms": "1050000"})
    keys.given("raw.a", {**ANSWER, "s3.access-key-id": "newer", "s3.session-token-expires-at-ms": "9999000"})
    assert (key(keys.keys("raw.a")), len(catalog.asked)) == ("newer", 1)


def test_an_object_is_of_the_table_below_whose_folder_it_is() -> None:
    keys = Vended(ROLE, ())
    keys.follow("raw.a", "s3://lake/raw/a")
    keys.follow("raw.a_quarantine", "s3a://lake/raw/a_quarantine/")
    found = [
        keys.table_of(bucket, place)
        for bucket, place in (
            ("lake", "raw/a/data/1.parquet"),
            ("lake", "raw/a_quarantine/data/1.parquet"),
            ("lake", "raw/ab/data/1.parquet"),
            ("other", "raw/a/data/1.parquet"),
            ("lake", "ledger/raw/a/1.json"),
        )
    ]
    assert found == ["raw.a", "raw.a_quarantine", None, None, None]


def test_a_task_has_the_newest_keys_and_shares_them_in_its_process(catalog: Catalog) -> None:
    driver = Vended(ROLE, (("uri", "http://catalog"), ("token", "hidden-token")))
    driver.follow("raw.a", "s3://lake/raw/a")
    driver.keys("raw.a")
    sent = pickle.dumps(driver)
    worker, again = (pickle.loads(sent) for _ in range(2))  # noqa: S301  (its own)
    assert worker is again is not driver
    assert worker.table_of("lake", "raw/a/1") == "raw.a"
    assert (key(worker.keys("raw.a")), len(catalog.asked)) == ("1", 1)
    # The task outlives them.
    catalog.now += 41
    assert (key(worker.keys("raw.a")), len(catalog.asked)) == ("2", 2)
    for text in (repr(driver), repr(worker)):
        assert "hidden" not in text
        assert "of-table" not in text
    assert client_with(ROLE, None).meta.endpoint_url == "http://minio:9000"


def test_a_batch_takes_good_keys_to_its_workers(catalog: Catalog) -> None:
    keys = Vended(ROLE, ())
    for name in ("raw.a", "raw.b"):
        keys.follow(name, f"s3://lake/{name}")
    keys.renew_due()
    keys.renew_due()
    assert catalog.asked == ["raw.a", "raw.b"]
    catalog.now += 41
    keys.renew_due()
    assert catalog.asked == ["raw.a", "raw.b"] * 2
