"""`sluice batches` and `sluice trace` print what is found, or say in one line why not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from sluice.cli import app, trace
from sluice.cli.base import UsageError
from sluice.cli.installation import Host, Installation
from sluice.cli.trace import Asked, Batches
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.batches import BatchLog
from sluice.systems import Systems
from sluice.trace.find import StreamTrace
from sluice.trace.rows import Absence, Absent, RowTrace
from tests.support import lake as lakes
from tests.support.batches import batch, readers_log, writers_log
from tests.support.memory_s3 import MemoryS3

ABSENT = RowTrace("nyc", None, None, None, (), Absent(Absence.BEYOND_END, "partition 3 ends at 100"))


def stack(folder: Path, is_running: bool = True) -> Installation:
    systems = Systems()
    vars(systems).update(lake=lakes.make(folder), s3=None)
    return cast("Installation", SimpleNamespace(is_running=lambda: is_running, systems=lambda role: systems))


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")


@pytest.mark.usefixtures("wide")
def test_batches_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    s3 = MemoryS3()
    batches = [batch(n, n * 10, n * 10 + 10) for n in range(12)]
    writers_log(s3).record(batches[:10])
    with patch.object(BatchLog, "open", lambda *_: readers_log(s3, batches[8:])):
        assert trace.show_batches(stack(tmp_path), Batches("nyc_taxi", limit=11)) == 0
        out = capsys.readouterr().out
        assert [f"0=[{n}0,{n + 1}0)" in out for n in range(12)] == [False] + [True] * 11
        assert "2026-02-02 02:40:11.000" in out
        assert trace.show_batches(stack(tmp_path / "2"), Batches("nyc_taxi"), as_json=True) == 0
        found = json.loads(capsys.readouterr().out)
    assert [one["batch_id"] for one in found] == list(reversed(range(12)))
    assert found[0]["is_lost"] is False


@pytest.mark.usefixtures("wide")
def test_batches_say_which_offsets_have_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = WithoutRecord(skipped=OffsetRanges.of({0: [(10, 13)]}))
    long = WithoutRecord(address="s3://lake/raw/t/without-record/x.json", documented=5)
    read = [batch(n, n * 10, n * 10 + 10) for n in range(3)]
    batches = [
        read[0],
        replace(read[1], rows=6, without_record=skipped),
        replace(read[2], rows=5, without_record=long),
    ]
    with patch.object(BatchLog, "open", lambda *_: readers_log(MemoryS3(), batches)):
        assert trace.show_batches(stack(tmp_path), Batches("nyc_taxi")) == 0
        out = capsys.readouterr().out
        # A cell has several lines.
        found = "".join(line.split("│")[9].strip() + " " for line in out.splitlines() if "│" in line)
        assert "3 tombstones, which the stream skips" in found
        assert "5 with their reasons in a document" in found
        assert [one.rejected for one in batches] == [0, 1, 0]
    with patch.object(BatchLog, "open", lambda *_: readers_log(MemoryS3(), batches[:1])):
        assert trace.show_batches(stack(tmp_path / "2"), Batches("nyc_taxi")) == 0
        assert "without a record" not in capsys.readouterr().out


def test_a_row_is_a_list_of_its_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []

    class Fake:
        def offset(self, *where: int) -> RowTrace:
            asked.append(where)
            return ABSENT

        def row(self, *which: Any) -> RowTrace:
            asked.append(which)
            return ABSENT

    with patch.object(StreamTrace, "open", lambda *_: Fake()):
        by_row = Asked("nyc_taxi", source="a" * 16, row=0)
        for number, which in enumerate((Asked("nyc_taxi", 3, 120), by_row)):
            assert trace.show_trace(stack(tmp_path / str(number)), which) == 0
            assert "beyond the topic's end" in capsys.readouterr().out
        assert trace.show_trace(stack(tmp_path / "j"), by_row, as_json=True) == 0
    assert asked == [(3, 120), ("a" * 16, 0), ("a" * 16, 0)]
    assert json.loads(capsys.readouterr().out)["absent"]["why"] == "beyond the topic's end"


def test_it_says_why_there_is_no_answer(tmp_path: Path) -> None:
    def missing(*_: Any) -> None:
        raise Missing("no load has planned it", ErrorCode.DOCUMENT_NOT_FOUND)

    def host() -> tuple[Any, Host]:
        return made, Host(installation=lambda: stack(tmp_path / "1"))

    made, _ = app.build()
    with (
        patch.object(StreamTrace, "open", missing),
        patch.object(app, "build", host),
        pytest.raises(UsageError, match="no load") as caught,
    ):
        app.run(["trace", "nyc_taxi", "--object", "s3://a/b"])
    assert caught.value.code == "SLU-105"
    with (
        patch.object(StreamTrace, "open", lambda *_: None),
        pytest.raises(UsageError, match="no row is named"),
    ):
        trace.show_trace(stack(tmp_path / "2"), Asked("nyc_taxi", partition=1))
    with pytest.raises(UsageError, match="does not run"):
        trace.show_batches(stack(tmp_path / "3", is_running=False), Batches("nyc_taxi"))
    with pytest.raises(UsageError, match="yesterday is no time"):
        trace.time_of("yesterday")
