"""How a feed's producer is started, and what a bounded run says."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from spark_jobs.common import process
from spark_jobs.common.feed import main
from spark_jobs.common.feed.event import Event, Source
from spark_jobs.common.feed.main import Result
from spark_jobs.common.feed.reader import Counts

SOURCE = Source(lambda data, position: Event(data), lambda position: position)


def test_a_result_is_json_with_every_number() -> None:
    counts = Counts(sent=5, known=2, canary=1, poison=3)
    result = Result({0: 10, 1: 0}, {0: 14, 1: 2, 2: 3}, counts, adopted=False, seconds=1.26)
    assert json.loads(json.dumps(result.document())) == {
        "begin": {"0": 10, "1": 0},
        "ends": {"0": 14, "1": 2, "2": 3},
        # Partition 2 is new.
        "events": 9,
        "sent": 5,
        "known": 2,
        "canary": 1,
        "poison": 3,
        "adopted": False,
        "seconds": 1.3,
    }


@pytest.mark.parametrize(
    "options", [["--events", "0"], ["--minutes", "-1"], ["--events", "many"], ["--hours", "1"]]
)
def test_bounds_that_are_none_are_refused(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["producer.py", *options])
    with pytest.raises(SystemExit) as ended:
        main.run("wiki_changes", SOURCE)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_a_stream_without_a_feed_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", ["producer.py", "--minutes", "1"])
    monkeypatch.setattr(main.platforms, "load", lambda role: SimpleNamespace(feeds={}))
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    assert main.run("nyc_taxi", SOURCE) == 1
    assert "stream 'nyc_taxi' has no feed" in caplog.records[-1].getMessage()
    assert capsys.readouterr().out == ""
