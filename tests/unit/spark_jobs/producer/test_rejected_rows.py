"""Rows that a producer rejects are put into no table that is lost, and into no new one in its place."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_jobs.common.lake import known_tables, source_quarantine, tables
from spark_jobs.common.producer import generated


def test_generated_rows_go_to_no_table_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def check(spark: Any, platform: Any, stream: str, *names: str) -> None:
        asked.append((stream, *names))
        raise tables.TableLost(f"{names} is lost")

    job, made = MagicMock(), MagicMock()
    job.spec.name, job.spec.quarantine_table = "isp_hits", "raw.isp_hits_quarantine"
    monkeypatch.setattr(known_tables, "check", check)
    monkeypatch.setattr(tables, "create", made)
    # Columns need a JVM.
    monkeypatch.setattr(generated, "F", MagicMock())
    monkeypatch.setattr(source_quarantine, "F", MagicMock())
    monkeypatch.setattr(source_quarantine, "SourceQuarantine", made)
    with pytest.raises(tables.TableLost):
        generated._quarantine(job, MagicMock(), MagicMock())
    assert asked == [("isp_hits", "raw.isp_hits_quarantine")]
    assert not made.called
