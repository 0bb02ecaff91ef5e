"""What the observer's process writes, its readers restore."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.config import streams
from sluice.supervision.observer import documents
from sluice.supervision.observer.live import Live
from tests.support import observed

NOW = 1_800_000_000.0


@pytest.mark.parametrize("name", ["nyc_taxi", "wiki_changes", "isp_hits"])
def test_all_that_is_known_of_a_component_is_restored(name: str) -> None:
    spec = streams.load(name)
    for live in [Live(), *observed.streams([spec], NOW).lives.values()]:
        restored = documents.parse(json.loads(json.dumps(documents.dump(live))))
        assert documents.dump(restored) == documents.dump(live)
        assert (restored.report, restored.sample, restored.lag) == (live.report, live.sample, live.lag)


def test_samples_are_restored() -> None:
    samples = [live.sample for live in observed.streams([streams.load("isp_hits")], NOW).lives.values()]
    found = [sample for sample in samples if sample is not None]
    assert found
    assert documents.parse_samples(json.loads(json.dumps(documents.dump_samples(found)))) == found


@pytest.mark.parametrize("wrong", [{}, {"at": 1.0}, documents.dump(Live()) | {"report": {"health": "odd"}}])
def test_another_form_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"no document of a component|validation error"):
        documents.parse(wrong)
