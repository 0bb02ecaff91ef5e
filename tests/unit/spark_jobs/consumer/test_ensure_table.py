"""A consumer begins while its predecessor still makes the table follow."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.common.consumer import run
from spark_jobs.common.lake.tables import IncompatibleSchema
from tests.support.raising import raising

NONE: Any = None


def ensured(monkeypatch: pytest.MonkeyPatch, followed: list[str], is_refused: set[str]) -> str:
    """``followed``: what the table follows each time that it is looked at."""

    def ensure(spark: Any, spec: Any, record: Any) -> None:
        if record in is_refused:
            raise IncompatibleSchema(f"not {record}")

    monkeypatch.setattr(run, "followed_by", lambda *_: followed.pop(0))
    monkeypatch.setattr(run, "record_type", lambda spark, spec, text: text)
    monkeypatch.setattr(run.tables, "ensure", ensure)
    return run.ensure_table(NONE, NONE, NONE)


def test_columns_that_came_meanwhile_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ensured(monkeypatch, ["one", "two"], {"one"}) == "two"
    assert ensured(monkeypatch, ["one"], set()) == "one"


def test_a_table_that_is_another_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with raising(IncompatibleSchema, "not one"):
        ensured(monkeypatch, ["one", "one"], {"one"})
