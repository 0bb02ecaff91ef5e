"""What was found of a catalog is kept there: it is tried once for each version of the promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ServerError
from pyiceberg.table import Table
from pyiceberg.table.update import SetPropertiesUpdate

from sluice.catalog_check import kept, trial
from sluice.catalog_check.kept import CatalogBroken
from sluice.config.platform_sections.catalog import ADDRESS
from tests.support.raising import raising
from tests.unit.catalog_check.sqlite import RequiresNothing, opened


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the scratch tables of each trial."""
    made: list[str] = []

    def counted(catalog: SqlCatalog, other: SqlCatalog, name: str) -> object:
        made.append(name)
        return trial.findings(catalog, other, name, rounds=2)

    monkeypatch.setattr(kept, "findings", counted)
    return made


def check(folder: Path, kind: type[SqlCatalog] = SqlCatalog) -> None:
    kept.check(opened(folder, kind), opened(folder, kind), "scratch", "https://catalog.test")


def test_a_catalog_is_tried_once(tmp_path: Path, trials: list[str]) -> None:
    check(tmp_path)
    check(tmp_path)
    assert trials == ["scratch.catalog_check"]
    found = kept.read(opened(tmp_path), "scratch")
    assert found is not None
    assert found.version == kept.VERSION


def test_it_is_tried_again_for_other_promises(
    tmp_path: Path, trials: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(tmp_path)
    monkeypatch.setattr(kept, "VERSION", kept.VERSION + 1)
    assert kept.read(opened(tmp_path), "scratch") is None
    check(tmp_path)
    assert len(trials) == 2


@pytest.mark.parametrize("text", ["", "yes", "[1]", '{"version": 1}'])
def test_what_another_hand_wrote_counts_for_nothing(tmp_path: Path, trials: list[str], text: str) -> None:
    check(tmp_path)
    with opened(tmp_path).load_table("scratch.catalog_check").transaction() as change:
        change.set_properties({kept.PROPERTY: text})
    assert kept.read(opened(tmp_path), "scratch") is None
    check(tmp_path)
    assert len(trials) == 2


def test_a_broken_catalog_is_refused_each_time_by_the_promise(tmp_path: Path, trials: list[str]) -> None:
    for _ in range(2):
        with raising(CatalogBroken, "https://catalog.test", "stale-publish", "expected refused", "Fix: "):
            check(tmp_path, RequiresNothing)
    assert len(trials) == 2, "it may be another version of the server by now"
    assert kept.read(opened(tmp_path), "scratch") is None
    known = kept.found(opened(tmp_path), "scratch")
    assert known is not None
    assert (known.version, known.broken) == (kept.VERSION, "stale-publish")


def test_a_broken_catalog_that_was_repaired_is_used(tmp_path: Path, trials: list[str]) -> None:
    with raising(CatalogBroken, "stale-publish"):
        check(tmp_path, RequiresNothing)
    check(tmp_path)
    known = kept.found(opened(tmp_path), "scratch")
    assert known is not None
    assert (known.broken, kept.read(opened(tmp_path), "scratch")) == ("", known)
    text = opened(tmp_path).load_table("scratch.catalog_check").properties[kept.PROPERTY]
    assert json.loads(text).keys() == {"version", "at", "place"}


def test_a_lost_race_is_cleared_by_a_person_and_not_by_a_consumer_that_starts(
    tmp_path: Path, trials: list[str]
) -> None:
    one = opened(tmp_path)
    check(tmp_path)
    document = {"version": kept.VERSION, "at": 0.0, "broken": "commit-meanwhile", "place": kept._place(one)}
    with one.load_table("scratch.catalog_check").transaction() as change:
        change.set_properties({kept.PROPERTY: json.dumps(document)})
    trials.clear()
    with raising(CatalogBroken, "commit-meanwhile", "a matter of chance", "Fix: ", "catalog-check"):
        check(tmp_path)
    assert not trials
    kept.tried(opened(tmp_path), opened(tmp_path), "scratch")
    check(tmp_path)
    assert len(trials) == 1


@pytest.mark.parametrize("changed", [ADDRESS, "warehouse", "prefix"])
def test_another_catalog_that_has_the_tables_by_now_is_tried(
    tmp_path: Path, trials: list[str], changed: str
) -> None:
    """The property comes with the scratch table, which was registered there."""
    check(tmp_path)
    one, other = opened(tmp_path), opened(tmp_path)
    one.properties[changed] = f"file://{tmp_path}/another"
    assert kept.found(one, "scratch") is None, "a page says of this one that it is not tried"
    kept.check(one, other, "scratch", "https://another.test")
    assert len(trials) == 2
    kept.check(one, other, "scratch", "https://another.test")
    assert len(trials) == 2


def test_what_is_kept_has_no_login(tmp_path: Path, trials: list[str]) -> None:
    catalog = opened(tmp_path)
    catalog.properties["uri"] = "postgresql://user:secret@host/lake"
    kept.check(catalog, opened(tmp_path), "scratch", "")
    assert "secret" not in catalog.load_table("scratch.catalog_check").properties[kept.PROPERTY]


class RefusesProperties(RequiresNothing):
    def commit_table(self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        if any(isinstance(one, SetPropertiesUpdate) for one in updates):
            raise ServerError("no properties here")
        return super().commit_table(table, requirements, updates)


def test_a_broken_catalog_that_does_not_take_the_finding_is_refused_by_the_promise(
    tmp_path: Path, trials: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with raising(CatalogBroken, "stale-publish"):
        check(tmp_path, RefusesProperties)
    assert kept.found(opened(tmp_path), "scratch") is None
    assert "no properties here" in caplog.text


class CommitsMeanwhile(RequiresNothing):
    """Another process commits first, ``times``."""

    times = 0

    def commit_table(self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]) -> Any:
        is_finding = any(isinstance(one, SetPropertiesUpdate) for one in updates)
        if is_finding and table.name()[-1] == kept.TABLE and self.times:
            self.times -= 1
            raise CommitFailedException("another came first")
        return super().commit_table(table, requirements, updates)


@pytest.mark.parametrize(("times", "is_known"), [(2, True), (9, False)])
def test_a_broken_promise_is_written_beside_other_processes_or_it_is_said_that_it_is_not(
    tmp_path: Path,
    trials: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    is_known: bool,
) -> None:
    monkeypatch.setattr(CommitsMeanwhile, "times", times)
    with raising(CatalogBroken, "stale-publish"):
        check(tmp_path, CommitsMeanwhile)
    assert (kept.found(opened(tmp_path), "scratch") is not None) is is_known
    assert ("other commits came first" in caplog.text) is not is_known
