"""Each health status has its meaning, and a way out where a person has to do something."""

from __future__ import annotations

import pytest

from sluice.supervision.rules.guide import GUIDES
from sluice.supervision.rules.status import NO_ACTION, Health


@pytest.mark.parametrize("health", Health)
def test_every_status_has_one(health: Health) -> None:
    guide = GUIDES[health].for_stream("rides")
    assert guide.meaning.endswith(".")
    assert bool(guide.way_out) or health in NO_ACTION
    assert "{" not in guide.way_out
    # A table has the name that stream.toml gives it, not the stream's.
    assert "rides_quarantine" not in guide.way_out


def test_the_way_out_names_the_stream() -> None:
    assert GUIDES[Health.SUSPENDED].for_stream("rides").way_out.startswith("Trigger rides_stream ")
