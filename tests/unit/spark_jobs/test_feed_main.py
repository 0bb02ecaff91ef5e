"""How a feed's producer is started, and what a bounded run says."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local import platform_files
from local.home import Home
from local.ports import DEFAULTS
from sluice.model import exits
from spark_jobs.common.feed import main
from spark_jobs.common.feed.main import Result
from spark_jobs.common.feed.reader import Counts


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
def test_bounds_that_are_none_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.run("wiki_changes", options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's platform file, as a stack writes it."""
    home = Home(tmp_path)
    platform_files.write(home.platform, platform_files.documents(home, DEFAULTS, home.secrets()))
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(home.platform))


@pytest.fixture
def _own_signals() -> Iterator[None]:
    """What a process does with signals is its own, and not that of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("platform", "_own_signals")
def test_a_stream_without_a_feed_is_said(
    capsys: pytest.CaptureFixture[str], levels: Callable[..., list[str]]
) -> None:
    assert main.run("nyc_taxi", ["--minutes", "1"]) == exits.CONFIGURATION
    assert levels("'nyc_taxi'", "feed")[-1] == "ERROR"
    assert capsys.readouterr().out == ""
