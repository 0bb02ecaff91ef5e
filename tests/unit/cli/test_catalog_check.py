"""`sluice catalog-check` says of each promise whether it is kept, and ends with 1 for one that is broken."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluice.catalog_check.promises import RACES, STEPS
from sluice.cli import catalog_check
from sluice.cli.base import UsageError
from sluice.cli.installation import Installation
from tests.support.raising import raising
from tests.unit.catalog_check.sqlite import RequiresNothing, opened

PLATFORM = SimpleNamespace(
    lake=SimpleNamespace(
        catalog=SimpleNamespace(type="sql", address="postgresql://h/d", check_namespace="scratch")
    )
)


def installation(is_running: bool = True) -> Installation:
    made = SimpleNamespace(
        is_running=lambda: is_running, systems=lambda role: SimpleNamespace(platform=PLATFORM)
    )
    return cast("Installation", made)


def on(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[SqlCatalog] = SqlCatalog) -> list[Any]:
    """The connections that it opens, to a catalog of this kind."""
    made: list[Any] = []

    def open_lake(platform: object) -> Any:
        lake = SimpleNamespace(catalog=opened(folder, kind), closed=False)
        lake.close = lambda: setattr(lake, "closed", True)
        made.append(lake)
        return lake

    monkeypatch.setattr(catalog_check.Lake, "open", open_lake)
    return made


def test_a_catalog_that_keeps_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lakes = on(tmp_path, monkeypatch)
    assert catalog_check.check_catalog(installation(), "consumer") == 0
    *kept, last = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[:2] for line in kept] == [["kept", one.promise] for one in (*STEPS, *RACES)]
    assert last == "sql catalog postgresql://h/d keeps all 17 promises"
    assert [lake.closed for lake in lakes] == [True, True]


def test_a_broken_promise_is_named_with_what_was_expected_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on(tmp_path, monkeypatch, RequiresNothing)
    assert catalog_check.check_catalog(installation(), "consumer") == 1
    *_, broken, expected, found, last = capsys.readouterr().out.splitlines()
    assert broken.startswith("BROKEN: stale-publish: ")
    assert expected == "  expected: refused; refs: main at b, w1 at b; snapshots: a, b"
    assert found == "  found: accepted; refs: main at a, w1 at b; snapshots: a, b"
    assert "breaks promise stale-publish" in last
    assert catalog_check.check_catalog(installation(), "consumer", as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["is_ok"] is False
    assert [one["promise"] for one in document["promises"] if not one["is_kept"]] == ["stale-publish"]


def test_a_stack_that_is_down_is_said() -> None:
    with raising(UsageError, "Fix: "):
        catalog_check.check_catalog(installation(is_running=False), "consumer")
