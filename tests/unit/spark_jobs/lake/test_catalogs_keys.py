"""Keys and properties that a catalog gives Iceberg for a table: when they end, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.catalog_check.kept import CatalogBroken
from sluice.clients.catalogs.table_keys import KEYS_END
from sluice.config import platform as platforms
from sluice.config.platform_sections.catalog import (
    ADDRESS,
    CHECK_NAMESPACE,
    DELEGATION,
    IN_PLAIN_TEXT,
    VENDED,
)
from sluice.config.platform_sections.checkpoints import Checkpoints
from sluice.config.platform_sections.s3 import PLAIN_TEXT
from sluice.config.reading.toml import ConfigError, dump
from spark_jobs.common.lake import loaded_keys, promises
from spark_jobs.common.lake.loaded_keys import RENEWAL, LoadedKeys
from spark_jobs.common.lake.promises import CatalogOverrides, check_catalog, check_table
from spark_jobs.common.queries.run import check_keys
from tests.support.raising import raising

NOW = 1000.0


class Properties(dict[str, str]):
    """Java's map."""

    def containsKey(self, key: str) -> bool:  # noqa: N802  (Java's)
        return key in self


def io(properties: dict[str, str], *credentials: dict[str, str]) -> Any:
    return SimpleNamespace(
        properties=lambda: Properties(properties),
        credentials=lambda: [SimpleNamespace(config=lambda one=one: Properties(one)) for one in credentials],
    )


@pytest.mark.parametrize(
    ("found", "after"),
    [
        (io({RENEWAL: "v1/credentials", KEYS_END: "1060000"}), None),
        (io({KEYS_END: "1060000"}), 40),
        (io({}, {KEYS_END: "1090000"}, {KEYS_END: "1030000"}), 20),
        # As the docs say of keys without an end, and of one that cannot be read.
        *((found, 600) for found in (io({}, {}), io({KEYS_END: "soon"}), io({}, {KEYS_END: ""}))),
    ],
)
def test_a_table_is_loaded_again_after_two_thirds_of_the_time_of_keys_that_iceberg_does_not_renew(
    found: Any, after: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = NOW
    monkeypatch.setattr(loaded_keys, "time", SimpleNamespace(time=lambda: now))
    keys = LoadedKeys(session({}, access_delegation=VENDED))
    keys.came(found)
    now = NOW + (1e9 if after is None else after - 1)
    assert not keys.are_due
    now += 2
    assert keys.are_due == (after is not None)
    # The same keys, as of a catalog that is not asked for any.
    usual = LoadedKeys(session({}))
    usual.came(found)
    now = NOW + 1e9
    assert not usual.are_due


def session(said: dict[str, str], kind: str = "rest", access_delegation: str = "", **further: str) -> Any:
    """With a catalog whose server says this. ``further``: declared."""
    own = {"type": kind, "s3.delete-enabled": "false", "io-impl": "S3FileIO", DELEGATION: access_delegation}
    own |= further
    conf = {f"spark.sql.catalog.lake.{key}": value for key, value in own.items()}
    catalog = SimpleNamespace(icebergCatalog=lambda: SimpleNamespace(properties=lambda: own | said))
    manager = SimpleNamespace(catalog=lambda name: catalog)
    state = SimpleNamespace(catalogManager=lambda: manager)
    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda key, default: conf.get(key, default)),
        _jsparkSession=SimpleNamespace(sessionState=lambda: state),
    )


@pytest.mark.parametrize(("key", "value"), [("s3.delete-enabled", "true"), ("io-impl", "HadoopFileIO")])
def test_what_commits_rely_on_is_not_overridden(key: str, value: str) -> None:
    with raising(CatalogOverrides, key, value, "Fix:"):
        check_catalog(session({key: value}))
    with raising(CatalogOverrides, "raw.a", key, value, "Fix:"):
        check_table(session({}), "raw.a", SimpleNamespace(io=lambda: io({key: value})))
    check_catalog(session({"s3.endpoint": "https://other", "s3.delete-enabled": "false"}))
    check_table(session({}), "raw.a", SimpleNamespace(io=lambda: io({"client.region": "eu"})))
    # A database overrides nothing.
    check_catalog(session({key: value}, "jdbc"))


@pytest.mark.parametrize(
    ("key", "fix"),
    [
        ("s3.endpoint", "plain_text = true in [s3]"),
        (RENEWAL, "let it say an address with https://"),
        ("s3.signer.uri", "let it say an address with https://"),
        ("s3.signer.endpoint", "let it say an address with https://"),
    ],
)
def test_a_catalog_leads_nothing_to_plain_text(key: str, fix: str) -> None:
    plain, words = {key: "http://other:9000/path"}, (f"{key} http://other:9000, another", "Fix: ", fix)
    for where in ({"uri": "https://catalog"}, {"uri": "http://127.0.0.1:1"}):
        with raising(CatalogOverrides, "the catalog says", *words):
            check_catalog(session(plain, **where))
        for found in (io(plain), io({}, {}, plain)):
            with raising(CatalogOverrides, "table raw.a: the catalog says", *words):
                check_table(session({}, **where), "raw.a", SimpleNamespace(io=lambda found=found: found))
    for good in ("https://other", "http://127.0.0.1:9000", "v1/credentials"):
        check_catalog(session({key: good}, uri="https://catalog"))
    for declared in ({"uri": "http://catalog"}, {"uri": "https://catalog", IN_PLAIN_TEXT: "true"}):
        check_catalog(session(plain, **declared, **{PLAIN_TEXT: "true"}))
        found = session({}, **declared, **{PLAIN_TEXT: "true"})
        check_table(found, "raw.a", SimpleNamespace(io=lambda: io({}, plain)))


def test_queries_do_not_write_their_checkpoints_with_the_keys_of_a_table() -> None:
    document = {
        "role": "consumer",
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "s3": {"access_key": "k", "secret_key": "s"},
        "lake": {
            "warehouse": "s3://w/lake",
            "ledger": "s3://w/ledger",
            "catalog": {"type": "rest", "uri": "https://catalog.test", "access_delegation": VENDED},
        },
        "source": {"bucket": "source"},
        "checkpoints": {"root": "s3a://w/checkpoints"},
    }
    made = platforms.parse(dump(cast("Any", document)), "consumer.toml")
    with raising(ConfigError, "consumer.toml", VENDED, "s3a://w/checkpoints", "Fix:"):
        check_keys(made)
    check_keys(replace(made, checkpoints=Checkpoints("/srv/checkpoints")))
    usual = replace(made.lake, catalog=replace(made.lake.catalog, access_delegation=""))
    check_keys(replace(made, lake=usual))


def test_the_connection_that_a_catalog_is_tried_by_is_closed_also_if_it_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(*_: Any) -> None:
        assert not closed
        raise CatalogBroken("no")

    closed: list[bool] = []
    other = SimpleNamespace(catalog="other", close=lambda: closed.append(True))
    monkeypatch.setattr(promises, "opened", lambda _: other)
    monkeypatch.setattr(promises, "catalog_of", lambda _: "one")
    monkeypatch.setattr(promises.kept, "check", breaks)
    with raising(CatalogBroken, "no"):
        promises._check(((ADDRESS, "https://of-this-test"), (CHECK_NAMESPACE, "n")))
    assert closed
