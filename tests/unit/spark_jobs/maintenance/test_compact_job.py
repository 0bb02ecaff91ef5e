"""The job that compacts the tables of a stream: which, and what follows a failure."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.common.maintenance import compact as job
from spark_jobs.common.maintenance.row_diff import OFFSET_COLUMNS, RowsDiffer
from tests.support.raising import raising


def test_a_table_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    compacted: list[tuple[str, tuple[str, ...]]] = []
    spark = SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda name: "quarantine" not in name))

    def compact(spark: Any, table: str, before: Any, unique: Any) -> bool:
        compacted.append((table, tuple(unique)))
        if table == "raw.wiki_changes":
            raise RowsDiffer("other rows")
        return True

    monkeypatch.setattr(job.platforms, "load", lambda role: None)
    monkeypatch.setattr(job.session, "start", lambda *given: spark)
    monkeypatch.setattr(job, "compact", compact)
    checked: list[str] = []
    monkeypatch.setattr(job.known_tables, "check", lambda spark, platform, stream, name: checked.append(name))
    with raising(RowsDiffer, "other rows"):
        job.main("wiki_changes", ["--before", "2026-03-02"])
    # One that is lost is none that its writer has not created yet.
    assert checked == ["raw.wiki_changes", "raw.wiki_changes_quarantine", "queries.wiki_changes"]
    assert compacted == [("raw.wiki_changes", OFFSET_COLUMNS), ("queries.wiki_changes", ())]
