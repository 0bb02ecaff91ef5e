"""How a page tells how the stream stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.clients.errors import Unreachable
from sluice.model.health.status import ALERTING, NEEDS_DECISION, RESTARTABLE, WELL, Health, no_action
from sluice.model.spec.stream import Supervision
from sluice.ui.health import Supervised, standing, tone
from tests.support.pages import health

POLICY = Supervision(interval_seconds=100)
LOOKED = Supervised("w_stream", paused=False, at=1000.0, passed=True)


def test_each_part_with_its_verdict() -> None:
    consumer = health("healthy", "120 records wait", 900.0)
    found = standing({"consumer": consumer, "producer": None}, LOOKED, POLICY, 1001.0)
    assert found["parts"] == [
        {
            "part": "consumer",
            "health": "healthy",
            "tone": "well",
            "message": "120 records wait",
            "since": 900.0,
        },
        {
            "part": "producer",
            "health": None,
            "tone": "none",
            "message": "not looked at yet",
            "since": None,
        },
    ]


def test_what_cannot_be_read_is_red_with_the_reason() -> None:
    (component,) = standing({"consumer": Unreachable("S3 answered 503")}, LOOKED, POLICY, 1001.0)["parts"]
    assert (component["health"], component["tone"]) == ("unknown", "bad")
    assert "S3 answered 503" in component["message"]


@pytest.mark.parametrize(
    ("looks", "now", "current"),
    [
        (LOOKED, 1000.0 + 300, True),
        (LOOKED, 1000.1 + 300, False),
        (replace(LOOKED, passed=False), 1001.0, True),
        (replace(LOOKED, paused=True), 1001.0, False),
        (replace(LOOKED, paused=None), 1001.0, False),
        (replace(LOOKED, at=None, passed=None), 1001.0, False),
    ],
)
def test_a_verdict_is_as_good_as_the_looks_behind_it(looks: Supervised, now: float, current: bool) -> None:
    found = standing({}, looks, POLICY, now)["supervision"]
    assert found == {
        "dag": "w_stream",
        "paused": looks.paused,
        "at": looks.at,
        "passed": looks.passed,
        "current": current,
    }


def test_every_verdict_has_its_tone() -> None:
    tones = {word: tone(word.value) for word in Health}
    assert {word for word, said in tones.items() if said == "well"} == WELL
    assert {word for word, said in tones.items() if said == "suspended"} == {Health.SUSPENDED}
    assert {word for word, said in tones.items() if said == "mending"} == RESTARTABLE
    assert {word for word, said in tones.items() if said == "bad"} == ALERTING | NEEDS_DECISION
    assert tone("of a later version") == "bad"


def test_a_part_in_whose_place_another_one_is_at_work_is_well_as_it_is_for_supervision() -> None:
    assert {word for word in Health if tone(word.value, "producer") in ("well", "suspended")} == no_action(
        "producer"
    )
    superseded = health("fenced", "a load sends in its place", 900.0)
    found = standing({"consumer": superseded, "producer": superseded}, LOOKED, POLICY, 1001.0)
    assert [component["tone"] for component in found["parts"]] == ["bad", "well"]
