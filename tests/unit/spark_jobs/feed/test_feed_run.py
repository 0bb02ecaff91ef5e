"""How a feed's producer is started."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.runtime import roles
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from sluice.core.processes import exits
from spark_jobs.common.feed import run


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's platform file, as a stack writes it."""
    home = StackDir(tmp_path)
    roles.write(home.platform, roles.documents(home, Network(DEFAULTS), home.secrets()))
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(home.platform))


@pytest.fixture
def _own_signals() -> Iterator[None]:
    """What a process does with signals is its own, and not that of the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("platform", "_own_signals")
def test_a_stream_without_a_feed_is_said(levels: Callable[..., list[str]]) -> None:
    assert run.run("nyc_taxi") == exits.CONFIGURATION
    assert levels("'nyc_taxi'", "feed")[-1] == "ERROR"
