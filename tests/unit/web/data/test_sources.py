"""What pages read, kept for many readers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.catalog_check import kept
from sluice.catalog_check.promises import VERSION
from sluice.catalog_check.status import Kept
from sluice.clients.kafka.query_progress import ProgressSnapshot
from sluice.clients.lake.results.table import Results
from sluice.clients.registry.client import RegistryClient
from sluice.config import streams
from sluice.config.platform import DIRECTORY_VARIABLE, stamp
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.registry import Registry
from sluice.config.reading.toml import ConfigError
from sluice.core.errors import Unreachable
from sluice.core.registry.errors import RegistryUnreachable
from sluice.systems import Systems
from sluice.web.data import sources as module
from sluice.web.data.cache import TtlCache
from tests.support import lake as lakes
from tests.support.pages import (
    QUERY,
    STREAM,
    FakeResults,
    FakeSources,
    make_results,
    spec,
)


def no_progress() -> Any:
    raise AssertionError("progress was not asked for")


def test_results_are_read_once_for_all_who_ask_within_a_moment() -> None:
    results = FakeResults(make_results(time.time(), windows=2, users=2))
    made = FakeSources(lambda *_: results.read, no_progress)
    assert made.results(spec(), QUERY) is made.results(spec(), QUERY)
    assert results.reads == 1


def test_results_are_read_for_the_last_day() -> None:
    asked: list[float] = []

    def read(since: float) -> Any:
        asked.append(since)
        return make_results(time.time(), windows=1, users=1)

    FakeSources(lambda *_: read, no_progress).results(spec(), QUERY)
    assert time.time() - asked[0] == pytest.approx(86_400, abs=60)


def test_what_failed_is_opened_again() -> None:
    results = FakeResults(make_results(time.time(), windows=1, users=1))
    answers: list[Any] = [Unreachable("PostgreSQL is away"), results]

    def open_results(*_: Any) -> Callable[[float], Results]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return results.read

    made = FakeSources(open_results, no_progress)
    with pytest.raises(Unreachable, match="PostgreSQL is away"):
        made.results(spec(), QUERY)
    results.error = Unreachable("S3 is away")
    with pytest.raises(Unreachable, match="S3 is away"):
        made.results(spec(), QUERY)
    results.error = None
    # Opened once only: a reader remembers what it has read.
    assert made.results(spec(), QUERY) is results.results


def test_progress_is_read_once_for_all_who_ask() -> None:
    asked: list[tuple[float, float]] = []

    def read(since: float, now: float) -> ProgressSnapshot:
        asked.append((since, now))
        return ProgressSnapshot({})

    made = FakeSources(lambda *_: FakeResults().read, lambda: read)
    assert made.progress() is made.progress()
    assert [now - since for since, now in asked] == [3 * 3600]
    assert asked[0][1] == pytest.approx(time.time(), abs=60)


def test_the_platforms_own_are_opened_with_the_role_airflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    made = module.sources()
    for ask in (lambda: made.results(spec(), QUERY), made.progress, lambda: made.lives(spec())):
        with pytest.raises(ConfigError, match=r"airflow\.toml"):
            ask()
    file = tmp_path / "airflow.toml"
    file.write_text(PLATFORM)
    file.chmod(0o600)
    made.open_progress()
    assert made.ledger(STREAM).uri("x") == f"s3://ledger/all/{STREAM}/x"


PLATFORM = """
role = "airflow"
[kafka]
bootstrap_servers = "127.0.0.1:1"
[s3]
access_key = "a"
secret_key = "b"
endpoint = "http://127.0.0.1:1"
[lake]
warehouse = "s3://lake"
ledger = "s3://ledger/all"
[lake.catalog]
type = "sql"
uri = "postgresql://127.0.0.1:1/lake"
username = "airflow"
password = "c"
[source]
bucket = "source"
[checkpoints]
root = "/nowhere"
"""


def test_the_schema_of_a_table_is_read_once_also_if_the_registry_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = Systems()
    down = SimpleNamespace(need_registry=lambda: Registry("http://127.0.0.1:1"))
    vars(systems).update(lake=lakes.make(tmp_path), s3=None, platform=down)
    made = module.Sources()
    made._systems = systems
    taxi = streams.load("nyc_taxi")
    declared = replace(taxi, topic=replace(taxi.topic, registry=True))
    asked: list[Any] = []

    def latest(self: RegistryClient, subject: str) -> Any:
        asked.append(subject)
        raise RegistryUnreachable(f"{self.name}: refused")

    monkeypatch.setattr(RegistryClient, "latest", latest)
    found = made.schema(declared)
    assert [one.name for one in found.columns] == lakes.ROWS.names
    assert (found.latest, found.problem) == (None, "http://127.0.0.1:1: refused")
    assert made.schema(declared) is found
    assert asked == [f"{taxi.topic.name}-value"]


@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_the_catalog_is_asked_once_for_many_pages_and_a_database_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked: list[str] = []

    def found(catalog: Any, namespace: str) -> Kept:
        asked.append(namespace)
        return Kept(VERSION, 0.0, "untouched-ref")

    monkeypatch.setattr(kept, "found", found)
    systems = Systems()
    catalog = Catalog(kind, "https://catalog.test")
    platform = SimpleNamespace(lake=SimpleNamespace(catalog=catalog))
    vars(systems).update(lake=SimpleNamespace(catalog=None), platform=platform)
    made = module.Sources()
    made._systems = systems
    texts = {made.catalog().text for _ in range(3)}
    assert len(texts) == 1
    assert asked == (["sluice_check"] if kind == "rest" else [])
    assert made.catalog().is_broken is (kind == "rest")


def test_a_secret_that_was_replaced_is_read_by_new_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    # Not cached for seconds.
    monkeypatch.setattr(module, "_stamp", TtlCache(lambda: stamp("airflow"), 0.0))
    (tmp_path / "key").write_text("first")
    (tmp_path / "airflow.toml").write_text(f'[s3]\nsecret_key = {{ file = "{tmp_path / "key"}" }}\n')
    made = module.sources()
    assert module.sources() is made
    (tmp_path / "key").write_text("the second")
    assert module.sources() is not made
