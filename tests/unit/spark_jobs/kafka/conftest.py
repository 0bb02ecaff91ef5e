"""The clock of heartbeats and of their watchdog."""

from __future__ import annotations

import pytest

from spark_jobs.common.kafka import heartbeat
from tests.support.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(heartbeat, "monotonic", made)
    return made
